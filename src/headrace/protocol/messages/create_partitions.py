"""CreatePartitions: raise a topic's number of partitions; `count` is the new total."""

from headrace.protocol.schema import BOOL, INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=37,
    name="CreatePartitions",
    versions=(0, 3),
    flexible_since=2,
    request=(
        F(
            "topics",
            Array(
                F("name", STRING),
                F("count", INT32),
                F("assignments", Array(F("broker_ids", Array(INT32))), nullable_since=0),
            ),
        ),
        F("timeout_ms", INT32),
        F("validate_only", BOOL),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F(
            "results",
            Array(
                F("name", STRING),
                F("error_code", INT16),
                F("error_message", STRING, nullable_since=0, default=None),
            ),
        ),
    ),
)
