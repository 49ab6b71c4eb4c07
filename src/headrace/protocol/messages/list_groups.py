"""ListGroups: the groups of a coordinator, of some states or types if asked."""

from headrace.protocol.schema import INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=16,
    name="ListGroups",
    versions=(0, 5),
    flexible_since=3,
    request=(
        F("states_filter", Array(STRING), since=4, ignorable=False),
        F("types_filter", Array(STRING), since=5, ignorable=False),
    ),
    response=(
        F("throttle_time_ms", INT32, since=1),
        F("error_code", INT16),
        F(
            "groups",
            Array(
                F("group_id", STRING),
                F("protocol_type", STRING),
                F("group_state", STRING, since=4),
                F("group_type", STRING, since=5),
            ),
        ),
    ),
)
