"""The two ways to change settings: IncrementalAlterConfigs edits one by one, AlterConfigs replaces them all.

They answer alike, so the response is one table.
"""

from headrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, ApiMessages, Array, F

_RESPONSE = (
    F("throttle_time_ms", INT32),
    F(
        "responses",
        Array(
            F("error_code", INT16),
            F("error_message", STRING, nullable_since=0),
            F("resource_type", INT8),
            F("resource_name", STRING),
        ),
    ),
)

INCREMENTAL_API = ApiMessages(
    key=44,
    name="IncrementalAlterConfigs",
    versions=(0, 1),
    flexible_since=1,
    request=(
        F(
            "resources",
            Array(
                F("resource_type", INT8),
                F("resource_name", STRING),
                F(
                    "configs",
                    Array(
                        F("name", STRING),
                        F("config_operation", INT8),
                        F("value", STRING, nullable_since=0),
                    ),
                ),
            ),
        ),
        F("validate_only", BOOL),
    ),
    response=_RESPONSE,
)

API = ApiMessages(
    key=33,
    name="AlterConfigs",
    versions=(0, 2),
    flexible_since=2,
    request=(
        F(
            "resources",
            Array(
                F("resource_type", INT8),
                F("resource_name", STRING),
                F(
                    "configs",
                    Array(
                        F("name", STRING),
                        F("value", STRING, nullable_since=0),
                    ),
                ),
            ),
        ),
        F("validate_only", BOOL),
    ),
    response=_RESPONSE,
)
