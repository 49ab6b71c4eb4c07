"""LeaveGroup: members go of their own accord; many at once, also by instance id, from version 3."""

from headrace.protocol.schema import INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=13,
    name="LeaveGroup",
    versions=(0, 5),
    flexible_since=4,
    request=(
        F("group_id", STRING),
        F("member_id", STRING, until=2, ignorable=False),
        F(
            "members",
            Array(
                F("member_id", STRING),
                F("group_instance_id", STRING, nullable_since=3, default=None),
                F("reason", STRING, since=5, nullable_since=5, default=None),
            ),
            since=3,
            ignorable=False,
        ),
    ),
    response=(
        F("throttle_time_ms", INT32, since=1),
        F("error_code", INT16),
        F(
            "members",
            Array(
                F("member_id", STRING),
                F("group_instance_id", STRING, nullable_since=3),
                F("error_code", INT16),
            ),
            since=3,
        ),
    ),
)
