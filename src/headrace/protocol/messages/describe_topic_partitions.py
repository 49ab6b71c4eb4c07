"""DescribeTopicPartitions: Metadata by the page, for clusters with very many partitions."""

from headrace.protocol.messages.metadata import OPERATIONS_UNKNOWN
from headrace.protocol.schema import BOOL, INT16, INT32, STRING, UUID, ApiMessages, Array, F, Struct

_CURSOR = Struct(
    F("topic_name", STRING),
    F("partition_index", INT32),
)

API = ApiMessages(
    key=75,
    name="DescribeTopicPartitions",
    versions=(0, 0),
    flexible_since=0,
    request=(
        F("topics", Array(F("name", STRING))),
        F("response_partition_limit", INT32, default=2_000),
        F("cursor", _CURSOR, nullable_since=0, default=None),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F(
            "topics",
            Array(
                F("error_code", INT16),
                F("name", STRING, nullable_since=0),
                F("topic_id", UUID),
                F("is_internal", BOOL),
                F(
                    "partitions",
                    Array(
                        F("error_code", INT16),
                        F("partition_index", INT32),
                        F("leader_id", INT32),
                        F("leader_epoch", INT32, default=-1),
                        F("replica_nodes", Array(INT32)),
                        F("isr_nodes", Array(INT32)),
                        F("eligible_leader_replicas", Array(INT32), nullable_since=0, default=None),
                        F("last_known_elr", Array(INT32), nullable_since=0, default=None),
                        F("offline_replicas", Array(INT32)),
                    ),
                ),
                F("topic_authorized_operations", INT32, default=OPERATIONS_UNKNOWN),
            ),
        ),
        F("next_cursor", _CURSOR, nullable_since=0, default=None),
    ),
)
