"""DescribeConfigs: the settings of topics and brokers, and where each comes from."""

from headrace.protocol.schema import BOOL, INT8, INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=32,
    name="DescribeConfigs",
    versions=(1, 4),
    flexible_since=4,
    request=(
        F(
            "resources",
            Array(
                F("resource_type", INT8),
                F("resource_name", STRING),
                F("configuration_keys", Array(STRING), nullable_since=0),  # Null asks for all.
            ),
        ),
        F("include_synonyms", BOOL),
        F("include_documentation", BOOL, since=3, ignorable=False),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F(
            "results",
            Array(
                F("error_code", INT16),
                F("error_message", STRING, nullable_since=0),
                F("resource_type", INT8),
                F("resource_name", STRING),
                F(
                    "configs",
                    Array(
                        F("name", STRING),
                        F("value", STRING, nullable_since=0),
                        F("read_only", BOOL),
                        F("config_source", INT8, default=-1),
                        F("is_sensitive", BOOL),
                        F(
                            "synonyms",
                            Array(
                                F("name", STRING),
                                F("value", STRING, nullable_since=0),
                                F("source", INT8),
                            ),
                        ),
                        F("config_type", INT8, since=3),
                        F("documentation", STRING, since=3, nullable_since=0),
                    ),
                ),
            ),
        ),
    ),
)
