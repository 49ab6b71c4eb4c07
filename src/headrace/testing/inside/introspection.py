"""A node as a test looks at it. Reads; changes nothing."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from headrace.coordination.group import Group as GroupValue
from headrace.coordination.subscriptions import CONSUMER
from headrace.errors import ApiError, ErrorCode, ProtocolError
from headrace.node.node import Node
from headrace.protocol.batch import HEADER_BYTES, parse_header
from headrace.protocol.records import Record, decode_records
from headrace.protocol.schema import BYTES, INT32, STRING, Array, F, Message, Value
from headrace.server.shell import Shell
from headrace.storage.log import PartitionLog
from headrace.testing import views

_READ_BYTES: Final = 1 << 20
_VERSION: Final = Struct(">h")
_ASSIGNMENT: Final = Message(
    "Assignment",
    (
        F("topics", Array(F("topic", STRING), F("partitions", Array(INT32)))),
        F("user_data", BYTES, nullable_since=0),
    ),
    version_min=0,
    version_max=0,
    flexible_since=1,
)


def log_of(node: Node, topic: str, partition: int) -> views.Log:
    found = node.topics.named(topic)
    if found is None or not 0 <= partition < len(found.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of a topic {topic!r}")
    log = found.partitions[partition].log
    seen = log.statistics()
    return views.Log(
        topic=topic,
        partition=partition,
        start_offset=seen.start_offset,
        high_watermark=seen.high_watermark,
        end_offset=seen.end_offset,
        size_bytes=seen.size_bytes,
        segments=seen.segments,
        leader_epoch=found.partitions[partition].leader_epoch,
        offline=seen.offline,
        producers=tuple(
            views.Producer(producer_id, *remembered) for producer_id, remembered in log.producers.statistics().items()
        ),
        records=tuple(records_of(log)),
    )


def records_of(log: PartitionLog) -> Iterator[Record]:
    """All that a consumer could read."""
    offset = log.start_offset
    while (span := log.read(offset, bytes_max=_READ_BYTES, at_least_one=True)) is not None:
        file, position, size = span
        data = memoryview(file.read(position, size))
        at = 0
        while at + HEADER_BYTES <= len(data):
            header = parse_header(data, at)
            if at + header.size_bytes > len(data):
                break  # A span may end inside a batch.
            yield from (record for record in decode_records(data[at:]) if record.offset >= offset)
            at += header.size_bytes
            offset = header.last_offset + 1


def groups_of(node: Node) -> dict[str, views.Group]:
    return {
        listed["group_id"]: _group(coordinator.group(listed["group_id"]), coordinator.fetch_offsets(_all_of(listed)))
        for coordinator in node.groups.coordinators()
        for listed in coordinator.list_groups()
    }


def _all_of(listed: Value) -> Value:
    return {"group_id": listed["group_id"], "topics": None}


def _group(group: GroupValue | None, fetched: Value) -> views.Group:
    assert group is not None  # It was just listed.
    return views.Group(
        group_id=group.group_id,
        state=group.state.value,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol_name,
        leader_id=group.leader_id,
        members=tuple(
            views.Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.session_timeout_ms,
                assignment=_assigned(member.assignment) if group.protocol_type == CONSUMER else None,
            )
            for member in group.members.values()
        ),
        offsets={
            (topic["name"], row["partition_index"]): views.Committed(
                row["committed_offset"], row["metadata"], row["committed_leader_epoch"]
            )
            for topic in fetched["topics"]
            for row in topic["partitions"]
        },
    )


def _assigned(assignment: bytes) -> dict[str, tuple[int, ...]] | None:
    """What a member was given; None where that is not in the form that consumers agreed on."""
    if not assignment:
        return {}
    try:
        rows = _ASSIGNMENT.decode(assignment, 0, _VERSION.size)["topics"]
    except ProtocolError:
        return None
    return {row["topic"]: tuple(row["partitions"]) for row in rows}


def statistics_of(node: Node, shell: Shell) -> views.Statistics:
    counted = shell.collected.statistics(now_us=node.clock.mono_us())
    traffic = node.collected.statistics(now_us=node.clock.mono_us())
    seen = shell.statistics()
    return views.Statistics(
        connections=seen.connections,
        connections_accepted=seen.connections_accepted,
        protocol_errors=seen.protocol_errors,
        memory_used_bytes=seen.memory_used_bytes,
        fetch_sessions=node.sessions.statistics().sessions,
        requests={node.apis[one.api_key].messages.name: one.requests for one in counted.requests},
        topics={
            one.topic: views.Traffic(one.messages_in.counted, one.bytes_in.counted, one.bytes_out.counted)
            for one in traffic.topics
        },
    )
