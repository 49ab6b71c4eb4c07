"""ListGroups and DescribeGroups: groups as tools show them."""

from collections.abc import Iterable
from typing import Final

from headrace.coordination.group import Group, GroupState
from headrace.errors import ErrorCode
from headrace.protocol.schema import Value

GROUP_TYPE: Final = "classic"
_NOT_FOUND_SINCE: Final = 6


def listed(groups: Iterable[Group], *, states: Iterable[str], types: Iterable[str]) -> list[Value]:
    """Those of some states and types, however these are spelled; no filter lets everything pass."""
    states = {state.strip().lower() for state in states}
    types = {name.lower() for name in types}
    if types and GROUP_TYPE not in types:
        return []
    return [
        {
            "group_id": group.group_id,
            "protocol_type": group.protocol_type or "",
            "group_state": group.state.value,
            "group_type": GROUP_TYPE,
        }
        for group in groups
        if not states or group.state.value.lower() in states
    ]


def described(group_id: str, group: Group | None, *, version: int) -> Value:
    """A group that is not there is dead, and from version 6 that is an error."""
    if group is None:
        dead: Value = {"group_id": group_id, "group_state": GroupState.DEAD.value}
        if version >= _NOT_FOUND_SINCE:
            dead |= {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": f"Group {group_id} not found."}
        return dead
    # Between two generations it is not settled in which protocol what the members said is to be read.
    name = group.protocol_name if group.state is GroupState.STABLE else None
    return {
        "group_id": group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": name or "",
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": b"" if name is None else member.metadata_for(name),
                "member_assignment": member.assignment,
            }
            for member in group.members.values()
        ],
    }
