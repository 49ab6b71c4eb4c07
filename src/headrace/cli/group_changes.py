"""Groups changed from outside: offsets reset and forgotten, groups deleted.

A group's offsets belong to its members while it has any. What changes them from outside refuses until it has
none, rather than be undone by the next commit.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.cli.connection import Connection
from headrace.cli.group_facts import (
    GroupRefusal,
    InhabitedGroup,
    UnknownGroup,
    committed_offsets,
    find_groups,
    log_bounds,
    require_deserted,
)
from headrace.cli.group_reset import Target, TopicScope, ToTime, new_offset
from headrace.cli.output import CommandError
from headrace.cli.topic_facts import ClusterRefusal, answer_about, find_partitions, offsets
from headrace.errors import ErrorCode
from headrace.ids import TopicName, TopicPartition
from headrace.protocol.messages.offset_delete import API as OFFSET_DELETE
from headrace.wire.settings import Address

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_RESET: Final = "offsets can be reset"


class ResetPlan(NamedTuple):
    """Where a group is, and where it shall go on."""

    old: dict[TopicPartition, int]
    new: dict[TopicPartition, int]
    without_time: list[TopicPartition]  # A time was asked for, and they have no message so late.


def plan_reset(cluster: Connection, group: str, scopes: Sequence[TopicScope], target: Target) -> ResetPlan:
    """For these partitions; without scopes, for each that the group has committed."""
    admin = cluster.admin()
    described = find_groups(cluster, admin, [group])[group]
    require_deserted(group, described, _RESET)
    committed = {place: commit.offset for place, commit in committed_offsets(cluster, admin, group).items()}
    places = find_partitions(cluster, admin, scopes) if scopes else sorted(committed)
    if not places:
        raise UnknownGroup(group) if described is None else GroupRefusal(f"group {group!r} has committed nothing")
    bounds = log_bounds(cluster, admin, places)
    at_time = _offsets_at(cluster, admin, bounds, target)
    new = {
        place: new_offset(target, place, committed=committed.get(place), bounds=bound, at_time=at_time.get(place))
        for place, bound in bounds.items()  # A topic that was deleted has nowhere to go on: it is not among them.
    }
    without_time = [place for place in new if place not in at_time] if isinstance(target, ToTime) else []
    return ResetPlan(committed, new, without_time)


def commit_offsets(cluster: Connection, group: str, new: Mapping[TopicPartition, int]) -> None:
    """Commit in the name of a group that has nobody in it."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
    from confluent_kafka import TopicPartition as ClientPartition

    if not new:
        return
    admin = cluster.admin()
    wanted = [ClientPartition(*place, offset) for place, offset in new.items()]
    asked = [ConsumerGroupTopicPartitions(group, wanted)]
    (future,) = admin.alter_consumer_group_offsets(asked, request_timeout=cluster.timeout_s).values()
    # Each of these says that somebody has joined since we looked.
    joined = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
    for one in answer_about(group, future).topic_partitions or ():
        if one.error is None:
            continue
        if one.error.code() in joined:
            require_deserted(group, find_groups(cluster, admin, [group])[group], _RESET)
        raise KafkaException(one.error)


def delete_groups(cluster: Connection, names: Iterable[str]) -> dict[str, CommandError]:
    """Those that could not be deleted, and why."""
    admin = cluster.admin()
    failures: dict[str, CommandError] = {}
    wanted = list(dict.fromkeys(names))
    for name, future in admin.delete_consumer_groups(wanted, request_timeout=cluster.timeout_s).items():
        try:
            answer_about(name, future)
        except ClusterRefusal as refusal:
            failures[name] = _why_not_deleted(cluster, admin, name, refusal)
    return failures


def _why_not_deleted(cluster: Connection, admin: "AdminClient", group: str, refusal: ClusterRefusal) -> CommandError:
    from confluent_kafka import KafkaError

    if refusal.code == KafkaError.GROUP_ID_NOT_FOUND:
        return UnknownGroup(group)
    if refusal.code == KafkaError.NON_EMPTY_GROUP:
        try:
            require_deserted(group, find_groups(cluster, admin, [group])[group], "it can be deleted")
        except InhabitedGroup as inhabited:
            return inhabited
    return refusal


def forget_offsets(
    cluster: Connection, group: str, scopes: Sequence[TopicScope]
) -> dict[tuple[TopicName, int | None], ErrorCode]:
    """What was said about each partition, or about a topic that has none because it is not there.

    librdkafka's Python face has no OffsetDelete.
    """
    admin = cluster.admin()
    described = find_groups(cluster, admin, [group])[group]
    if described is None:
        raise UnknownGroup(group)
    node = described.coordinator
    if node is None:
        raise CommandError(f"group {group!r} has no coordinator at the moment")
    outcomes: dict[tuple[TopicName, int | None], ErrorCode] = {}
    wanted: dict[TopicName, set[int]] = {}
    for scope in scopes:
        try:
            # Numbers that were said are the coordinator's to judge.
            numbers = scope.partitions or [one.partition for one in find_partitions(cluster, admin, [scope])]
        except ClusterRefusal as refusal:
            if refusal.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            outcomes[scope.topic, None] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            wanted.setdefault(scope.topic, set()).update(numbers)
    if not wanted:
        return outcomes
    topics = [
        {"name": topic, "partitions": [{"partition_index": number} for number in sorted(numbers)]}
        for topic, numbers in wanted.items()
    ]
    response = cluster.ask(Address(node.host, node.port), OFFSET_DELETE, {"group_id": group, "topics": topics})
    code = ErrorCode(response["error_code"])
    if code is ErrorCode.NON_EMPTY_GROUP:
        require_deserted(group, find_groups(cluster, admin, [group])[group], "offsets can be deleted")
    if code is not ErrorCode.NONE:
        raise CommandError(f"group {group!r}: {code.name}")
    for topic in response["topics"]:
        for one in topic["partitions"]:
            outcomes[topic["name"], one["partition_index"]] = ErrorCode(one["error_code"])
    return outcomes


def _offsets_at(
    cluster: Connection, admin: "AdminClient", places: Iterable[TopicPartition], target: Target
) -> dict[TopicPartition, int]:
    """Where the time asked for lies, in the partitions that have a message so late."""
    from confluent_kafka.admin import OffsetSpec

    if not isinstance(target, ToTime):
        return {}
    found = offsets(cluster, admin, places, OffsetSpec.for_timestamp(target.timestamp_ms))
    return {place: offset for place, offset in found.items() if offset >= 0}
