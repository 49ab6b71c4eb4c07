"""Groups: finding their coordinator, living in one, offsets, and what administrators ask.

Both brokers are told not to make the first member of a group wait. A case has its group to itself, named as its topic.
"""

from collections.abc import Callable
from typing import Any

from tests.conformance.case import Ask, Case, Step, Topic, Until
from tests.conformance.run import Context
from tests.conformance.schemas import Message

_GROUP = "$topic"
_SESSION_MS = 30_000
_OWN = {"$topic": Topic(partitions=2)}
# Version 0 of a consumer's subscription to no topic at all; and an assignment, which nobody looks into.
_SUBSCRIPTION = bytes.fromhex("000000000000ffffffff")
_ASSIGNMENT = bytes.fromhex("000000000000ffffffff")


def _told(field: str, *, back: int = 1) -> Callable[[Context], Any]:
    """What an earlier answer said: the last one, or so many before it."""
    return lambda context: context.answers[-back][field]


def _join(member_id: Any = "", **more: Any) -> Message:
    return {
        "group_id": _GROUP,
        "session_timeout_ms": _SESSION_MS,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": _SUBSCRIPTION}],
        **more,
    }


# The newest version that lets a member in at once, without giving it an id to come back with.
_JOIN_AT_ONCE = 3


def _member(**more: Any) -> list[Step]:
    """A member of a group of one: its JoinGroup is the first answer, its SyncGroup the second."""
    return [
        Ask("JoinGroup", _join(**more), version=_JOIN_AT_ONCE),
        Ask("SyncGroup", _sync(), version=3),
    ]


def _first(field: str) -> Callable[[Context], Any]:
    return lambda context: context.answers[0][field]


def _sync(**more: Any) -> Message:
    given = {"member_id": _first("member_id"), "assignment": _ASSIGNMENT}
    return {
        "group_id": _GROUP,
        "generation_id": _first("generation_id"),
        "member_id": _first("member_id"),
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [given],
        **more,
    }


def _beat(**more: Any) -> Message:
    return {
        "group_id": _GROUP,
        "generation_id": _first("generation_id"),
        "member_id": _first("member_id"),
        **more,
    }


def _leave(member_id: Any, **more: Any) -> Message:
    return {
        "group_id": _GROUP,
        "member_id": member_id,
        "members": [{"member_id": member_id, "group_instance_id": None}],
        **more,
    }


def _commit(*offsets: int, topic: str = "$topic", metadata: str | None = "", **more: Any) -> Message:
    """Of partitions 0 and on. By one who claims to be no member, unless told otherwise."""
    rows = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
        for index, offset in enumerate(offsets)
    ]
    return {
        "group_id": _GROUP,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": rows}],
        **more,
    }


def _as_member(**more: Any) -> Message:
    return {"generation_id_or_member_epoch": _first("generation_id"), "member_id": _first("member_id"), **more}


def _fetch(*partitions: int, topic: str = "$topic", group: str = _GROUP) -> Message:
    topics = [{"name": topic, "partition_indexes": list(partitions or (0, 1))}]
    return {"group_id": group, "topics": topics, "groups": [{"group_id": group, "topics": topics}]}


def _fetch_all() -> Message:
    return {"group_id": _GROUP, "topics": None, "groups": [{"group_id": _GROUP, "topics": None}]}


def _delete_offsets(*topics: str, group: str = _GROUP, partitions: tuple[int, ...] = (0,)) -> Ask:
    rows = [{"partition_index": index} for index in partitions]
    named = [{"name": topic, "partitions": rows} for topic in topics]
    return Ask("OffsetDelete", {"group_id": group, "topics": named})


def _describe(*groups: str, **more: Any) -> Ask:
    return Ask("DescribeGroups", {"groups": list(groups or (_GROUP,)), **more})


def _find(name: str, key: str, *, key_type: int = 0, versions: range | None = None) -> Case:
    body = {"key": key, "key_type": key_type, "coordinator_keys": [key]}
    return Case(api="FindCoordinator", name=name, steps=[Ask("FindCoordinator", body)], versions=versions)


def _case(api: str, name: str, *steps: Step, versions: range | None = None, topics: Any = None) -> Case:
    return Case(api=api, name=name, steps=steps, versions=versions, topics=_OWN if topics is None else topics)


def _join_case(name: str, *, versions: range | None = None, **more: Any) -> Case:
    return _case("JoinGroup", name, Ask("JoinGroup", _join(**more)), versions=versions)


_FETCH = Ask("OffsetFetch", _fetch())
_FETCH_ALL = Ask("OffsetFetch", _fetch_all())
# Kafka shows a new group once its first record is committed, which is a moment after its first answer.
_SHOWN = Until("DescribeGroups", {"groups": [_GROUP]}, lambda answer: answer["groups"][0]["group_state"] != "Dead")
_LONG_NAME = "$topic" + "g" * 10_000

CASES: list[Case] = [
    # Finding.
    _find("of a group", "$topic"),
    _find("of a group with an empty name", ""),
    _find("of a group with a long name", _LONG_NAME),
    _find("of type 3", "$topic", key_type=3, versions=range(1, 7)),
    _find("of type -1", "$topic", key_type=-1, versions=range(1, 7)),
    _find("of a transaction", "$topic", key_type=1, versions=range(1, 7)),
    Case(
        api="FindCoordinator",
        name="of several groups",
        steps=[Ask("FindCoordinator", {"key_type": 0, "coordinator_keys": ["$topic", "b", "c", "b"]})],
        versions=range(4, 7),
    ),
    Case(
        api="FindCoordinator",
        name="of no group",
        steps=[Ask("FindCoordinator", {"key_type": 0, "coordinator_keys": []})],
        versions=range(4, 7),
    ),
    # Joining.
    _case(
        "JoinGroup",
        "alone, and again with the id that was given",
        Ask("JoinGroup", _join()),
        Ask("JoinGroup", _join(_told("member_id"))),
        _SHOWN,
        _describe(),
    ),
    _join_case("static member", group_instance_id="one", versions=range(5, 10)),
    _case(
        "JoinGroup",
        "static member that comes back without its id",
        Ask("JoinGroup", _join(group_instance_id="one")),
        Ask("SyncGroup", _sync(group_instance_id="one"), version=3),
        Ask("JoinGroup", _join(group_instance_id="one")),
        _describe(),
        versions=range(5, 10),
    ),
    _case(
        "JoinGroup",
        "fenced static member",
        Ask("JoinGroup", _join(group_instance_id="one")),
        Ask("JoinGroup", _join("another", group_instance_id="one")),
        versions=range(5, 10),
    ),
    _join_case("group with an empty name", group_id=""),
    _join_case("group with a long name", group_id=_LONG_NAME),
    _join_case("member that nobody knows", member_id="nobody"),
    _join_case("session too short", session_timeout_ms=5_999),
    _join_case("session too long", session_timeout_ms=1_800_001),
    _join_case("session of no time", session_timeout_ms=0),
    _join_case("negative rebalance timeout", rebalance_timeout_ms=-1),
    _join_case("without protocols", protocols=[]),
    _join_case("without a protocol type", protocol_type=""),
    _join_case("protocol type that is not a consumer's", protocol_type="connect"),
    _join_case("a protocol twice", protocols=[{"name": "range", "metadata": _SUBSCRIPTION}] * 2),
    _join_case("subscription that cannot be read", protocols=[{"name": "range", "metadata": b"\x00"}]),
    _case(
        "JoinGroup",
        "protocol that the others do not know",
        *_member(),
        Ask("JoinGroup", _join(protocols=[{"name": "sticky", "metadata": _SUBSCRIPTION}])),
    ),
    _case(
        "JoinGroup",
        "protocol type that the others do not have",
        *_member(),
        Ask("JoinGroup", _join(protocol_type="connect")),
    ),
    # Syncing.
    _case("SyncGroup", "leader", Ask("JoinGroup", _join(), version=_JOIN_AT_ONCE), Ask("SyncGroup", _sync())),
    _case("SyncGroup", "again when it is complete", *_member(), Ask("SyncGroup", _sync(assignments=[]))),
    _case("SyncGroup", "unknown group", *_member(), Ask("SyncGroup", _sync(group_id="nowhere"))),
    _case("SyncGroup", "group with an empty name", *_member(), Ask("SyncGroup", _sync(group_id=""))),
    _case("SyncGroup", "unknown member", *_member(), Ask("SyncGroup", _sync(member_id="nobody"))),
    _case("SyncGroup", "generation before", *_member(), Ask("SyncGroup", _sync(generation_id=0))),
    _case("SyncGroup", "generation to come", *_member(), Ask("SyncGroup", _sync(generation_id=9))),
    _case(
        "SyncGroup",
        "other protocol type",
        *_member(),
        Ask("SyncGroup", _sync(protocol_type="connect")),
        versions=range(5, 6),
    ),
    _case(
        "SyncGroup",
        "other protocol",
        *_member(),
        Ask("SyncGroup", _sync(protocol_name="sticky")),
        versions=range(5, 6),
    ),
    _case(
        "SyncGroup",
        "protocol left out",
        *_member(),
        Ask("SyncGroup", _sync(protocol_type=None, protocol_name=None)),
        versions=range(5, 6),
    ),
    _case(
        "SyncGroup",
        "assignment for one who is not a member",
        Ask("JoinGroup", _join(), version=_JOIN_AT_ONCE),
        Ask("SyncGroup", _sync(assignments=[{"member_id": "nobody", "assignment": _ASSIGNMENT}])),
        _describe(),
    ),
    # Heartbeats.
    _case("Heartbeat", "member", *_member(), Ask("Heartbeat", _beat())),
    _case("Heartbeat", "before the assignment", Ask("JoinGroup", _join(), version=3), Ask("Heartbeat", _beat())),
    _case("Heartbeat", "unknown group", *_member(), Ask("Heartbeat", _beat(group_id="nowhere"))),
    _case("Heartbeat", "group with an empty name", *_member(), Ask("Heartbeat", _beat(group_id=""))),
    _case("Heartbeat", "unknown member", *_member(), Ask("Heartbeat", _beat(member_id="nobody"))),
    _case("Heartbeat", "empty member", *_member(), Ask("Heartbeat", _beat(member_id=""))),
    _case("Heartbeat", "generation before", *_member(), Ask("Heartbeat", _beat(generation_id=0))),
    _case("Heartbeat", "generation to come", *_member(), Ask("Heartbeat", _beat(generation_id=2))),
    _case(
        "Heartbeat",
        "unknown instance",
        *_member(),
        Ask("Heartbeat", _beat(group_instance_id="one")),
        versions=range(3, 5),
    ),
    # Leaving.
    _case("LeaveGroup", "member", *_member(), Ask("LeaveGroup", _leave(_first("member_id"))), _describe()),
    _case("LeaveGroup", "unknown group", Ask("LeaveGroup", _leave("nobody", group_id="nowhere"))),
    _case("LeaveGroup", "group with an empty name", Ask("LeaveGroup", _leave("nobody", group_id=""))),
    _case("LeaveGroup", "unknown member", *_member(), Ask("LeaveGroup", _leave("nobody")), _describe()),
    _case("LeaveGroup", "empty member", *_member(), Ask("LeaveGroup", _leave("")), _describe()),
    _case(
        "LeaveGroup",
        "several, some of them unknown",
        *_member(),
        Ask(
            "LeaveGroup",
            {
                "group_id": _GROUP,
                "members": [
                    {"member_id": "nobody", "group_instance_id": None},
                    {"member_id": _first("member_id"), "group_instance_id": None},
                    {"member_id": "", "group_instance_id": "nobody"},
                ],
            },
        ),
        _describe(),
        versions=range(3, 6),
    ),
    _case(
        "LeaveGroup",
        "static member by its instance",
        Ask("JoinGroup", _join(group_instance_id="one"), version=5),
        Ask("SyncGroup", _sync(group_instance_id="one"), version=3),
        Ask("LeaveGroup", {"group_id": _GROUP, "members": [{"member_id": "", "group_instance_id": "one"}]}),
        _describe(),
        versions=range(3, 6),
    ),
    _case(
        "LeaveGroup",
        "nobody at all",
        *_member(),
        Ask("LeaveGroup", {"group_id": _GROUP, "members": []}),
        versions=range(3, 6),
    ),
    # Committing.
    _case("OffsetCommit", "without members", Ask("OffsetCommit", _commit(5, 6)), _FETCH),
    _case(
        "OffsetCommit",
        "with metadata",
        Ask("OffsetCommit", _commit(5, metadata="so far")),
        _FETCH,
    ),
    _case(
        "OffsetCommit", "without metadata", Ask("OffsetCommit", _commit(5, metadata=None)), Ask("OffsetFetch", _fetch())
    ),
    _case(
        "OffsetCommit",
        "metadata too long",
        Ask("OffsetCommit", _commit(5, metadata="x" * 4097)),
        _FETCH,
    ),
    _case(
        "OffsetCommit",
        "metadata just short enough",
        Ask("OffsetCommit", _commit(5, metadata="é" * 4096)),
        _FETCH,
    ),
    _case("OffsetCommit", "negative offset", Ask("OffsetCommit", _commit(-1)), _FETCH),
    _case("OffsetCommit", "unknown topic", Ask("OffsetCommit", _commit(5, topic="nowhere"))),
    _case("OffsetCommit", "illegal topic", Ask("OffsetCommit", _commit(5, topic="a b"))),
    _case(
        "OffsetCommit", "partition beyond the last", Ask("OffsetCommit", _commit(5, 6, 7)), Ask("OffsetFetch", _fetch())
    ),
    _case("OffsetCommit", "of no topic", Ask("OffsetCommit", {**_commit(), "topics": []})),
    _case("OffsetCommit", "of no partition", Ask("OffsetCommit", _commit())),
    _case("OffsetCommit", "group with an empty name", Ask("OffsetCommit", _commit(5, group_id=""))),
    _case("OffsetCommit", "group with a long name", Ask("OffsetCommit", _commit(5, group_id=_LONG_NAME))),
    _case("OffsetCommit", "member", *_member(), Ask("OffsetCommit", _commit(5, **_as_member()))),
    _case("OffsetCommit", "by no member while there are some", *_member(), Ask("OffsetCommit", _commit(5))),
    _case(
        "OffsetCommit", "unknown member", *_member(), Ask("OffsetCommit", _commit(5, **_as_member(member_id="nobody")))
    ),
    _case(
        "OffsetCommit",
        "generation before",
        *_member(),
        Ask("OffsetCommit", _commit(5, **_as_member(generation_id_or_member_epoch=0))),
    ),
    _case(
        "OffsetCommit",
        "generation to come",
        *_member(),
        Ask("OffsetCommit", _commit(5, **_as_member(generation_id_or_member_epoch=2))),
    ),
    _case(
        "OffsetCommit",
        "before the assignment",
        Ask("JoinGroup", _join(), version=_JOIN_AT_ONCE),
        Ask("OffsetCommit", _commit(5, **_as_member())),
    ),
    _case(
        "OffsetCommit",
        "member of a group that is not there",
        Ask("OffsetCommit", _commit(5, generation_id_or_member_epoch=1, member_id="nobody")),
    ),
    _case(
        "OffsetCommit",
        "unknown instance",
        *_member(),
        Ask("OffsetCommit", _commit(5, **_as_member(group_instance_id="one"))),
        versions=range(7, 10),
    ),
    # Fetching.
    _case("OffsetFetch", "unknown group", _FETCH),
    _case("OffsetFetch", "unknown topic", Ask("OffsetFetch", _fetch(topic="nowhere"))),
    _case("OffsetFetch", "illegal topic", Ask("OffsetFetch", _fetch(topic="a b"))),
    _case("OffsetFetch", "group with an empty name", Ask("OffsetFetch", _fetch(group=""))),
    _case("OffsetFetch", "some", Ask("OffsetCommit", _commit(5)), Ask("OffsetFetch", _fetch(0, 1, 7, -1))),
    _case(
        "OffsetFetch",
        "all",
        Ask("OffsetCommit", _commit(5, 6)),
        Ask("OffsetFetch", _fetch_all()),
        versions=range(2, 10),
    ),
    _case("OffsetFetch", "all of an unknown group", Ask("OffsetFetch", _fetch_all()), versions=range(2, 10)),
    _case(
        "OffsetFetch",
        "of no topic",
        Ask("OffsetFetch", {**_fetch(), "topics": [], "groups": [{"group_id": _GROUP, "topics": []}]}),
    ),
    _case(
        "OffsetFetch",
        "several groups",
        Ask("OffsetCommit", _commit(5)),
        Ask("OffsetFetch", {"groups": [*_fetch()["groups"], {"group_id": "nowhere", "topics": None}]}),
        versions=range(8, 10),
    ),
    _case(
        "OffsetFetch",
        "stable offsets only",
        Ask("OffsetCommit", _commit(5)),
        Ask("OffsetFetch", {**_fetch(), "require_stable": True}),
        versions=range(7, 10),
    ),
    _case(
        "OffsetFetch",
        "as a member",
        *_member(),
        Ask("OffsetCommit", _commit(5, **_as_member())),
        Ask(
            "OffsetFetch",
            {"groups": [{**_fetch()["groups"][0], "member_id": _first("member_id"), "member_epoch": 7}]},
        ),
        versions=range(9, 10),
    ),
    # Deleting offsets.
    _case(
        "OffsetDelete",
        "of an empty group",
        Ask("OffsetCommit", _commit(5, 6)),
        _delete_offsets("$topic", partitions=(0, 5)),
        _FETCH,
    ),
    _case("OffsetDelete", "unknown group", _delete_offsets("$topic")),
    _case("OffsetDelete", "unknown topic", Ask("OffsetCommit", _commit(5)), _delete_offsets("nowhere")),
    _case("OffsetDelete", "some topics unknown", Ask("OffsetCommit", _commit(5)), _delete_offsets("nowhere", "$topic")),
    _case("OffsetDelete", "group with an empty name", _delete_offsets("$topic", group="")),
    _case("OffsetDelete", "of no topic", Ask("OffsetCommit", _commit(5)), _delete_offsets()),
    # Describing and listing.
    _case("DescribeGroups", "unknown group", _describe()),
    _case("DescribeGroups", "group with an empty name", _describe("")),
    _case("DescribeGroups", "no group", Ask("DescribeGroups", {"groups": []})),
    _case("DescribeGroups", "offsets only", Ask("OffsetCommit", _commit(5)), _describe()),
    _case("DescribeGroups", "before the assignment", Ask("JoinGroup", _join(), version=3), _SHOWN, _describe()),
    _case("DescribeGroups", "complete", *_member(), _describe()),
    _case("DescribeGroups", "several, one twice", *_member(), _describe(_GROUP, "nowhere", _GROUP)),
    _case(
        "DescribeGroups",
        "who may do what",
        *_member(),
        _describe(_GROUP, "nowhere", include_authorized_operations=True),
        versions=range(3, 7),
    ),
    _case(
        "ListGroups",
        "of a state that there is not",
        Ask("ListGroups", {"states_filter": ["Nonsense"]}),
        versions=range(4, 6),
    ),
    _case(
        "ListGroups",
        "of a type that there is not",
        Ask("ListGroups", {"types_filter": ["share"]}),
        versions=range(5, 6),
    ),
    _case("ListGroups", "all of them", *_member(), Ask("ListGroups", {}, only="$topic")),
    _case(
        "ListGroups",
        "of a state",
        *_member(),
        Ask("ListGroups", {"states_filter": ["stable"]}, only="$topic"),
        Ask("ListGroups", {"states_filter": ["Empty"]}, only="$topic"),
        versions=range(4, 6),
    ),
    _case(
        "ListGroups",
        "of a type",
        *_member(),
        Ask("ListGroups", {"types_filter": ["Classic"]}, only="$topic"),
        Ask("ListGroups", {"types_filter": ["consumer"]}, only="$topic"),
        versions=range(5, 6),
    ),
    # Deleting groups.
    _case(
        "DeleteGroups",
        "without members",
        Ask("OffsetCommit", _commit(5)),
        Ask("DeleteGroups", {"groups_names": [_GROUP]}),
        _FETCH,
        _describe(),
    ),
    _case("DeleteGroups", "with members", *_member(), Ask("DeleteGroups", {"groups_names": [_GROUP]})),
    _case("DeleteGroups", "unknown group", Ask("DeleteGroups", {"groups_names": [_GROUP]})),
    _case("DeleteGroups", "group with an empty name", Ask("DeleteGroups", {"groups_names": [""]})),
    _case("DeleteGroups", "none", Ask("DeleteGroups", {"groups_names": []})),
    _case(
        "DeleteGroups",
        "one twice",
        Ask("OffsetCommit", _commit(5)),
        Ask("DeleteGroups", {"groups_names": [_GROUP, "nowhere", _GROUP]}),
    ),
]
