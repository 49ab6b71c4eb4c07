"""When a segment is full. That a log rolls then, and what becomes of it: test_log.py."""

from typing import Any

import pytest

from headrace.protocol.batch import NO_TIMESTAMP
from headrace.sim.disk import SimDisk
from headrace.sim.world import World
from headrace.storage.rolling import Rolling
from headrace.storage.scan import RELATIVE_OFFSET_MAX
from headrace.storage.segment import Segment
from tests.unit.storage.logs import NOW_MS, Settings

SIZE = 100


def make(*, first_timestamp: int | None = NOW_MS, **settings: Any) -> tuple[Rolling, Segment]:
    """A segment with one batch of 100 bytes at offset 1000, or with none."""
    disk = SimDisk(World(1))
    disk.make_dir("t-0")
    segment = Segment(disk, "t-0", 1000, created_ms=NOW_MS - 5, create=True)
    rolling = Rolling(Settings(**settings), segment)
    if first_timestamp is not None:
        segment.append(bytes(SIZE), 1000, first_timestamp, 4096)
        rolling.begin(segment)
    return rolling, segment


def test_by_size() -> None:
    rolling, segment = make(segment_bytes=300)
    assert not rolling.is_due(segment, 200, 1001, NOW_MS, NOW_MS)
    assert rolling.is_due(segment, 201, 1001, NOW_MS, NOW_MS)


def test_by_the_reach_of_its_offsets() -> None:
    rolling, segment = make()
    assert not rolling.is_due(segment, SIZE, 1000 + RELATIVE_OFFSET_MAX, NOW_MS, NOW_MS)
    assert rolling.is_due(segment, SIZE, 1001 + RELATIVE_OFFSET_MAX, NOW_MS, NOW_MS)


def test_by_its_index() -> None:
    # Three time entries of twelve bytes, one of which is kept for sealing.
    rolling, segment = make(segment_index_bytes=36)
    segment.index_entries = 1
    assert not rolling.is_due(segment, SIZE, 1001, NOW_MS, NOW_MS)
    segment.index_entries = 2
    assert rolling.is_due(segment, SIZE, 1001, NOW_MS, NOW_MS)


@pytest.mark.parametrize(
    ("first_timestamp", "late_ms", "due"),
    [
        (NOW_MS, (NOW_MS + 10, NOW_MS + 999), False),
        (NOW_MS, (NOW_MS + 11, NOW_MS), True),
        # Without event time the clock counts, from when the segment was made.
        (NO_TIMESTAMP, (NOW_MS + 999, NOW_MS + 5), False),
        (NO_TIMESTAMP, (NO_TIMESTAMP, NOW_MS + 6), True),
    ],
)
def test_by_age(first_timestamp: int, late_ms: tuple[int, int], due: bool) -> None:
    rolling, segment = make(first_timestamp=first_timestamp, segment_ms=10)
    max_timestamp, now_ms = late_ms
    assert rolling.is_due(segment, SIZE, 1001, max_timestamp, now_ms) == due


def test_an_empty_one_takes_anything() -> None:
    rolling, segment = make(first_timestamp=None, segment_bytes=1, segment_ms=1)
    assert not rolling.is_due(segment, SIZE, 1000, NOW_MS + 10_000, NOW_MS + 10_000)
