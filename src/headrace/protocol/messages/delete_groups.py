"""DeleteGroups: empty groups are forgotten, with their offsets."""

from headrace.protocol.schema import INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=42,
    name="DeleteGroups",
    versions=(0, 2),
    flexible_since=2,
    request=(F("groups_names", Array(STRING)),),
    response=(
        F("throttle_time_ms", INT32),
        F("results", Array(F("group_id", STRING), F("error_code", INT16))),
    ),
)
