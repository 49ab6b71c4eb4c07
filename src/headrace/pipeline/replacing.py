"""Ranges of offsets that are loaded once more, and the rows that give way to them.

For when the log, the declared schema or the program that made rows was wrong: what was loaded of a range is taken out
and what is read of it now put in, in one commit. A file that holds other rows as well is written again without those.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction

from headrace.errors import ConfigError
from headrace.ids import TopicName, TopicPartition, parse_topic_name
from headrace.pipeline.delta import Delta, LiveFile
from headrace.pipeline.files import write_file
from headrace.pipeline.footers import check_files
from headrace.pipeline.origins import Origin
from headrace.pipeline.plan import Found, HeldTopic, LoadRefused, OffsetsExpired, TopicPlan
from headrace.pipeline.splitting import OffsetRange
from headrace.wire.metadata import NO_EPOCH

Mask = npt.NDArray[np.bool_]

DEAD_LETTERS_WORD: Final = "dead-letters"  # In place of a range.

_RANGE: Final = re.compile(r"(?:(?P<topic>[^/]+)/)?(?P<partition>\d+):(?P<first>\d+)-(?P<end>\d+)")


class NotLoaded(LoadRefused):
    """What was never loaded cannot be replaced."""


def parse_replay(text: str, topics: Sequence[str]) -> OffsetRange:
    """`TOPIC/PARTITION:FIRST-END`, the end itself not read; without the topic where only one is meant."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--replay {text!r} is not TOPIC/PARTITION:FIRST-END, such as clicks/0:1000-2000, nor {DEAD_LETTERS_WORD}"
        )
    topic: str = match["topic"] or (topics[0] if len(topics) == 1 else "")
    if topic not in topics:
        raise ConfigError(f"--replay {text!r}: of which topic? There are {', '.join(topics)}")
    first, end = int(match["first"]), int(match["end"])
    if first >= end:
        raise ConfigError(f"--replay {text!r}: the end is not behind the first offset")
    return OffsetRange(TopicPartition(parse_topic_name(topic), int(match["partition"])), first, end)


def plan_replay(
    origin: Origin, held: HeldTopic, found: Mapping[int, Found], ranges: Sequence[OffsetRange]
) -> TopicPlan:
    """A commit that changes no offset. Where it replaces all that the cluster has lost, its new epoch is remembered."""
    epochs = {}
    numbers = [each.place.partition for each in ranges]
    if len(set(numbers)) != len(numbers):
        raise ConfigError(f"--replay names partition {max(numbers, key=numbers.count)} of {origin.topic} twice")
    for place, first, end in ranges:
        known = held.partitions.get(place.partition)
        if known is None or end > known.next_offset:
            have = "nothing" if known is None else f"what is before offset {known.next_offset}"
            raise NotLoaded(f"the table holds {have} of {place}: {first}-{end} cannot be replaced")
        now = found[place.partition]
        if first < now.earliest:
            raise OffsetsExpired(
                f"{place} begins at offset {now.earliest}: {first}-{end} cannot be read once more and replaced. "
                f"--replay {DEAD_LETTERS_WORD} makes rows of what the table keeps as dead letters"
            )
        is_mended = now.held_epoch_end is not None and first <= max(0, now.held_epoch_end) and end == known.next_offset
        if is_mended and now.leader_epoch != NO_EPOCH:
            epochs[place.partition] = now.leader_epoch
    return TopicPlan(
        origin=origin, loads=held.loads, partitions=(), partition_count=1 + max(held.partitions), epochs=epochs
    )


def plan_none(origin: Origin, held: HeldTopic) -> TopicPlan:
    """A commit that reads nothing of the topic."""
    if not held.partitions:
        raise NotLoaded(f"the table holds nothing of topic {origin.topic!r} as it is now")
    return TopicPlan(origin=origin, loads=held.loads, partitions=(), partition_count=1 + max(held.partitions))


def take_out(
    table: Delta, origins: Mapping[TopicName, Origin], ranges: Sequence[OffsetRange]
) -> list[AddAction | RemoveAction]:
    """What removes the rows of these ranges from a table, and puts back what else is in their files."""

    def keep(_: LiveFile, rows: pa.Table) -> Mask:
        outside = np.ones(rows.num_rows, np.bool_)
        for each in ranges:
            outside &= ~inside(rows, origins[each.place.topic], each)
        return outside

    return write_without(table, files_with(table, ranges), keep)


def files_with(table: Delta, ranges: Sequence[OffsetRange]) -> list[LiveFile]:
    """Files that may have rows of one of these ranges."""
    return [live for live in table.live_files() if any(may_hold(live, each) for each in ranges)]


def read_file(table: Delta, live: LiveFile, names: Sequence[str] | None = None) -> pa.Table:
    """Rows of one file, with the columns of the table: all that it has, or those that are named."""
    with table.location.files().open_input_file(live.path) as source:
        rows = pq.ParquetFile(source).read(columns=None if names is None else list(names))
    # Whoever compacted or corrected rows may have written text and bytes in another of Arrow's ways.
    columns = table.schema
    return rows.cast(pa.schema([columns.field(name) for name in rows.column_names]))


def write_without(
    table: Delta, lives: Sequence[LiveFile], keep: Callable[[LiveFile, pa.Table], Mask]
) -> list[AddAction | RemoveAction]:
    """What removes rows that are not to be kept from these files: each that has any is written again without them."""
    actions: list[AddAction | RemoveAction] = []
    files, now_ms = table.location.files(), time.time_ns() // 1_000_000
    for live in lives:
        rows = read_file(table, live)
        kept = keep(live, rows)
        if kept.all():
            continue
        actions.append(
            RemoveAction(
                live.path,
                data_change=True,
                deletion_timestamp=now_ms,
                size=live.size_bytes,
                partition_values=dict(live.partition_values),
            )
        )
        if kept.any():
            left = rows.filter(pa.array(kept))
            actions += check_files(files, [write_file(files, left, live.partition_values)], left.schema)
    return actions


def may_hold(live: LiveFile, range_: OffsetRange) -> bool:
    """Whether a file may have rows of a range, by what the table's log tells of it."""
    place, first, end = range_
    wanted: dict[str, tuple[Any, Any]] = {
        "topic": (place.topic, place.topic),
        "partition": (place.partition, place.partition),
        "offset": (first, end - 1),
    }
    for name, (least, greatest) in wanted.items():
        file_least, file_greatest = live.bounds.get(name, (None, None))
        if file_least is not None and file_greatest is not None and (file_greatest < least or file_least > greatest):
            return False
    return True


def inside(rows: pa.Table, origin: Origin, range_: OffsetRange) -> Mask:
    """Which rows are of a range. Rows of another life of a topic have nothing to do with it."""
    place, first, end = range_
    offsets = pc.and_(pc.greater_equal(rows["offset"], first), pc.less(rows["offset"], end))
    of_partition = pc.and_(pc.equal(rows["partition"], place.partition), offsets)
    mask: Mask = of_life(rows, origin) & np.asarray(pc.fill_null(of_partition, False))
    return mask


def of_life(rows: pa.Table, origin: Origin) -> Mask:
    """Which rows are of this life of a topic."""
    found = np.ones(rows.num_rows, np.bool_)
    for name, value in zip(("cluster_id", "topic", "topic_id"), origin, strict=True):
        found &= np.asarray(pc.fill_null(pc.equal(rows[name], value), False))
    return found
