"""DeleteTopics: by name, and from version 6 by name or id."""

from headrace.protocol.schema import INT16, INT32, STRING, UUID, ApiMessages, Array, F

API = ApiMessages(
    key=20,
    name="DeleteTopics",
    versions=(1, 6),
    flexible_since=4,
    request=(
        F(
            "topics",
            Array(
                F("name", STRING, nullable_since=6, default=None),
                F("topic_id", UUID),
            ),
            since=6,
            ignorable=False,
        ),
        F("topic_names", Array(STRING), until=5),
        F("timeout_ms", INT32),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F(
            "responses",
            Array(
                F("name", STRING, nullable_since=6),
                F("topic_id", UUID, since=6),
                F("error_code", INT16),
                F("error_message", STRING, since=5, nullable_since=5, default=None),
            ),
        ),
    ),
)
