"""DescribeGroups: the state of groups, their members and who was given what."""

from headrace.protocol.messages.metadata import OPERATIONS_UNKNOWN
from headrace.protocol.schema import BOOL, BYTES, INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=15,
    name="DescribeGroups",
    versions=(0, 6),
    flexible_since=5,
    request=(
        F("groups", Array(STRING)),
        F("include_authorized_operations", BOOL, since=3, ignorable=False),
    ),
    response=(
        F("throttle_time_ms", INT32, since=1),
        F(
            "groups",
            Array(
                F("error_code", INT16),
                F("error_message", STRING, since=6, nullable_since=6, default=None),
                F("group_id", STRING),
                F("group_state", STRING),
                F("protocol_type", STRING),
                F("protocol_data", STRING),
                F(
                    "members",
                    Array(
                        F("member_id", STRING),
                        F("group_instance_id", STRING, since=4, nullable_since=4, default=None),
                        F("client_id", STRING),
                        F("client_host", STRING),
                        F("member_metadata", BYTES),
                        F("member_assignment", BYTES),
                    ),
                ),
                F("authorized_operations", INT32, since=3, default=OPERATIONS_UNKNOWN),
            ),
        ),
    ),
)
