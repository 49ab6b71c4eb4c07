"""What a group leaves in `__consumer_offsets`, in Kafka's own bytes.

A key opens with the type of the record, a value with its version. Three types are ours: an offset that was committed
(1, and 0 as Kafka wrote it before 0.9), and a group as it stood when a generation was complete (2). A null value
takes back what was said under its key.

Written is what Kafka 4.1 writes. Read is every version of a value that there ever was. Anything else is `Unread`: the
types of newer group protocols, versions to come, and damage. It is never a reason to fail, since the groups beside
it are sound; whoever loads a log counts and reports it.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, TypeAlias

from headrace.errors import ProtocolError
from headrace.ids import ZERO_TOPIC_ID, TopicId
from headrace.protocol.schema import BYTES, INT32, INT64, STRING, UUID, Array, F, Message

_VERSION: Final = Struct(">h")
_LEGACY_OFFSET_COMMIT: Final = 0
_OFFSET_COMMIT: Final = 1
_GROUP_METADATA: Final = 2

_NOT_FLEXIBLE: Final = 0x7FFF
_OFFSET_KEY: Final = Message(
    "OffsetCommit key",
    (F("group", STRING), F("topic", STRING), F("partition", INT32)),
    version_min=0,
    version_max=1,
    flexible_since=_NOT_FLEXIBLE,
)
_OFFSET_VALUE: Final = Message(
    "OffsetCommit value",
    (
        F("offset", INT64),
        F("leader_epoch", INT32, since=3, default=-1),
        F("metadata", STRING),
        F("commit_timestamp", INT64),
        F("expire_timestamp", INT64, since=1, until=1, default=-1),
        F("topic_id", UUID, since=4, tag=0),
    ),
    version_min=0,
    version_max=4,
    flexible_since=4,
)
_GROUP_KEY: Final = Message(
    "GroupMetadata key", (F("group", STRING),), version_min=2, version_max=2, flexible_since=_NOT_FLEXIBLE
)
_GROUP_VALUE: Final = Message(
    "GroupMetadata value",
    (
        F("protocol_type", STRING),
        F("generation", INT32),
        F("protocol", STRING, nullable_since=0),
        F("leader", STRING, nullable_since=0),
        F("current_state_timestamp", INT64, since=2, default=-1),
        F(
            "members",
            Array(
                F("member_id", STRING),
                F("group_instance_id", STRING, since=3, nullable_since=3, default=None),
                F("client_id", STRING),
                F("client_host", STRING),
                F("rebalance_timeout", INT32, since=1, default=-1),
                F("session_timeout", INT32),
                F("subscription", BYTES),
                F("assignment", BYTES),
            ),
        ),
    ),
    version_min=0,
    version_max=4,
    flexible_since=4,
)
# An offset with a time to live of its own (OffsetCommit up to version 4) fits no version after 1.
_OFFSET_VALUE_VERSION: Final = 4
_OFFSET_VALUE_VERSION_EXPIRING: Final = 1
_GROUP_VALUE_VERSION: Final = 3

_NO_EPOCH: Final = -1
_NO_TIME: Final = -1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    commit_ms: int
    leader_epoch: int = _NO_EPOCH
    metadata: str = ""
    expire_ms: int | None = None
    topic_id: TopicId = ZERO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset


@dataclass(frozen=True, slots=True)
class OffsetForgotten:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member as a record has it: of what it could speak, only what the group chose."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStored:
    """A group once a generation of it is complete, or once nobody is left in it."""

    group_id: str
    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int | None
    members: tuple[StoredMember, ...]


@dataclass(frozen=True, slots=True)
class GroupForgotten:
    group_id: str


@dataclass(frozen=True, slots=True)
class Unread:
    key: bytes | None
    value: bytes | None
    reason: str


GroupRecord: TypeAlias = OffsetCommitted | OffsetForgotten | GroupStored | GroupForgotten


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value, as Kafka 4.1 would write them."""
    match record:
        case OffsetCommitted():
            return _offset_key(record), _offset_value(record.committed)
        case OffsetForgotten():
            return _offset_key(record), None
        case GroupStored():
            return _group_key(record.group_id), _group_value(record)
        case GroupForgotten():
            return _group_key(record.group_id), None


def _offset_key(record: OffsetCommitted | OffsetForgotten) -> bytes:
    key = {"group": record.group_id, "topic": record.topic, "partition": record.partition}
    return _VERSION.pack(_OFFSET_COMMIT) + _OFFSET_KEY.encode(key, _OFFSET_COMMIT)


def _offset_value(committed: CommittedOffset) -> bytes:
    expires = committed.expire_ms is not None
    version = _OFFSET_VALUE_VERSION_EXPIRING if expires else _OFFSET_VALUE_VERSION
    value = {
        "offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "commit_timestamp": committed.commit_ms,
        "expire_timestamp": committed.expire_ms if expires else _NO_TIME,
        "topic_id": committed.topic_id,
    }
    return _VERSION.pack(version) + _OFFSET_VALUE.encode(value, version)


def _group_key(group_id: str) -> bytes:
    return _VERSION.pack(_GROUP_METADATA) + _GROUP_KEY.encode({"group": group_id}, _GROUP_METADATA)


def _group_value(record: GroupStored) -> bytes:
    value = {
        "protocol_type": record.protocol_type or "",
        "generation": record.generation,
        "protocol": record.protocol_name,
        "leader": record.leader_id,
        "current_state_timestamp": _NO_TIME if record.state_since_ms is None else record.state_since_ms,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rebalance_timeout": member.rebalance_timeout_ms,
                "session_timeout": member.session_timeout_ms,
                "subscription": member.subscription,
                "assignment": member.assignment,
            }
            for member in record.members
        ],
    }
    return _VERSION.pack(_GROUP_VALUE_VERSION) + _GROUP_VALUE.encode(value, _GROUP_VALUE_VERSION)


def parse_record(key: bytes | None, value: bytes | None) -> GroupRecord | Unread:
    """What a record says; `Unread` for what is not ours to understand."""
    if key is None or len(key) < _VERSION.size:
        return Unread(key, value, "a key without a type")
    (kind,) = _VERSION.unpack_from(key)
    try:
        if kind in {_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT}:
            return _parse_offset(_OFFSET_KEY.decode(key, kind, _VERSION.size), value)
        if kind == _GROUP_METADATA:
            return _parse_group(_GROUP_KEY.decode(key, kind, _VERSION.size)["group"], value)
    except ProtocolError as error:
        return Unread(key, value, str(error))
    return Unread(key, value, f"type {kind} is not known")


def _parse_offset(key: dict[str, Any], value: bytes | None) -> OffsetCommitted | OffsetForgotten:
    group_id, topic, partition = key["group"], key["topic"], key["partition"]
    if value is None:
        return OffsetForgotten(group_id, topic, partition)
    said = _decode_value(_OFFSET_VALUE, value)
    expire_ms = said["expire_timestamp"]
    committed = CommittedOffset(
        offset=said["offset"],
        commit_ms=said["commit_timestamp"],
        leader_epoch=said["leader_epoch"],
        metadata=said["metadata"],
        expire_ms=None if expire_ms == _NO_TIME else expire_ms,
        topic_id=said["topic_id"],
    )
    return OffsetCommitted(group_id, topic, partition, committed)


def _parse_group(group_id: str, value: bytes | None) -> GroupStored | GroupForgotten:
    if value is None:
        return GroupForgotten(group_id)
    said = _decode_value(_GROUP_VALUE, value)
    if said["members"] and not (said["protocol_type"] and said["protocol"] is not None):
        raise ProtocolError("GroupMetadata value with members that speak no protocol")
    since_ms = said["current_state_timestamp"]
    return GroupStored(
        group_id=group_id,
        protocol_type=said["protocol_type"] or None,
        generation=said["generation"],
        protocol_name=said["protocol"],
        leader_id=said["leader"],
        state_since_ms=None if since_ms == _NO_TIME else since_ms,
        members=tuple(
            StoredMember(
                member_id=member["member_id"],
                instance_id=member["group_instance_id"],
                client_id=member["client_id"],
                client_host=member["client_host"],
                # Version 0 knew no other limit than the session's.
                rebalance_timeout_ms=(
                    member["session_timeout"] if member["rebalance_timeout"] == -1 else member["rebalance_timeout"]
                ),
                session_timeout_ms=member["session_timeout"],
                subscription=member["subscription"],
                assignment=member["assignment"],
            )
            for member in said["members"]
        ),
    )


def _decode_value(message: Message, value: bytes) -> dict[str, Any]:
    if len(value) < _VERSION.size:
        raise ProtocolError(f"{message.name} without a version")
    (version,) = _VERSION.unpack_from(value)
    if not message.version_min <= version <= message.version_max:
        raise ProtocolError(f"{message.name} of version {version}, which is not known")
    return message.decode(value, version, _VERSION.size)
