"""FindCoordinator: who coordinates a group or a transactional id; many at once from version 4."""

from headrace.protocol.schema import INT8, INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=10,
    name="FindCoordinator",
    versions=(0, 6),
    flexible_since=3,
    request=(
        F("key", STRING, until=3, ignorable=False),
        F("key_type", INT8, since=1, ignorable=False),
        F("coordinator_keys", Array(STRING), since=4, ignorable=False),
    ),
    response=(
        F("throttle_time_ms", INT32, since=1),
        F("error_code", INT16, until=3),
        F("error_message", STRING, since=1, until=3, nullable_since=1),
        F("node_id", INT32, until=3),
        F("host", STRING, until=3),
        F("port", INT32, until=3),
        F(
            "coordinators",
            Array(
                F("key", STRING),
                F("node_id", INT32),
                F("host", STRING),
                F("port", INT32),
                F("error_code", INT16),
                F("error_message", STRING, nullable_since=4),
            ),
            since=4,
        ),
    ),
)
