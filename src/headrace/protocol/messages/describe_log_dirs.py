"""DescribeLogDirs: how large each partition is on disk, and how much room is left."""

from headrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=35,
    name="DescribeLogDirs",
    versions=(1, 5),
    flexible_since=2,
    request=(
        F(
            "topics",
            Array(
                F("topic", STRING),
                F("partitions", Array(INT32)),
            ),
            nullable_since=0,  # Null asks for all.
        ),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F("error_code", INT16, since=3),
        F(
            "results",
            Array(
                F("error_code", INT16),
                F("log_dir", STRING),
                F(
                    "topics",
                    Array(
                        F("name", STRING),
                        F(
                            "partitions",
                            Array(
                                F("partition_index", INT32),
                                F("partition_size", INT64),
                                F("offset_lag", INT64),
                                F("is_future_key", BOOL),
                            ),
                        ),
                    ),
                ),
                F("total_bytes", INT64, since=4, default=-1),
                F("usable_bytes", INT64, since=4, default=-1),
                F("is_cordoned", BOOL, since=5),
            ),
        ),
    ),
)
