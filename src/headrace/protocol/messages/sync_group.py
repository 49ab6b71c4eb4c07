"""SyncGroup: the leader hands in who gets what, everyone is told their part."""

from headrace.protocol.schema import BYTES, INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=14,
    name="SyncGroup",
    versions=(0, 5),
    flexible_since=4,
    request=(
        F("group_id", STRING),
        F("generation_id", INT32),
        F("member_id", STRING),
        F("group_instance_id", STRING, since=3, nullable_since=3, default=None, ignorable=False),
        F("protocol_type", STRING, since=5, nullable_since=5, default=None),
        F("protocol_name", STRING, since=5, nullable_since=5, default=None),
        F("assignments", Array(F("member_id", STRING), F("assignment", BYTES))),
    ),
    response=(
        F("throttle_time_ms", INT32, since=1),
        F("error_code", INT16),
        F("protocol_type", STRING, since=5, nullable_since=5, default=None),
        F("protocol_name", STRING, since=5, nullable_since=5, default=None),
        F("assignment", BYTES),
    ),
)
