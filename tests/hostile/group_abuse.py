"""What no honest member asks, one row each, and the error that Kafka has for it.

The rows are tried on a node in `test_bad_groups.py`, and on Apache Kafka in `tests/interop`, so that the errors are
Kafka's and not what we think they are. Each row is asked beside a healthy group, some of them of it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from headrace.errors import ErrorCode
from headrace.protocol.messages import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from headrace.protocol.schema import ApiMessages, Value
from tests.hostile.honest_group import INSTANCE, PROTOCOL, HonestGroup, join_request
from tests.hostile.target import TOPIC

LONG_NAME: Final = "x" * 10_000
NOBODYS: Final = "no-such-group"
# Whose first member is refused: here it does not exist then, in Apache Kafka it does, without members.
_LIARS: Final = "liars"
_STRANGER: Final = "stranger"


class Abuse(NamedTuple):
    name: str
    api: ApiMessages
    version: int
    request: Callable[[HonestGroup], Value]
    expected: ErrorCode  # NONE: odd, but no error.


def _beat(group: str, *, member_id: str = _STRANGER, generation: int = 1, instance_id: str | None = None) -> Value:
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member_id,
        "group_instance_id": instance_id,
    }


def _sync(group: str, **more: object) -> Value:
    claims = {"protocol_type": "consumer", "protocol_name": PROTOCOL, "assignments": []}
    return {**_beat(group), **claims, **more}


def _sync_as_member(honest: HonestGroup, **more: object) -> Value:
    return {**_sync(honest.group, member_id=honest.dynamic_id, generation_id=honest.generation), **more}


def _commit(group: str, *, member_id: str = _STRANGER, generation: int = 1, instance_id: str | None = None) -> Value:
    item = {"partition_index": 0, "committed_offset": 666, "committed_metadata": "evil"}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "group_instance_id": instance_id,
        "topics": [{"name": TOPIC, "partitions": [item]}],
    }


def _leave(group: str, member_id: str, instance_id: str | None = None) -> Value:
    return {"group_id": group, "members": [{"member_id": member_id, "group_instance_id": instance_id}]}


def _offset_delete(group: str) -> Value:
    return {"group_id": group, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]}


def _fetch(group: str) -> Value:
    return {"group_id": group, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}


_JOIN, _SYNC, _BEAT, _LEAVE = join_group.API, sync_group.API, heartbeat.API, leave_group.API
_COMMIT, _FETCH, _OFFSET_DELETE = offset_commit.API, offset_fetch.API, offset_delete.API
_DESCRIBE, _DELETE = describe_groups.API, delete_groups.API
_E = ErrorCode


def _no_such_group() -> list[Abuse]:
    return [
        Abuse("a heartbeat", _BEAT, 4, lambda _: _beat(NOBODYS), _E.UNKNOWN_MEMBER_ID),
        Abuse("a sync", _SYNC, 5, lambda _: _sync(NOBODYS), _E.UNKNOWN_MEMBER_ID),
        Abuse("a join with an id", _JOIN, 9, lambda _: join_request(NOBODYS, _STRANGER), _E.UNKNOWN_MEMBER_ID),
        Abuse("a goodbye", _LEAVE, 5, lambda _: _leave(NOBODYS, _STRANGER), _E.UNKNOWN_MEMBER_ID),
        Abuse("a commit of version 8", _COMMIT, 8, lambda _: _commit(NOBODYS), _E.ILLEGAL_GENERATION),
        Abuse("a commit of version 9", _COMMIT, 9, lambda _: _commit(NOBODYS), _E.GROUP_ID_NOT_FOUND),
        Abuse("a look at its offsets", _FETCH, 7, lambda _: _fetch(NOBODYS), _E.NONE),
        Abuse("a description of version 5", _DESCRIBE, 5, lambda _: {"groups": [NOBODYS]}, _E.NONE),
        Abuse("a description of version 6", _DESCRIBE, 6, lambda _: {"groups": [NOBODYS]}, _E.GROUP_ID_NOT_FOUND),
        Abuse("a deletion", _DELETE, 2, lambda _: {"groups_names": [NOBODYS]}, _E.GROUP_ID_NOT_FOUND),
        Abuse("a deletion of offsets", _OFFSET_DELETE, 0, lambda _: _offset_delete(NOBODYS), _E.GROUP_ID_NOT_FOUND),
    ]


def _no_name() -> list[Abuse]:
    return [
        Abuse("a join", _JOIN, 9, lambda _: join_request(""), _E.INVALID_GROUP_ID),
        Abuse("a sync", _SYNC, 5, lambda _: _sync(""), _E.INVALID_GROUP_ID),
        Abuse("a heartbeat", _BEAT, 4, lambda _: _beat(""), _E.INVALID_GROUP_ID),
        Abuse("a goodbye", _LEAVE, 5, lambda _: _leave("", _STRANGER), _E.INVALID_GROUP_ID),
        Abuse("a deletion of offsets", _OFFSET_DELETE, 0, lambda _: _offset_delete(""), _E.INVALID_GROUP_ID),
    ]


def _long_name() -> list[Abuse]:
    return [
        Abuse("a join", _JOIN, 5, lambda _: join_request(LONG_NAME), _E.MEMBER_ID_REQUIRED),
        Abuse("a flexible join", _JOIN, 9, lambda _: join_request(LONG_NAME), _E.MEMBER_ID_REQUIRED),
        Abuse("a heartbeat", _BEAT, 4, lambda _: _beat(LONG_NAME), _E.UNKNOWN_MEMBER_ID),
        Abuse("a commit", _COMMIT, 8, lambda _: _commit(LONG_NAME, member_id="", generation=-1), _E.NONE),
        Abuse("a look at its offsets", _FETCH, 7, lambda _: _fetch(LONG_NAME), _E.NONE),
        Abuse("a description", _DESCRIBE, 5, lambda _: {"groups": [LONG_NAME]}, _E.NONE),
    ]


def _wrong_generation() -> list[Abuse]:
    def member(honest: HonestGroup, difference: int) -> Value:
        return {"member_id": honest.dynamic_id, "generation": honest.generation + difference}

    return [
        Abuse("a heartbeat of the next", _BEAT, 4, lambda h: _beat(h.group, **member(h, 1)), _E.ILLEGAL_GENERATION),
        Abuse("a heartbeat of the last", _BEAT, 0, lambda h: _beat(h.group, **member(h, -1)), _E.ILLEGAL_GENERATION),
        Abuse("a heartbeat of none", _BEAT, 3, lambda h: _beat(h.group, **member(h, -99)), _E.ILLEGAL_GENERATION),
        Abuse(
            "a sync of the next",
            _SYNC,
            5,
            lambda h: _sync_as_member(h, generation_id=h.generation + 1),
            _E.ILLEGAL_GENERATION,
        ),
        Abuse("a commit of the last", _COMMIT, 8, lambda h: _commit(h.group, **member(h, -1)), _E.ILLEGAL_GENERATION),
        Abuse("a commit of the next", _COMMIT, 9, lambda h: _commit(h.group, **member(h, 1)), _E.ILLEGAL_GENERATION),
        Abuse(
            "a commit of nobody in a group of somebody",
            _COMMIT,
            8,
            lambda h: _commit(h.group, member_id="", generation=-1),
            _E.UNKNOWN_MEMBER_ID,
        ),
    ]


def _wrong_member() -> list[Abuse]:
    def fenced(honest: HonestGroup) -> Value:
        return {"member_id": honest.dynamic_id, "generation": honest.generation, "instance_id": INSTANCE}

    return [
        Abuse("a heartbeat", _BEAT, 4, lambda h: _beat(h.group, generation=h.generation), _E.UNKNOWN_MEMBER_ID),
        Abuse("a sync", _SYNC, 5, lambda h: _sync(h.group, generation_id=h.generation), _E.UNKNOWN_MEMBER_ID),
        Abuse("a join", _JOIN, 9, lambda h: join_request(h.group, _STRANGER), _E.UNKNOWN_MEMBER_ID),
        Abuse("a commit", _COMMIT, 8, lambda h: _commit(h.group, generation=h.generation), _E.UNKNOWN_MEMBER_ID),
        Abuse("a goodbye", _LEAVE, 5, lambda h: _leave(h.group, _STRANGER), _E.UNKNOWN_MEMBER_ID),
        Abuse("an old goodbye", _LEAVE, 1, lambda h: {"group_id": h.group, "member_id": "x"}, _E.UNKNOWN_MEMBER_ID),
        Abuse("a heartbeat as an instance", _BEAT, 4, lambda h: _beat(h.group, **fenced(h)), _E.FENCED_INSTANCE_ID),
        Abuse("a commit as an instance", _COMMIT, 8, lambda h: _commit(h.group, **fenced(h)), _E.FENCED_INSTANCE_ID),
        Abuse(
            "a join as an instance",
            _JOIN,
            9,
            lambda h: join_request(h.group, _STRANGER, group_instance_id=INSTANCE),
            _E.FENCED_INSTANCE_ID,
        ),
        Abuse(
            "a goodbye as an instance",
            _LEAVE,
            5,
            lambda h: _leave(h.group, _STRANGER, INSTANCE),
            _E.FENCED_INSTANCE_ID,
        ),
        Abuse("a deletion of a group in use", _DELETE, 2, lambda h: {"groups_names": [h.group]}, _E.NON_EMPTY_GROUP),
    ]


def _lies_about_protocols() -> list[Abuse]:
    """The healthy group's subscriptions name no topic, so its offsets may be deleted; nobody tries that here."""
    inconsistent = _E.INCONSISTENT_GROUP_PROTOCOL
    foreign = [{"name": "nobody-speaks-this", "metadata": b""}]
    return [
        Abuse("another type", _JOIN, 9, lambda h: join_request(h.group, protocol_type="connect"), inconsistent),
        Abuse("no type", _JOIN, 9, lambda h: join_request(h.group, protocol_type=""), inconsistent),
        Abuse("a protocol of its own", _JOIN, 9, lambda h: join_request(h.group, protocols=foreign), inconsistent),
        Abuse("no protocol", _JOIN, 9, lambda h: join_request(h.group, protocols=[]), inconsistent),
        Abuse(
            "a static member with a protocol of its own",
            _JOIN,
            9,
            lambda h: join_request(h.group, protocols=foreign, group_instance_id="another"),
            inconsistent,
        ),
        Abuse("no type in a new group", _JOIN, 9, lambda _: join_request(_LIARS, protocol_type=""), inconsistent),
        Abuse("no protocol in a new group", _JOIN, 9, lambda _: join_request(_LIARS, protocols=[]), inconsistent),
        Abuse("a sync in another", _SYNC, 5, lambda h: _sync_as_member(h, protocol_name="sticky"), inconsistent),
        Abuse("a sync of another type", _SYNC, 5, lambda h: _sync_as_member(h, protocol_type="connect"), inconsistent),
        Abuse("a sync in none", _SYNC, 5, lambda h: _sync_as_member(h, protocol_name=None), inconsistent),
    ]


def _limits() -> list[Abuse]:
    too_large = _E.OFFSET_METADATA_TOO_LARGE
    bad_session = _E.INVALID_SESSION_TIMEOUT
    return [
        Abuse("metadata of 4,097 letters", _COMMIT, 8, lambda h: h.commit_request(6, metadata="m" * 4_097), too_large),
        Abuse("metadata of 30,000 bytes", _COMMIT, 5, lambda h: h.commit_request(6, metadata="m" * 30_000), too_large),
        Abuse("a session of 1 ms", _JOIN, 9, lambda h: join_request(h.group, session_timeout_ms=1), bad_session),
        Abuse("a session of minus 1 ms", _JOIN, 0, lambda h: join_request(h.group, session_timeout_ms=-1), bad_session),
        Abuse(
            "a session of 24 days", _JOIN, 9, lambda h: join_request(h.group, session_timeout_ms=2**31 - 1), bad_session
        ),
    ]


_TABLES: Final[dict[str, Callable[[], list[Abuse]]]] = {
    "of no group": _no_such_group,
    "of a group without a name": _no_name,
    "of a group with a name of 10,000 letters": _long_name,
    "in the wrong generation": _wrong_generation,
    "by somebody else": _wrong_member,
    "with a lie about protocols": _lies_about_protocols,
    "beyond a limit": _limits,
}
ABUSES: Final[dict[str, Abuse]] = {f"{row.name} {what}": row for what, table in _TABLES.items() for row in table()}
