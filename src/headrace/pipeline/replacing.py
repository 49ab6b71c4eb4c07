"""Ranges of offsets that are loaded once more, and the rows that give way to them.

For when the log, the declared schema or the program that made rows was wrong: what was loaded of a range is taken out
and what is read of it now put in, in one commit. A file that holds other rows as well is written again without those.
"""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
from headrace.pipeline.plan import Found, HeldTopic, LoadRefused, TopicPlan
from headrace.pipeline.splitting import OffsetRange
from headrace.wire.metadata import NO_EPOCH

_RANGE: Final = re.compile(r"(?:(?P<topic>[^/]+)/)?(?P<partition>\d+):(?P<first>\d+)-(?P<end>\d+)")


class NotLoaded(LoadRefused):
    """What was never loaded cannot be replaced."""


def parse_replay(text: str, topics: Sequence[str]) -> OffsetRange:
    """`TOPIC/PARTITION:FIRST-END`, the end itself not read; without the topic where only one is meant."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ConfigError(f"--replay {text!r} is not TOPIC/PARTITION:FIRST-END, such as clicks/0:1000-2000")
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
        is_mended = now.held_epoch_end is not None and first <= max(0, now.held_epoch_end) and end == known.next_offset
        if is_mended and now.leader_epoch != NO_EPOCH:
            epochs[place.partition] = now.leader_epoch
    return TopicPlan(
        origin=origin, loads=held.loads, partitions=(), partition_count=1 + max(held.partitions), epochs=epochs
    )


def take_out(
    table: Delta, origins: Mapping[TopicName, Origin], ranges: Sequence[OffsetRange]
) -> list[AddAction | RemoveAction]:
    """What removes the rows of these ranges from a table, and puts back what else is in their files."""
    actions: list[AddAction | RemoveAction] = []
    files, columns = table.location.files(), table.schema
    now_ms = time.time_ns() // 1_000_000
    for live in table.live_files():
        concerned = [each for each in ranges if may_hold(live, each)]
        if not concerned:
            continue
        with files.open_input_file(live.path) as source:
            rows = pq.ParquetFile(source).read()
        # Whoever compacted or corrected rows may have written text and bytes in another of Arrow's ways.
        rows = rows.cast(pa.schema([columns.field(name) for name in rows.column_names]))
        keep = _outside(rows, origins, concerned)
        if pc.all(keep, min_count=0).as_py():
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
        if (kept := rows.filter(keep)).num_rows:
            written = write_file(files, kept, live.partition_values)
            actions += check_files(files, [written], kept.schema)
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


def _outside(rows: pa.Table, origins: Mapping[TopicName, Origin], ranges: Sequence[OffsetRange]) -> Any:
    """Which rows are of none of the ranges. Rows of another life of a topic have nothing to do with it."""
    inside: Any = pa.array([False] * rows.num_rows)
    for place, first, end in ranges:
        origin = origins[place.topic]
        mine = pc.equal(rows["topic"], origin.topic)
        for name, value in (("cluster_id", origin.cluster_id), ("topic_id", origin.topic_id)):
            mine = pc.and_(mine, pc.equal(rows[name], value))
        mine = pc.and_(mine, pc.equal(rows["partition"], place.partition))
        mine = pc.and_(mine, pc.and_(pc.greater_equal(rows["offset"], first), pc.less(rows["offset"], end)))
        inside = pc.or_(inside, mine)
    return pc.invert(pc.fill_null(inside, False))
