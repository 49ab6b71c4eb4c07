import random
from bisect import bisect_right
from itertools import pairwise

import pytest

from headrace.errors import DiskFull
from headrace.sim.disk import Operation, SimDisk
from headrace.sim.world import World
from headrace.storage.index import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeEntry, TimeIndex

# Around the sizes at which entries are written out, leave memory, or fill a block of the file.
COUNTS = [0, 1, 2, 511, 512, 513, 1023, 1024, 1025, 1535, 1536, 1537, 4000]


def disk() -> SimDisk:
    return SimDisk(World(1))


def entries(count: int, *, seed: int = 3) -> list[tuple[int, int]]:
    chance = random.Random(seed)
    offset, position, made = -1, 0, []
    for _ in range(count):
        offset += chance.randint(1, 5)
        position += chance.randint(61, 5000)
        made.append((offset, position))
    return made


def filled(where: SimDisk, count: int) -> tuple[OffsetIndex, list[tuple[int, int]]]:
    index = OffsetIndex(where, "i")
    made = entries(count)
    for entry in made:
        index.append(*entry)
    return index, made


def model_floor(made: list[tuple[int, int]], column: int, key: int) -> int:
    at = bisect_right(made, key, key=lambda entry: entry[column])
    return made[at - 1][1] if at else 0


def model_following(made: list[tuple[int, int]], offset: int) -> int:
    """The position of the first entry behind this offset, unless an entry is of this very offset."""
    if any(entry[0] == offset for entry in made):
        return -1
    return next((position for behind, position in made if behind > offset), -1)


def check_against_model(index: OffsetIndex, made: list[tuple[int, int]]) -> None:
    assert index.count == len(made)
    assert index.last() == (made[-1] if made else None)
    chance = random.Random(5)
    edges = [value for offset, position in made[:3] + made[-3:] for value in (offset, position)]
    ends = (made[-1][0] + 10, made[-1][1] + 10) if made else (10, 10)
    keys = [chance.randrange(max(ends)) for _ in range(300)] + [edge + d for edge in edges for d in (-1, 0, 1)]
    for key in keys:
        assert index.floor(key) == model_floor(made, 0, key), key
        assert index.boundary(key) == model_floor(made, 1, key), key
        # Where one block ends nobody looks into the next.
        assert index.around(key)[1] in (model_following(made, key), -1), key


@pytest.mark.parametrize("count", COUNTS)
def test_lookups_match_a_plain_list(count: int) -> None:
    index, made = filled(disk(), count)
    check_against_model(index, made)


@pytest.mark.parametrize("count", COUNTS)
def test_lookups_match_after_reopening(count: int) -> None:
    where = disk()
    index, made = filled(where, count)
    index.flush()
    check_against_model(OffsetIndex(where, "i"), made)


@pytest.mark.parametrize("count", COUNTS)
def test_every_entry_before_a_truncation_stays(count: int) -> None:
    for keep in {0, 1, count // 2, count - 1, count}:
        where = disk()
        index, made = filled(where, count)
        check_against_model(index, made)  # So that blocks are cached.
        index.truncate(made[keep][0] if 0 <= keep < count else 1 << 30)
        kept = made[:keep] if 0 <= keep < count else made
        check_against_model(index, kept)
        # What is appended then follows what was kept.
        offset = (kept[-1][0] if kept else 0) + 1
        index.append(offset, (kept[-1][1] if kept else 0) + 61)
        index.flush()
        check_against_model(OffsetIndex(where, "i"), [*kept, (offset, (kept[-1][1] if kept else 0) + 61)])


def test_a_sequential_reader_reads_one_block_after_the_other() -> None:
    where = disk()
    index, made = filled(where, 4000)
    index.flush()
    index = OffsetIndex(where, "i")
    before = where.counts[Operation.READ]
    for offset, position in made:
        assert index.floor(offset) == position
    # Four thousand lookups in eight blocks: a search and a read each, and one at the last entry of each.
    assert where.counts[Operation.READ] - before < 16 * 6


def test_the_next_entry_is_known_but_where_a_block_ends() -> None:
    where = disk()
    _, made = filled(where, 4000)
    index = OffsetIndex(where, "i")
    assert index.count == 3584  # Seven blocks are written.
    between = [offset for offset in range(made[3583][0]) if model_following(made, offset) >= 0]
    unknown = [offset for offset in between if index.around(offset)[1] < 0]
    assert 0 < len({bisect_right(made, offset, key=lambda entry: entry[0]) for offset in unknown}) <= 6


def test_the_file_is_kafkas_format() -> None:
    where = disk()
    index, made = filled(where, 3)
    index.flush()
    assert where.read_file("i") == b"".join(OFFSET_ENTRY.pack(*entry) for entry in made)
    times = TimeIndex(where, "t")
    times.append(1_700_000_000_000, 7)
    times.flush()
    assert where.read_file("t") == (1_700_000_000_000).to_bytes(8, "big") + (7).to_bytes(4, "big")


def test_a_torn_entry_is_no_entry_and_what_follows_takes_its_place() -> None:
    for kind, entry in ((OffsetIndex, OFFSET_ENTRY), (TimeIndex, TIME_ENTRY)):
        for torn in range(1, entry.size):
            where = disk()
            index = kind(where, "i")
            for number in (1, 2, 3):
                index.append(number, number)
            index.flush()
            where.cut("i", 2 * entry.size + torn)
            index = kind(where, "i")
            assert index.count == 2
            index.append(9, 9)
            index.flush()
            assert where.read_file("i") == b"".join(entry.pack(*pair) for pair in ((1, 1), (2, 2), (9, 9)))


def test_nothing_is_written_until_there_is_much_or_somebody_asks() -> None:
    where = disk()
    index, _ = filled(where, 511)
    assert not where.exists("i")
    index.append(1 << 20, 1 << 24)
    assert where.open("i").size == 512 * 8


def test_a_full_disk_keeps_entries_waiting_for_room() -> None:
    where = disk()
    where.capacity_bytes = 0
    index, made = filled(where, 1400)
    check_against_model(index, made)
    with pytest.raises(DiskFull):
        index.flush()
    where.capacity_bytes = None
    index.flush()
    check_against_model(index, made)
    check_against_model(OffsetIndex(where, "i"), made)


def model_time_floor(made: list[TimeEntry], timestamp: int) -> int:
    return max((entry.relative_offset for entry in made if entry.timestamp < timestamp), default=0)


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 1500])
@pytest.mark.parametrize("flushed", [True, False])
def test_times_match_a_plain_list(count: int, flushed: bool) -> None:
    where = disk()
    index = TimeIndex(where, "t")
    made: list[TimeEntry] = []
    chance = random.Random(4)
    timestamp, offset = 1000, 0
    for _ in range(count):
        timestamp += chance.randint(-3, 6)
        offset += chance.randint(1, 4)
        index.append(timestamp, offset)
        if not made or timestamp > made[-1].timestamp:
            made.append(TimeEntry(timestamp, offset))
    if flushed:
        index.flush()
        index = TimeIndex(where, "t")
    assert index.count == len(made)
    assert index.last() == (made[-1] if made else None)
    edges = [edge + step for edge in (0, 1000, timestamp) for step in (-1, 0, 1)]
    for key in [*edges, *(chance.randrange(3000) for _ in range(200))]:
        assert index.floor(key) == model_time_floor(made, key), key


@pytest.mark.parametrize("count", [1, 511, 513, 1500])
def test_times_truncate_by_offset(count: int) -> None:
    where = disk()
    made = [TimeEntry(1000 + number, number * 2) for number in range(count)]
    for keep in {0, 1, count // 2, count}:
        where = disk()
        index = TimeIndex(where, "t")
        for entry in made:
            index.append(*entry)
        index.truncate(keep * 2)
        assert index.count == keep
        assert index.last() == (made[keep - 1] if keep else None)
        index.append(10_000, 9_999)
        assert index.floor(20_000) == 9_999
        index.flush()
        assert TimeIndex(where, "t").count == keep + 1


def test_negative_timestamps_leave_no_entry() -> None:
    index = TimeIndex(disk(), "t")
    index.append(-1, 5)
    assert (index.count, index.last()) == (0, None)


def test_the_model_itself_rises() -> None:
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries(100)))
