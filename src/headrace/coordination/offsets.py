"""The offsets of one group: what may be committed, what is found, what is forgotten and when.

Committing is for members of the present generation, or, while a group has no members, for anybody who claims to be
none: tools, and consumers that choose their partitions themselves. So whoever lost a partition cannot write over what
its new owner commits.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headrace.coordination.answers import commit_refused
from headrace.coordination.decision import Decision
from headrace.coordination.group import Group, GroupState
from headrace.coordination.members import Caller
from headrace.coordination.records import CommittedOffset, OffsetCommitted, OffsetForgotten
from headrace.coordination.sessions import keep_session
from headrace.coordination.settings import GroupSettings
from headrace.coordination.subscriptions import CONSUMER
from headrace.coordination.utf16 import utf16_length
from headrace.errors import ErrorCode
from headrace.ids import ZERO_TOPIC_ID
from headrace.protocol.schema import Value

# By topic, then by partition. Changed by applied records alone.
Offsets = dict[str, dict[int, CommittedOffset]]

_GROUP_ID_NOT_FOUND_SINCE: Final = 9
_NO_GENERATION: Final = 0  # Below it.
_NO_RETENTION: Final = -1
_NO_OFFSET: Final = -1
_TIME_MS_MAX: Final = 2**63 - 1


def check_commit(group: Group | None, request: Value, *, version: int) -> ErrorCode:
    generation, member_id = request["generation_id_or_member_epoch"], request["member_id"]
    instance_id = request["group_instance_id"]
    claims_none = generation < _NO_GENERATION
    if group is None:
        if claims_none:
            return ErrorCode.NONE
        is_new = version >= _GROUP_ID_NOT_FOUND_SINCE
        return ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
    if claims_none and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if claims_none and not member_id and instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.check_member(member_id, instance_id)
    if code is not ErrorCode.NONE:
        return code
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    # It has joined the generation and does not know yet what it owns in it: it cannot mean this.
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.COMPLETING else ErrorCode.NONE


def commit(decision: Decision, request: Value, caller: Caller, *, settings: GroupSettings) -> None:
    group = decision.group_or_none
    code = check_commit(group, request, version=caller.version)
    if code is not ErrorCode.NONE:
        decision.answer(caller, commit_refused(request, code))
        return
    if group is not None and request["member_id"] in group.members:
        keep_session(decision, request["member_id"])
    now_ms, retention_ms = decision.now.wall_ms, request["retention_time_ms"]
    expire_ms = None if retention_ms == _NO_RETENTION else min(now_ms + retention_ms, _TIME_MS_MAX)
    topics = []
    for topic in request["topics"]:
        partitions = []
        for item in topic["partitions"]:
            index, metadata = item["partition_index"], item["committed_metadata"] or ""
            code = ErrorCode.NONE
            if utf16_length(metadata) > settings.offset_metadata_chars_max:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = CommittedOffset(
                    offset=item["committed_offset"],
                    commit_ms=now_ms,
                    leader_epoch=item["committed_leader_epoch"],
                    metadata=metadata,
                    expire_ms=expire_ms,
                    topic_id=topic["topic_id"],
                )
                decision.records.append(OffsetCommitted(request["group_id"], topic["name"], index, committed))
            partitions.append({"partition_index": index, "error_code": code})
        topics.append({"name": topic["name"], "topic_id": topic["topic_id"], "partitions": partitions})
    decision.answer(caller, {"topics": topics})


def fetch(group_request: Value, offsets: Mapping[str, Mapping[int, CommittedOffset]]) -> Value:
    """What one group has committed: of the partitions asked for, or of all. Nothing committed is no error."""
    asked = group_request["topics"]
    if asked is None:
        topics = [
            {
                "name": name,
                "topic_id": ZERO_TOPIC_ID,
                "partitions": [_found(index, committed) for index, committed in partitions.items()],
            }
            for name, partitions in offsets.items()
        ]
    else:
        topics = [_fetch_topic(topic, offsets.get(topic["name"], {})) for topic in asked]
    return {"group_id": group_request["group_id"], "topics": topics, "error_code": ErrorCode.NONE}


def _fetch_topic(topic: Value, partitions: Mapping[int, CommittedOffset]) -> Value:
    topic_id = topic.get("topic_id", ZERO_TOPIC_ID)
    found = []
    for index in topic["partition_indexes"]:
        committed = partitions.get(index)
        # What was committed of a topic that was deleted says nothing of one that was created under its name.
        is_other = (
            committed is not None
            and ZERO_TOPIC_ID not in {committed.topic_id, topic_id}
            and committed.topic_id != topic_id
        )
        found.append(_found(index, None if is_other else committed))
    return {"name": topic["name"], "topic_id": topic_id, "partitions": found}


def _found(index: int, committed: CommittedOffset | None) -> Value:
    if committed is None:
        return {"partition_index": index, "committed_offset": _NO_OFFSET, "metadata": ""}
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
    }


def check_delete_offsets(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP  # Who can say what its members need?
    return ErrorCode.NONE


def delete_offsets(decision: Decision, request: Value, caller: Caller, offsets: Offsets) -> None:
    code = check_delete_offsets(decision.group_or_none)
    if code is not ErrorCode.NONE:
        decision.answer(caller, {"error_code": code})
        return
    group, topics = decision.group, []
    for topic in request["topics"]:
        name = topic["name"]
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.reads(name) else ErrorCode.NONE
        indexes = [partition["partition_index"] for partition in topic["partitions"]]
        if code is ErrorCode.NONE:
            committed = offsets.get(name, {})
            decision.records += forget(group.group_id, ((name, index) for index in indexes if index in committed))
        told = [{"partition_index": index, "error_code": code} for index in indexes]
        topics.append({"name": name, "partitions": told})
    decision.answer(caller, {"topics": topics})


def forget_all(group_id: str, offsets: Offsets) -> Iterator[OffsetForgotten]:
    return forget(group_id, ((topic, index) for topic, partitions in offsets.items() for index in partitions))


def forget(group_id: str, partitions: Iterable[tuple[str, int]]) -> Iterator[OffsetForgotten]:
    return (OffsetForgotten(group_id, topic, index) for topic, index in partitions)


def expired(group: Group, offsets: Offsets, *, now_ms: int, retention_ms: int) -> list[tuple[str, int]]:
    """What nobody is going to ask for again.

    An empty group keeps its offsets for the retention time after its last member went. A group that is in use keeps
    those of the topics that it reads, and the others for the retention time after they were committed; so does one that
    never had members.
    """
    had_members, is_empty = group.protocol_type is not None, group.state is GroupState.EMPTY
    if had_members and not is_empty and (group.state is not GroupState.STABLE or group.topics is None):
        return []  # Nobody knows what it reads, or is going to.
    empty_since_ms = group.state_since_ms if had_members and is_empty else None

    def is_expired(committed: CommittedOffset) -> bool:
        if committed.expire_ms is not None:
            return now_ms >= committed.expire_ms
        since_ms = committed.commit_ms if empty_since_ms is None else empty_since_ms
        return now_ms - since_ms >= retention_ms

    return [
        (topic, index)
        for topic, partitions in offsets.items()
        if not group.reads(topic)
        for index, committed in partitions.items()
        if is_expired(committed)
    ]
