"""What is known of a cluster: its brokers, and who leads which partition since which epoch.

Values that never change: a newer one replaces an older one as a whole, so that threads read without a lock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from headrace.errors import ErrorCode
from headrace.ids import ZERO_TOPIC_ID, TopicId
from headrace.protocol.schema import Value
from headrace.wire.settings import Address

NO_NODE = -1
NO_EPOCH = -1


class Partition(NamedTuple):
    leader_id: int  # NO_NODE while there is none.
    leader_epoch: int  # NO_EPOCH from brokers that do not tell.
    error: int = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: TopicId  # ZERO_TOPIC_ID from brokers that have none.
    partitions: tuple[Partition, ...]  # By number, without gaps.
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    brokers: Mapping[int, Address] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)  # Of topics that were asked for and not told of.
    cluster_id: str | None = None
    controller_id: int = NO_NODE

    def updated(self, newer: Self) -> "Metadata":
        """With what was learnt since. A broker that lags behind cannot bring back a leader of an older epoch."""
        topics = {name: topic for name, topic in self.topics.items() if name not in newer.errors}
        for name, topic in newer.topics.items():
            known = topics.get(name)
            topics[name] = topic if known is None or known.topic_id != topic.topic_id else _newest(known, topic)
        errors = {name: code for name, code in self.errors.items() if name not in newer.topics}
        return replace(newer, topics=topics, errors={**errors, **newer.errors})


def _newest(known: Topic, told: Topic) -> Topic:
    partitions = list(told.partitions)
    for number, (old, new) in enumerate(zip(known.partitions, told.partitions, strict=False)):
        if NO_EPOCH < new.leader_epoch < old.leader_epoch:
            partitions[number] = old
    # Partitions are only ever added: a broker that knows fewer has yet to hear of the others.
    partitions += known.partitions[len(partitions) :]
    return replace(told, partitions=tuple(partitions))


def parse_metadata(answer: Value) -> Metadata:
    """Of an answer to Metadata in any version."""
    topics, errors = {}, {}
    for one in answer["topics"]:
        if one["error_code"] != ErrorCode.NONE:
            errors[one["name"]] = one["error_code"]
            continue
        found = {
            part["partition_index"]: Partition(part["leader_id"], part["leader_epoch"], part["error_code"])
            for part in one["partitions"]
        }
        nobody = Partition(NO_NODE, NO_EPOCH, ErrorCode.LEADER_NOT_AVAILABLE)
        count = max(found, default=-1) + 1
        topics[one["name"]] = Topic(
            one["name"],
            TopicId(one["topic_id"]) if one["topic_id"] else ZERO_TOPIC_ID,
            tuple(found.get(number, nobody) for number in range(count)),
            one["is_internal"],
        )
    brokers = {one["node_id"]: Address(one["host"], one["port"]) for one in answer["brokers"]}
    return Metadata(brokers, topics, errors, answer["cluster_id"], answer["controller_id"])
