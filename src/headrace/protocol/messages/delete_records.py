"""DeleteRecords: move the start of partitions up to an offset; -1 means the high watermark."""

from headrace.protocol.schema import INT16, INT32, INT64, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=21,
    name="DeleteRecords",
    versions=(0, 2),
    flexible_since=2,
    request=(
        F(
            "topics",
            Array(
                F("name", STRING),
                F(
                    "partitions",
                    Array(
                        F("partition_index", INT32),
                        F("offset", INT64),
                    ),
                ),
            ),
        ),
        F("timeout_ms", INT32),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F(
            "topics",
            Array(
                F("name", STRING),
                F(
                    "partitions",
                    Array(
                        F("partition_index", INT32),
                        F("low_watermark", INT64),
                        F("error_code", INT16),
                    ),
                ),
            ),
        ),
    ),
)
