"""What a load asks the cluster: which topics these are, where their logs begin and end, and where epochs ended."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from headrace.ids import TopicName, TopicPartition, parse_topic_name, topic_id_text
from headrace.pipeline.origins import Origin
from headrace.pipeline.plan import Found, HeldTopic, TopicPlan, TopicRecreated, check_epoch
from headrace.protocol.messages.offset_for_leader_epoch import API as EPOCHS
from headrace.protocol.schema import Value
from headrace.wire.cluster import Cluster, Leader
from headrace.wire.metadata import NO_EPOCH
from headrace.wire.offsets import EARLIEST, LATEST, OffsetAt, list_offsets
from headrace.wire.settings import ClientSettings


class Upstream:
    """A driver's connection to the cluster, kept as long as it loads."""

    def __init__(self, settings: ClientSettings) -> None:
        self._cluster = Cluster(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    def origins(self, topics: Sequence[str]) -> list[Origin]:
        """Asked anew each time: a topic that was made anew in the meantime has another id."""
        names = [parse_topic_name(topic) for topic in topics]
        self._cluster.refresh(names)
        found = [self._cluster.topic(name) for name in names]
        cluster_id = self._cluster.metadata.cluster_id or "unknown"
        return [Origin(cluster_id, TopicName(topic.name), topic_id_text(topic.topic_id)) for topic in found]

    def stable_ends(self, origins: Iterable[Origin]) -> dict[TopicPartition, OffsetAt]:
        """Where each partition ends for those who read what is committed, and under which leader epoch."""
        places = [origin.place(number) for origin in origins for number in self._cluster.partitions(origin.topic)]
        return list_offsets(self._cluster, dict.fromkeys(places, LATEST), read_committed=True)

    def find(self, origin: Origin, held: HeldTopic, ends: Mapping[TopicPartition, OffsetAt]) -> dict[int, Found]:
        """What planning has to know of each partition that has an end."""
        mine = {place: end for place, end in ends.items() if place.topic == origin.topic}
        earliest = list_offsets(self._cluster, dict.fromkeys(mine, EARLIEST))
        epochs = {
            origin.place(number): known.leader_epoch
            for number, known in held.partitions.items()
            if known.leader_epoch != NO_EPOCH and origin.place(number) in mine
        }
        epoch_ends = self.epoch_ends(epochs)
        return {
            place.partition: Found(earliest[place].offset, end.offset, end.leader_epoch, epoch_ends.get(place))
            for place, end in mine.items()
        }

    def check_unchanged(self, plans: Sequence[TopicPlan]) -> None:
        """That what was read is what was planned: the same topics still, and their logs not cut meanwhile."""
        for plan, now in zip(plans, self.origins([plan.origin.topic for plan in plans]), strict=True):
            if now != plan.origin:
                raise TopicRecreated(f"topic {now.topic!r} was deleted and made anew while it was loaded")
        read = {one.place: one for plan in plans for one in plan.partitions if one.leader_epoch != NO_EPOCH}
        ends = self.epoch_ends({place: one.leader_epoch for place, one in read.items()})
        for place, one in read.items():
            check_epoch(place, one.end, ends[place])

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where these leader epochs ended; -1 where the cluster does not know."""
        if not epochs:
            return {}

        def body_of(leaders: Mapping[TopicPartition, Leader]) -> dict[str, Any]:
            topics: dict[str, list[dict[str, int]]] = {}
            for place, leader in leaders.items():
                asked = {
                    "partition": place.partition,
                    "current_leader_epoch": leader.epoch,
                    "leader_epoch": epochs[place],
                }
                topics.setdefault(place.topic, []).append(asked)
            return {"topics": [{"topic": name, "partitions": partitions} for name, partitions in topics.items()]}

        return self._cluster.call_leaders(EPOCHS, epochs, body_of=body_of, results_of=_epoch_ends_of)


def _epoch_ends_of(answer: Value) -> Iterable[tuple[TopicPartition, int, int]]:
    for topic in answer["topics"]:
        for one in topic["partitions"]:
            place = TopicPartition(TopicName(topic["topic"]), one["partition"])
            yield place, one["error_code"], one["end_offset"]
