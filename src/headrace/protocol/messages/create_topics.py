"""CreateTopics: by counts, or by an assignment of replicas."""

from headrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, ApiMessages, Array, F

API = ApiMessages(
    key=19,
    name="CreateTopics",
    versions=(2, 7),
    flexible_since=5,
    request=(
        F(
            "topics",
            Array(
                F("name", STRING),
                F("num_partitions", INT32),
                F("replication_factor", INT16),
                F(
                    "assignments",
                    Array(
                        F("partition_index", INT32),
                        F("broker_ids", Array(INT32)),
                    ),
                ),
                F(
                    "configs",
                    Array(
                        F("name", STRING),
                        F("value", STRING, nullable_since=0),
                    ),
                ),
            ),
        ),
        F("timeout_ms", INT32, default=60_000),
        F("validate_only", BOOL),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F(
            "topics",
            Array(
                F("name", STRING),
                F("topic_id", UUID, since=7),
                F("error_code", INT16),
                F("error_message", STRING, nullable_since=0),
                F("topic_config_error_code", INT16, since=5, tag=0),
                F("num_partitions", INT32, since=5, default=-1),
                F("replication_factor", INT16, since=5, default=-1),
                F(
                    "configs",
                    Array(
                        F("name", STRING),
                        F("value", STRING, nullable_since=5),
                        F("read_only", BOOL),
                        F("config_source", INT8, default=-1),
                        F("is_sensitive", BOOL),
                    ),
                    since=5,
                    nullable_since=5,
                ),
            ),
        ),
    ),
)
