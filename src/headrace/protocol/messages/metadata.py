"""Metadata: brokers, topics and who leads which partition."""

from headrace.protocol.schema import BOOL, INT16, INT32, STRING, UUID, ApiMessages, Array, F

# What "authorised operations" hold when nobody asked for them.
OPERATIONS_UNKNOWN = -(1 << 31)

API = ApiMessages(
    key=3,
    name="Metadata",
    versions=(0, 13),
    flexible_since=9,
    request=(
        # Null asks for every topic; so does an empty list at version 0.
        F(
            "topics",
            Array(
                F("topic_id", UUID, since=10),
                F("name", STRING, nullable_since=10),
            ),
            nullable_since=1,
        ),
        F("allow_auto_topic_creation", BOOL, since=4, default=True, ignorable=False),
        F("include_cluster_authorized_operations", BOOL, since=8, until=10, ignorable=False),
        F("include_topic_authorized_operations", BOOL, since=8, ignorable=False),
    ),
    response=(
        F("throttle_time_ms", INT32, since=3),
        F(
            "brokers",
            Array(
                F("node_id", INT32),
                F("host", STRING),
                F("port", INT32),
                F("rack", STRING, since=1, nullable_since=1, default=None),
            ),
        ),
        F("cluster_id", STRING, since=2, nullable_since=2, default=None),
        F("controller_id", INT32, since=1, default=-1),
        F(
            "topics",
            Array(
                F("error_code", INT16),
                F("name", STRING, nullable_since=12),
                F("topic_id", UUID, since=10),
                F("is_internal", BOOL, since=1),
                F(
                    "partitions",
                    Array(
                        F("error_code", INT16),
                        F("partition_index", INT32),
                        F("leader_id", INT32),
                        F("leader_epoch", INT32, since=7, default=-1),
                        F("replica_nodes", Array(INT32)),
                        F("isr_nodes", Array(INT32)),
                        F("offline_replicas", Array(INT32), since=5),
                    ),
                ),
                F("topic_authorized_operations", INT32, since=8, default=OPERATIONS_UNKNOWN),
            ),
        ),
        F("cluster_authorized_operations", INT32, since=8, until=10, default=OPERATIONS_UNKNOWN),
        F("error_code", INT16, since=13),
    ),
)
