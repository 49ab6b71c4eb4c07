"""Heartbeat: a member of a group is alive, and learns whether the group moves on."""

from headrace.protocol.schema import INT16, INT32, STRING, ApiMessages, F

API = ApiMessages(
    key=12,
    name="Heartbeat",
    versions=(0, 4),
    flexible_since=4,
    request=(
        F("group_id", STRING),
        F("generation_id", INT32),
        F("member_id", STRING),
        F("group_instance_id", STRING, since=3, nullable_since=3, default=None, ignorable=False),
    ),
    response=(
        F("throttle_time_ms", INT32, since=1),
        F("error_code", INT16),
    ),
)
