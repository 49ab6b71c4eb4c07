"""What a load has to read, decided from what the table holds and what the cluster has. Pure.

A load begins where the table ends, never anywhere else, and ends at the last stable offset as it was when the load was
planned. What comes next is the end of the range, not one more than the last row: the offsets in between may be of
transaction markers, of aborted records, or compacted away.

Whatever makes the offsets of the table mean something else than the offsets of the topic is refused with a sentence
that says what happened: a topic that was made anew, records that were deleted before they were loaded, a log that was
cut behind what was loaded already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headrace.errors import HeadraceError
from headrace.ids import TopicPartition
from headrace.pipeline.origins import Origin, epoch_key, loads_key, offset_key, partitions_key
from headrace.pipeline.splitting import OffsetRange, limit
from headrace.wire.metadata import NO_EPOCH


class LoadRefused(HeadraceError):
    """A load that would lose or repeat records. Nothing of it was written."""


class TopicRecreated(LoadRefused):
    """The table holds rows of another topic of this name."""


class OffsetsExpired(LoadRefused):
    """Records were deleted before they were loaded."""


class LogDiverged(LoadRefused):
    """The cluster has lost records that the table holds, and may have written others at their offsets."""


class Held(NamedTuple):
    """What a table holds of one partition: all before the next offset, which was written under this epoch or before."""

    next_offset: int
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTopic:
    """What a table holds of one life of a topic, after so many commits of any topic of its name."""

    loads: int = 0
    partitions: Mapping[int, Held] = field(default_factory=dict)


class Found(NamedTuple):
    """What the cluster says of one partition: where it begins, where what is stable ends, and under which epoch.

    `held_epoch_end` is where the epoch that the table remembers ended; None where nobody asked, because the table
    remembers none.
    """

    earliest: int
    end: int
    leader_epoch: int
    held_epoch_end: int | None = None


class PartitionPlan(NamedTuple):
    place: TopicPartition
    first: int  # Where the table ends.
    begin: int  # Where reading begins: behind `first` only where records are gone, and may be.
    end: int
    leader_epoch: int
    is_new: bool  # The table has no offset of it yet.

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(self.place, self.begin, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    origin: Origin
    loads: int  # What the table said when this was planned; by the time of the commit it must say the same.
    partitions: tuple[PartitionPlan, ...]
    partition_count: int  # Of all that are known: a broker that lags behind may tell of fewer.
    epochs: Mapping[int, int] = field(default_factory=dict)  # Of partitions of which nothing else is new.

    @property
    def changes(self) -> tuple[PartitionPlan, ...]:
        """The partitions that the table is told something new of."""
        return tuple(one for one in self.partitions if one.is_new or one.end > one.first)

    def transactions(self, loader: str) -> dict[str, int]:
        """What the table keeps after this load, by name."""
        kept = {
            loads_key(loader, self.origin.topic): self.loads + 1,
            partitions_key(loader, self.origin): self.partition_count,
        }
        kept |= {epoch_key(loader, self.origin, number): epoch for number, epoch in self.epochs.items()}
        for one in self.changes:
            kept[offset_key(loader, self.origin, one.place.partition)] = one.end
            if one.leader_epoch != NO_EPOCH:
                kept[epoch_key(loader, self.origin, one.place.partition)] = one.leader_epoch
        return kept

    def held_after(self, held: HeldTopic) -> HeldTopic:
        """What a table that held this holds after this load: what would be read from its `transactions`."""
        partitions = dict(held.partitions)
        for number, epoch in self.epochs.items():
            if number in partitions:
                partitions[number] = partitions[number]._replace(leader_epoch=epoch)
        for one in self.changes:
            number = one.place.partition
            known_epoch = partitions[number].leader_epoch if number in partitions else NO_EPOCH
            epoch = known_epoch if one.leader_epoch == NO_EPOCH else one.leader_epoch
            partitions[number] = Held(one.end, epoch)
        return HeldTopic(loads=self.loads + 1, partitions=partitions)


def plan_topic(
    origin: Origin,
    held: HeldTopic,
    found: Mapping[int, Found],
    *,
    skips_missing: bool = False,
    accepts_new_topic: bool = False,
) -> TopicPlan:
    """Every partition from where the table ends to where the cluster does.

    Of a topic that the table does not know yet, a partition begins where its log does. Of one that it knows, a
    partition that was added since begins at 0: what is gone of it by now was never loaded.
    """
    is_known = bool(held.partitions)
    if held.loads and not is_known and not accepts_new_topic:
        raise TopicRecreated(
            f"the table holds rows of another topic {origin.topic!r}: this one has the id {origin.topic_id} on cluster "
            f"{origin.cluster_id}, so that it was deleted and made anew, or is on another cluster. --accept-new-topic "
            f"loads it as well, from its beginning; the columns cluster_id and topic_id tell the rows apart"
        )
    plans = []
    for partition, now in sorted(found.items()):
        known = held.partitions.get(partition)
        if known is None:
            first = 0 if is_known else now.earliest
        else:
            first = known.next_offset
        plans.append(
            _plan_partition(origin.place(partition), first, now, is_new=known is None, skips_missing=skips_missing)
        )
    count = 1 + max([*held.partitions, *found], default=-1)
    return TopicPlan(origin=origin, loads=held.loads, partitions=tuple(plans), partition_count=count)


def _plan_partition(
    place: TopicPartition, first: int, now: Found, *, is_new: bool, skips_missing: bool
) -> PartitionPlan:
    check_epoch(place, first, now.held_epoch_end)
    if now.end < first and now.held_epoch_end is None and not is_new:
        raise LogDiverged(
            f"{place} ends at offset {now.end}, but the table holds all before {first}: the cluster lost records"
        )
    begin = first
    if now.earliest > first:
        if not skips_missing:
            raise OffsetsExpired(
                f"{place} begins at offset {now.earliest}, and the table ends at {first}: {now.earliest - first} "
                f"offsets were deleted before they were loaded. --missing skip goes on without them"
            )
        begin = now.earliest
    # A leader that has just been elected may not know yet how far the others are: nothing new, then.
    return PartitionPlan(place, first, begin, max(begin, now.end), now.leader_epoch, is_new)


def check_epoch(place: TopicPartition, loaded: int, epoch_end: int | None) -> None:
    """`LogDiverged` where the epoch under which records were loaded ended before the last of them.

    Where the cluster does not know the epoch any more it says -1, which is the same: its log is not the one that was
    loaded.
    """
    if epoch_end is not None and epoch_end < loaded:
        where = f"from offset {epoch_end} on" if epoch_end >= 0 else "from an offset that it cannot tell"
        raise LogDiverged(
            f"the table holds {place} up to offset {loaded}, but the cluster lost those records {where} (an unclean "
            f"election, or a power cut) and may have written others since. --replay "
            f"{place.topic}/{place.partition}:{max(0, epoch_end)}-{loaded} replaces them, once the log is as long again"
        )


def limit_plans(plans: Sequence[TopicPlan], offsets_max: int | None) -> list[TopicPlan]:
    """The same with no more than about so many offsets to read, each partition in proportion."""
    ranges = limit([one.range for plan in plans for one in plan.partitions], offsets_max)
    ends = {each.place: each.end for each in ranges}
    return [
        replace(plan, partitions=tuple(one._replace(end=ends[one.place]) for one in plan.partitions)) for plan in plans
    ]
