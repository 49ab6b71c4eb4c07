import random
from collections.abc import Iterator

import pytest

from headrace.errors import CorruptBatch
from headrace.protocol.batch import parse_header
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, decode_records, encode_batch
from headrace.sim.disk import SimDisk
from headrace.sim.world import World
from headrace.storage.loading import rebuild_indexes
from headrace.storage.scan import Chain, headers_from
from headrace.storage.segment import Segment, TimestampOffset
from tests.unit.storage.logs import NOW_MS, Settings

BASE = 1000
INTERVAL_BYTES = 300


def make(*, seed: int = 1, count: int = 60, gaps: bool = False) -> tuple[Segment, list[bytes]]:
    """A segment of batches of many sizes, with timestamps that go up and down."""
    chance = random.Random(seed)
    disk = SimDisk(World(seed))
    disk.make_dir("t-0")
    segment = Segment(disk, "t-0", BASE, created_ms=NOW_MS, create=True)
    batches = []
    offset = BASE
    for _ in range(count):
        if gaps:
            offset += chance.choice((0, 0, 3))
        records = [
            Record(key=None, value=chance.randbytes(chance.randrange(60)), timestamp_ms=NOW_MS + chance.randrange(2000))
            for _ in range(chance.randint(1, 5))
        ]
        codec = chance.choice((Codec.NONE, Codec.GZIP))
        data = encode_batch(records, base_offset=offset, leader_epoch=offset // 40, codec=codec)
        header = parse_header(data)
        segment.append(
            data,
            last_offset=header.last_offset,
            max_timestamp=header.max_timestamp,
            index_interval_bytes=INTERVAL_BYTES,
        )
        batches.append(data)
        offset = header.last_offset + 1
    return segment, batches


def placed(batches: list[bytes]) -> Iterator[tuple[int, bytes]]:
    position = 0
    for data in batches:
        yield position, data
        position += len(data)


@pytest.mark.parametrize("gaps", [False, True])
def test_every_offset_is_located_in_the_batch_that_reaches_it(gaps: bool) -> None:
    segment, batches = make(gaps=gaps)
    assert segment.index_entries > 10
    end = parse_header(batches[-1]).last_offset
    for offset in range(BASE - 5, end + 3):
        reaching = (place for place in placed(batches) if parse_header(place[1]).last_offset >= offset)
        expected = next(((position, len(data)) for position, data in reaching), None)
        assert segment.locate(offset, end=segment.size) == expected


def test_an_index_entry_is_believed_only_if_the_batch_agrees() -> None:
    segment, batches = make(count=61)
    last_position, last = list(placed(batches))[-1]
    header = parse_header(last)
    assert segment.offsets.around(header.last_offset - BASE)[0] < last_position
    # As if offsets up to much later stood in the first batch.
    segment.offsets.append(header.last_offset - BASE + 100, 0)
    assert segment.locate(header.last_offset, segment.size) == (last_position, len(last))


def test_nothing_is_located_beyond_the_limit() -> None:
    segment, batches = make()
    for position, data in placed(batches):
        offset = parse_header(data).base_offset
        assert segment.locate(offset, end=position) is None
        assert segment.locate(offset, end=position + len(data)) == (position, len(data))


def test_a_log_that_ends_before_its_index_does_is_noticed_or_located_right() -> None:
    """Cut at any byte, as a medium may, it must not fail in a way that nobody expects."""
    segment, batches = make(count=12)
    segment.seal()
    segment.write_indexes()
    size = segment.size
    assert isinstance(segment._disk, SimDisk)
    noticed = 0
    for cut_bytes in range(size):
        disk = segment._disk.copy()
        disk.cut(segment.log.path, cut_bytes)
        cut = Segment(disk, "t-0", BASE, created_ms=NOW_MS)
        for position, data in placed(batches):
            try:
                found = cut.locate(parse_header(data).base_offset, end=cut_bytes)
            except CorruptBatch:
                noticed += 1
            else:
                assert found in (None, (position, len(data)))
    assert noticed


def test_a_position_where_no_batch_begins_is_noticed() -> None:
    segment, batches = make()
    disk = segment._disk
    assert isinstance(disk, SimDisk)
    position = len(batches[0])
    for damage in (bytes(61), b"\xff" * 61):
        disk.overwrite("t-0/00000000000000001000.log", position, damage)
        broken = Segment(disk, "t-0", BASE, created_ms=NOW_MS)
        with pytest.raises(CorruptBatch):
            broken.locate(BASE + 500, end=broken.size)


def all_records(batches: list[bytes]) -> list[tuple[Record, int]]:
    return [(record, parse_header(data).leader_epoch) for data in batches for record in decode_records(data)]


@pytest.mark.parametrize("seed", range(4))
def test_timestamps_are_found_as_by_reading_everything(seed: int) -> None:
    segment, batches = make(seed=seed)
    records = all_records(batches)
    for timestamp in range(NOW_MS - 3, NOW_MS + 2003, 37):
        for start_offset in (BASE, BASE + 31, BASE + 90):
            expected = next(
                (
                    TimestampOffset(record.timestamp_ms, record.offset, epoch)
                    for record, epoch in records
                    if record.timestamp_ms >= timestamp and record.offset >= start_offset
                ),
                None,
            )
            found = segment.find_timestamp(timestamp, start_offset=start_offset, end=segment.size)
            assert found == expected


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_timestamp_is_found(seed: int) -> None:
    segment, batches = make(seed=seed)
    largest = max(record.timestamp_ms for record, _ in all_records(batches))
    record, epoch = next(item for item in all_records(batches) if item[0].timestamp_ms == largest)
    expected = TimestampOffset(largest, record.offset, epoch)
    assert segment.find_max_timestamp(end=segment.size) == expected
    segment.seal()
    segment.write_indexes()
    again = Segment(segment._disk, "t-0", BASE, created_ms=NOW_MS)
    assert again.find_max_timestamp(end=again.size) == expected


def test_a_log_append_time_belongs_to_the_first_record_of_its_batch() -> None:
    disk = SimDisk(World(1))
    disk.make_dir("t-0")
    segment = Segment(disk, "t-0", 0, created_ms=NOW_MS, create=True)
    data = encode_batch([Record(None, b"a"), Record(None, b"b")], append_time_ms=NOW_MS + 5, leader_epoch=3)
    segment.append(data, last_offset=1, max_timestamp=NOW_MS + 5, index_interval_bytes=0)
    assert segment.find_max_timestamp(end=segment.size) == TimestampOffset(NOW_MS + 5, 0, 3)


def test_a_segment_without_timestamps_has_none_to_find() -> None:
    disk = SimDisk(World(1))
    disk.make_dir("t-0")
    segment = Segment(disk, "t-0", 0, created_ms=NOW_MS, create=True)
    segment.append(
        encode_batch([Record(None, b"a", timestamp_ms=-1)]), last_offset=0, max_timestamp=-1, index_interval_bytes=0
    )
    assert segment.find_max_timestamp(end=segment.size) is None
    assert segment.learn_first_timestamp() == -1


@pytest.mark.parametrize("gaps", [False, True])
def test_indexes_built_anew_are_those_that_appending_made(gaps: bool) -> None:
    segment, _ = make(count=200, gaps=gaps)
    segment.seal()
    appended = [file.read(0, file.size) for file in segment.write_indexes()]
    assert all(appended)
    again = Segment(segment._disk, "t-0", BASE, created_ms=NOW_MS)
    assert rebuild_indexes(again, Chain(BASE, next_base=None), Settings(index_interval_bytes=INTERVAL_BYTES)) is None
    again.seal()
    assert [file.read(0, file.size) for file in again.write_indexes()] == appended
    for name in ("first_timestamp", "max_timestamp", "max_timestamp_offset", "index_entries", "bytes_since_index"):
        assert getattr(again, name) == getattr(segment, name), name


def test_a_segment_written_by_another_process_is_resumed() -> None:
    segment, _ = make()
    segment.seal()
    segment.write_indexes()
    again = Segment(segment._disk, "t-0", BASE, created_ms=NOW_MS)
    again.resume()
    for name in ("max_timestamp", "max_timestamp_offset", "index_entries"):
        assert getattr(again, name) == getattr(segment, name), name


def test_the_last_batch_is_found_from_the_index_or_without_it() -> None:
    segment, batches = make()
    assert segment.last_header() == parse_header(batches[-1])
    segment.forget_indexes()
    assert segment.last_header() == parse_header(batches[-1])
    empty = Segment(segment._disk, "t-0", 5000, created_ms=NOW_MS, create=True)
    assert empty.last_header() is None


@pytest.mark.parametrize("kept", [1, 12, 60, 61, 62])
def test_headers_that_do_not_fit_their_file_are_noticed(kept: int) -> None:
    segment, batches = make(count=3)
    disk = segment._disk
    assert isinstance(disk, SimDisk)
    disk.cut("t-0/00000000000000001000.log", len(batches[0]) + kept)
    cut = Segment(disk, "t-0", BASE, created_ms=NOW_MS)
    with pytest.raises(CorruptBatch):
        list(headers_from(cut.log, start=0, end=cut.size))


def test_doomed_files_are_out_of_the_way_and_still_readable() -> None:
    segment, batches = make(count=3)
    segment.seal()
    segment.write_indexes()
    disk = segment._disk
    doomed = segment.doomed_files()
    assert disk.list("t-0") == [f"{BASE:020d}{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")]
    assert segment.log.read(0, segment.size) == b"".join(batches)
    for file in doomed:
        file.delete()
    assert disk.list("t-0") == []
