"""ListOffsets: the offset at a timestamp, or at one of the places that a negative timestamp names."""

from headrace.protocol.schema import INT8, INT16, INT32, INT64, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=2,
    name="ListOffsets",
    versions=(1, 11),
    flexible_since=6,
    request=(
        F("replica_id", INT32),
        F("isolation_level", INT8, since=2, ignorable=False),
        F(
            "topics",
            Array(
                F("name", STRING),
                F(
                    "partitions",
                    Array(
                        F("partition_index", INT32),
                        F("current_leader_epoch", INT32, since=4, default=-1),
                        F("timestamp", INT64),
                    ),
                ),
            ),
        ),
        F("timeout_ms", INT32, since=10),
    ),
    response=(
        F("throttle_time_ms", INT32, since=2),
        F(
            "topics",
            Array(
                F("name", STRING),
                F(
                    "partitions",
                    Array(
                        F("partition_index", INT32),
                        F("error_code", INT16),
                        F("timestamp", INT64, default=-1),
                        F("offset", INT64, default=-1),
                        F("leader_epoch", INT32, since=4, default=-1),
                    ),
                ),
            ),
        ),
    ),
)
