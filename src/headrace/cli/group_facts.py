"""What a cluster says about its consumer groups, as plain values ready for a table or for JSON.

*Lag* counts messages: the log's end less the committed offset. *Lag in seconds* tells how old the next message
is that the group has to read: now, by this machine's clock, less the timestamp of the first message at or after
the committed offset. It is 0 where nothing is left to read, and unknown (None) where nothing is committed, the
message has no timestamp, or it did not come in time.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.cli.connection import Connection
from headrace.cli.output import CommandError
from headrace.cli.topic_facts import ClusterRefusal, answer_about, offsets
from headrace.errors import ErrorCode
from headrace.ids import TopicName, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, MemberDescription

# Kafka's words for the states that librdkafka has its own names for.
STATES: Final = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}
TYPES: Final = {"CONSUMER": "Consumer", "CLASSIC": "Classic"}
_UNKNOWN: Final = "Unknown"
# A group without anybody in it: its offsets may be changed from outside.
_DESERTED: Final = ("Empty", "Dead")
# A coordinator will answer, or somebody else will be it.
_UNSETTLED: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_SETTLING_S: Final = 0.1
# The first message of each partition is wanted and nothing else: little is asked for, and nothing ahead.
_FIRST_ONLY: Final = {
    "group.id": "headrace-groups",  # The library wants a name; nothing is ever committed under it.
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_uncommitted",  # A message counts as there once the log's end does count it.
    "max.partition.fetch.bytes": 64 << 10,
    "queued.min.messages": 1,
}
_POLL_MESSAGES: Final = 1_000
_POLL_S: Final = 0.05


class GroupRefusal(CommandError):
    """What one group does not allow, whatever others do."""


class UnknownGroup(GroupRefusal):
    def __init__(self, group: str) -> None:
        super().__init__(f"group {group!r} does not exist")


class InhabitedGroup(GroupRefusal):
    """What only an empty group may have done to it."""

    def __init__(self, group: str, what: str, *, state: str, members: int) -> None:
        super().__init__(
            f"group {group!r} is {state} with {members} member{'s' * (members != 1)}: {what} only while it has none. "
            "Stop its consumers, or wait until their session timeouts have passed, and try again"
        )
        self.state = state


def list_groups(cluster: Connection, admin: "AdminClient", *, states: Collection[str] = ()) -> list[dict[str, Any]]:
    """Groups by name, in these states or in any."""
    from confluent_kafka import ConsumerGroupState

    by_word = {word: ConsumerGroupState[name] for name, word in STATES.items()}
    how = {"states": {by_word[word] for word in states}} if states else {}
    found = answer_about("groups", admin.list_consumer_groups(request_timeout=cluster.timeout_s, **how))
    for error in found.errors or ():
        raise error
    return [
        {"name": one.group_id, "state": _word(STATES, one.state), "type": _word(TYPES, one.type)}
        for one in sorted(found.valid or (), key=lambda one: one.group_id)
    ]


def find_groups(
    cluster: Connection, admin: "AdminClient", names: Iterable[str]
) -> dict[str, "ConsumerGroupDescription | None"]:
    """State and members of each; None for a group that is not there, whichever way a broker says so.

    A coordinator that has yet to read what it is to know is asked again, for as long as a request may take: the first
    question to a new cluster is answered so.
    """
    deadline_s = time.monotonic() + cluster.timeout_s
    asked = list(dict.fromkeys(names))
    while True:
        try:
            return _find_groups(cluster, admin, asked)
        except ClusterRefusal as refusal:
            if refusal.code not in _UNSETTLED or time.monotonic() >= deadline_s:
                raise
        time.sleep(_SETTLING_S)


def _find_groups(
    cluster: Connection, admin: "AdminClient", asked: list[str]
) -> dict[str, "ConsumerGroupDescription | None"]:
    from confluent_kafka import KafkaError

    found: dict[str, ConsumerGroupDescription | None] = {}
    for name, future in admin.describe_consumer_groups(asked, request_timeout=cluster.timeout_s).items():
        try:
            group: ConsumerGroupDescription = answer_about(name, future)
            found[name] = None if state_of(group) == "Dead" else group
        except ClusterRefusal as refusal:
            if refusal.code != KafkaError.GROUP_ID_NOT_FOUND:
                raise
            found[name] = None
    return found


def require_deserted(group: str, described: "ConsumerGroupDescription | None", what: str) -> None:
    """Go on only if nobody is in the group. One that does not exist is as empty as can be."""
    if described is not None and state_of(described) not in _DESERTED:
        raise InhabitedGroup(group, what, state=state_of(described), members=len(described.members))


def describe_groups(
    cluster: Connection, admin: "AdminClient", names: Iterable[str], *, with_seconds: bool = True
) -> list[dict[str, Any]]:
    """Everything about each group; UnknownGroup if one is missing. `with_seconds` reads a message of each partition."""
    described = []
    for name, group in find_groups(cluster, admin, names).items():
        if group is None:
            raise UnknownGroup(name)
        described.append(_describe(cluster, admin, group, with_seconds=with_seconds))
    return described


def _describe(
    cluster: Connection, admin: "AdminClient", group: "ConsumerGroupDescription", *, with_seconds: bool
) -> dict[str, Any]:
    state = state_of(group)
    commits = committed_offsets(cluster, admin, group.group_id)
    committed = {place: commit.offset for place, commit in commits.items()}
    owners = {place: member for member in group.members for place in assigned(member)}
    places = sorted(committed.keys() | owners.keys())
    bounds = log_bounds(cluster, admin, places)
    ages_s = lag_seconds(cluster, committed, bounds) if with_seconds else {}
    partitions = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": committed.get(place),
            "leader_epoch": commits[place].leader_epoch if place in commits else None,
            "end": bounds[place].end if place in bounds else None,
            "lag": lag(committed.get(place), bounds.get(place)),
            "lag_s": ages_s.get(place),
            "member_id": owners[place].member_id if place in owners else None,
            "client_id": owners[place].client_id if place in owners else None,
            "host": owners[place].host if place in owners else None,
        }
        for place in places
    ]
    members = [
        {
            "member_id": member.member_id,
            "client_id": member.client_id,
            "host": member.host,
            "instance_id": member.group_instance_id,
            # While the group rebalances nobody has anything; that is not idleness.
            "idle": state == "Stable" and not assigned(member),
            "assignment": _by_topic(assigned(member)),
        }
        for member in sorted(group.members, key=lambda member: (member.client_id, member.member_id))
    ]
    node = group.coordinator
    return {
        "name": group.group_id,
        "state": state,
        "type": _word(TYPES, group.type),
        "assignor": group.partition_assignor or None,
        "coordinator": None if node is None else {"id": node.id, "host": node.host, "port": node.port},
        "lag": sum(one["lag"] or 0 for one in partitions),
        "lag_s": max((one["lag_s"] for one in partitions if one["lag_s"] is not None), default=None),
        "members": members,
        "partitions": partitions,
    }


class Commit(NamedTuple):
    offset: int
    leader_epoch: int | None  # Of the message before it, if whoever committed told.


def committed_offsets(cluster: Connection, admin: "AdminClient", group: str) -> dict[TopicPartition, Commit]:
    """How far the group has read, wherever it has said so."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

    asked = [ConsumerGroupTopicPartitions(group)]
    (future,) = admin.list_consumer_group_offsets(asked, request_timeout=cluster.timeout_s).values()
    committed = {}
    for one in answer_about(group, future).topic_partitions or ():
        if one.error is not None:
            raise KafkaException(one.error)
        if one.offset >= 0:
            place = TopicPartition(TopicName(one.topic), one.partition)
            committed[place] = Commit(one.offset, one.leader_epoch)
    return committed


class LogBounds(NamedTuple):
    earliest: int
    end: int


def log_bounds(
    cluster: Connection, admin: "AdminClient", places: Collection[TopicPartition]
) -> dict[TopicPartition, LogBounds]:
    """Where each log begins and ends. Without those of topics that are no longer there: groups outlive topics."""
    from confluent_kafka.admin import OffsetSpec

    topics = cluster.cluster_metadata(admin).topics
    there = [one for one in places if one.topic in topics and one.partition in topics[one.topic].partitions]
    earliest = offsets(cluster, admin, there, OffsetSpec.earliest())
    latest = offsets(cluster, admin, there, OffsetSpec.latest())
    return {place: LogBounds(earliest[place], latest[place]) for place in there}


def lag(committed: int | None, bounds: LogBounds | None) -> int | None:
    """Negative where the log has become shorter than the group remembers it: worth seeing, so not hidden."""
    return None if committed is None or bounds is None else bounds.end - committed


def lag_seconds(
    cluster: Connection, committed: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, LogBounds]
) -> dict[TopicPartition, float | None]:
    """By partition; see above for what it means."""
    # What was deleted cannot be read any more: the next message is then the first that is left.
    starts = {
        place: max(offset, bounds[place].earliest)
        for place, offset in committed.items()
        if place in bounds and offset < bounds[place].end
    }
    ages_s: dict[TopicPartition, float | None] = {
        place: 0.0 for place in committed if place in bounds and place not in starts
    }
    if starts:
        consumer = cluster.consumer(_FIRST_ONLY)
        try:
            ages_s |= first_ages_s(consumer, starts, timeout_s=cluster.timeout_s)
        finally:
            consumer.close()
    return ages_s


def first_ages_s(
    consumer: "Consumer",
    starts: Mapping[TopicPartition, int],
    *,
    timeout_s: float,
    now_s: Callable[[], float] = time.time,
    mono_s: Callable[[], float] = time.monotonic,
) -> dict[TopicPartition, float | None]:
    """How old the first message from each start on is; 0 where there is none, None where nobody can say."""
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError
    from confluent_kafka import TopicPartition as ClientPartition

    ages_s: dict[TopicPartition, float | None] = {}
    deadline_s = mono_s() + timeout_s
    consumer.assign([ClientPartition(*place, offset) for place, offset in starts.items()])
    while len(ages_s) < len(starts) and mono_s() < deadline_s:
        polled: list[Any] = consumer.consume(_POLL_MESSAGES, _POLL_S)
        for message in polled:
            error = message.error()
            if message.topic() is None:  # An error that is about no partition: nothing more will come.
                return {place: ages_s.get(place) for place in starts}
            place = TopicPartition(TopicName(message.topic()), message.partition())
            if place in ages_s:
                continue
            consumer.pause([ClientPartition(*place)])  # One is enough.
            kind, timestamp_ms = message.timestamp()
            if error is not None:
                # Markers of transactions and what compaction took leave offsets without a message.
                ages_s[place] = 0.0 if error.code() == KafkaError._PARTITION_EOF else None
            elif kind == TIMESTAMP_NOT_AVAILABLE:
                ages_s[place] = None
            else:
                ages_s[place] = max(0.0, now_s() - timestamp_ms / 1000)
    return {place: ages_s.get(place) for place in starts}


def state_of(group: "ConsumerGroupDescription") -> str:
    return _word(STATES, group.state)


def assigned(member: "MemberDescription") -> list[TopicPartition]:
    return sorted(TopicPartition(TopicName(one.topic), one.partition) for one in member.assignment.topic_partitions)


def _by_topic(places: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()]


def _word(words: Mapping[str, str], value: Any) -> str:
    return words.get(value.name, _UNKNOWN)
