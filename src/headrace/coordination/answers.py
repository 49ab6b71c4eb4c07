"""Responses in the shape that each API wants; who answers before a group is even looked at finds refusals here too."""

from collections.abc import Iterable, Sequence
from typing import Final

from headrace.coordination.group import Group
from headrace.coordination.members import Caller, Member
from headrace.errors import ErrorCode
from headrace.protocol.schema import Value

_NULL_PROTOCOL_SINCE: Final = 7
_LEAVE_MANY_SINCE: Final = 3
_FETCH_ERROR_SINCE: Final = 2
_FETCH_GROUPS_SINCE: Final = 8
_NO_OFFSET: Final = -1


def joined(group: Group, member: Member, *, leader_id: str | None = None, skip_assignment: bool = False) -> Value:
    """A member of the present generation. Only its leader hears who the others are and what they want."""
    leader_id = group.leader_id if leader_id is None else leader_id
    assert group.protocol_name is not None
    return {
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": leader_id,
        "member_id": member.member_id,
        "skip_assignment": skip_assignment,
        "members": _subscriptions(group, group.protocol_name) if leader_id == member.member_id else [],
    }


def _subscriptions(group: Group, protocol_name: str) -> list[Value]:
    return [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "metadata": member.metadata_for(protocol_name),
        }
        for member in group.members.values()
    ]


def join_refused(version: int, code: ErrorCode, *, member_id: str = "") -> Value:
    protocol_name = None if version >= _NULL_PROTOCOL_SINCE else ""
    return {"error_code": code, "member_id": member_id, "protocol_name": protocol_name}


def synced(group: Group, member: Member) -> Value:
    return {
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "assignment": member.assignment,
    }


def refused(code: ErrorCode) -> Value:
    """SyncGroup, Heartbeat, LeaveGroup, OffsetDelete, ListGroups: nothing but the code."""
    return {"error_code": code}


def left(caller: Caller, members: Sequence[Value]) -> Value:
    """What became of each. Before many could leave at once, the code of the one stood at the top."""
    if caller.version < _LEAVE_MANY_SINCE:
        return {"error_code": next((member["error_code"] for member in members), ErrorCode.NONE)}
    return {"members": list(members)}


def leavers(request: Value, version: int) -> list[Value]:
    """Who wants to leave."""
    if version < _LEAVE_MANY_SINCE:
        return [{"member_id": request["member_id"], "group_instance_id": None}]
    members: list[Value] = request["members"]
    return members


def commit_refused(request: Value, code: ErrorCode) -> Value:
    return {
        "topics": [
            {
                "name": topic["name"],
                "topic_id": topic["topic_id"],
                "partitions": [
                    {"partition_index": partition["partition_index"], "error_code": code}
                    for partition in topic["partitions"]
                ],
            }
            for topic in request["topics"]
        ]
    }


def fetch_refused(group_request: Value, code: ErrorCode) -> Value:
    """Of one group, as `fetched` takes it."""
    return {"group_id": group_request["group_id"], "topics": [], "error_code": code}


def fetch_groups(request: Value, version: int) -> list[Value]:
    """Which groups are asked about, and for what of each, as `Coordinator.fetch_offsets` takes it."""
    if version >= _FETCH_GROUPS_SINCE:
        groups: list[Value] = request["groups"]
        return groups
    return [{"group_id": request["group_id"], "topics": request["topics"]}]


def fetched(request: Value, groups: Sequence[Value], version: int) -> Value:
    """One response of what was found in each group asked about."""
    if version >= _FETCH_GROUPS_SINCE:
        return {"groups": list(groups)}
    (group,) = groups
    if version < _FETCH_ERROR_SINCE and group["error_code"] != ErrorCode.NONE:
        return {"topics": [_failed_topic(topic, group["error_code"]) for topic in request["topics"]]}
    # These versions know topics by name alone.
    topics = [{"name": topic["name"], "partitions": topic["partitions"]} for topic in group["topics"]]
    return {"topics": topics, "error_code": group["error_code"]}


def _failed_topic(topic: Value, code: ErrorCode) -> Value:
    return {
        "name": topic["name"],
        "partitions": [
            {"partition_index": index, "committed_offset": _NO_OFFSET, "metadata": "", "error_code": code}
            for index in topic["partition_indexes"]
        ],
    }


def describe_refused(group_id: str, code: ErrorCode) -> Value:
    return {"group_id": group_id, "error_code": code}


def delete_refused(group_ids: Iterable[str], code: ErrorCode) -> Value:
    return {"results": [{"group_id": group_id, "error_code": code} for group_id in group_ids]}
