"""Segments in order: which one holds an offset, and what is found where one ends and the next begins."""

import pytest

from headrace.protocol.records import Record, encode_batch
from headrace.sim.disk import SimDisk
from headrace.sim.world import World
from headrace.storage.flushing import Place
from headrace.storage.segment import Segment
from headrace.storage.segments import Segments
from tests.unit.storage.logs import NOW_MS

BASES = (10, 20, 30)
# One batch of three records each, at its beginning: the rest of a segment is a gap.
BATCH_BYTES = len(encode_batch([Record(key=None, value=b"value", timestamp_ms=NOW_MS)] * 3))


def make() -> Segments:
    disk = SimDisk(World(1))
    disk.make_dir("t-0")
    made = []
    for base_offset in BASES:
        segment = Segment(disk, "t-0", base_offset, created_ms=NOW_MS, create=True)
        stamp = NOW_MS + base_offset
        data = encode_batch([Record(key=None, value=b"value", timestamp_ms=stamp)] * 3, base_offset=base_offset)
        segment.append(data, base_offset + 2, stamp, 4096)
        made.append(segment)
    return Segments(made)


@pytest.mark.parametrize(
    ("offset", "base_offset"), [(9, 10), (10, 10), (19, 10), (20, 20), (29, 20), (30, 30), (99, 30)]
)
def test_an_offset_is_held_by_the_last_that_begins_before_it(offset: int, base_offset: int) -> None:
    segments = make()
    assert segments.holding(offset).base_offset == base_offset
    assert [segment.base_offset for segment in segments.since(offset)] == [
        base for base in BASES if base >= base_offset
    ]


def test_the_last_one_is_active_and_the_oldest_go() -> None:
    segments = make()
    old = segments.active
    disk = old._disk
    segments.add(Segment(disk, "t-0", 40, created_ms=NOW_MS, create=True))
    assert segments.active.base_offset == 40
    assert [segment.base_offset for segment in segments.drop(2)] == [10, 20]
    assert (segments.first, len(segments)) == (old, 2)
    assert segments.holding(10) is old


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        (21, Place(21, 20, 0)),
        (23, Place(23, 20, BATCH_BYTES)),
        (32, Place(32, 30, 0)),
        (33, Place(33, 30, BATCH_BYTES)),
    ],
)
def test_an_offset_has_a_place(offset: int, place: Place) -> None:
    assert make().place_of(offset) == place


@pytest.mark.parametrize(
    ("offset", "limit", "base_offset"),
    [
        (12, (30, BATCH_BYTES), 10),
        (13, (30, BATCH_BYTES), 20),  # A gap leads to the next one.
        (13, (20, 0), None),
        (13, (10, BATCH_BYTES), None),
        (33, (30, BATCH_BYTES), None),
        (30, (30, BATCH_BYTES), 30),
    ],
)
def test_reading_stops_at_the_limit(offset: int, limit: tuple[int, int], base_offset: int | None) -> None:
    segments = make()
    span = segments.read(offset, *limit, 10_000, True)
    expected = None if base_offset is None else (segments.holding(base_offset).log, 0, BATCH_BYTES)
    assert span == expected


def test_timestamps_beyond_the_limit_are_not_found() -> None:
    segments = make()
    found = segments.find_timestamp(NOW_MS + 11, start_offset=10, limit_base=20, limit_position=BATCH_BYTES)
    assert found is not None
    assert found.offset == 20
    assert segments.find_timestamp(NOW_MS + 21, start_offset=10, limit_base=20, limit_position=BATCH_BYTES) is None
    largest = segments.find_max_timestamp(limit_base=20, limit_position=BATCH_BYTES)
    assert largest is not None
    assert largest.offset == 20
