"""JoinGroup: asking to be a member of the next generation of a group."""

from headrace.protocol.schema import BOOL, BYTES, INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=11,
    name="JoinGroup",
    versions=(0, 9),
    flexible_since=6,
    request=(
        F("group_id", STRING),
        F("session_timeout_ms", INT32),
        F("rebalance_timeout_ms", INT32, since=1, default=-1),
        F("member_id", STRING),
        F("group_instance_id", STRING, since=5, nullable_since=5, default=None, ignorable=False),
        F("protocol_type", STRING),
        F("protocols", Array(F("name", STRING), F("metadata", BYTES))),
        F("reason", STRING, since=8, nullable_since=8, default=None),
    ),
    response=(
        F("throttle_time_ms", INT32, since=2),
        F("error_code", INT16),
        F("generation_id", INT32, default=-1),
        F("protocol_type", STRING, since=7, nullable_since=7, default=None),
        F("protocol_name", STRING, nullable_since=7),
        F("leader", STRING),
        F("skip_assignment", BOOL, since=9),
        F("member_id", STRING),
        F(
            "members",
            Array(
                F("member_id", STRING),
                F("group_instance_id", STRING, since=5, nullable_since=5, default=None),
                F("metadata", BYTES),
            ),
        ),
    ),
)
