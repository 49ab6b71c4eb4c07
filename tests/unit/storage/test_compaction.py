"""What compaction keeps of a log, what it leaves of a batch, and when a tombstone goes."""

from typing import Any

import pytest

from headrace.errors import CorruptBatch
from headrace.protocol.batch import CONTROL, TRANSACTIONAL, parse_header, whole_batches
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, decode_records, encode_batch
from headrace.storage.key_map import KEY_BYTES, KeyMap
from headrace.storage.log import Duplicate
from headrace.storage.verify import verify_segment
from tests.unit.storage.compacting import compact, keyed, latest, pairs, write_cleaned
from tests.unit.storage.logs import NOW_MS, LogStage, read_batches, read_records

DAY_MS = 86_400_000


def compacted_stage(**settings: Any) -> LogStage:
    return LogStage(compacts=True, **settings)


def fill(stage: LogStage, *batches: bytes) -> None:
    """Batches, and a new segment behind them with one more key."""
    for batch in batches:
        stage.append(batch)
    stage.log.roll(now_ms=NOW_MS)
    stage.append(keyed((b"active", b"")))


def test_the_last_record_of_each_key_stays_where_it_was() -> None:
    stage = compacted_stage()
    fill(
        stage,
        keyed((b"a", b"1"), (b"b", b"1"), (b"c", b"1")),
        keyed((b"a", b"2"), (b"d", b"1")),
        keyed((b"b", b"2"), (b"a", b"3")),
    )
    assert compact(stage) == 7
    assert pairs(stage) == [
        (2, b"c", b"1"), (4, b"d", b"1"), (5, b"b", b"2"), (6, b"a", b"3"), (7, b"active", b""),
    ]  # fmt: skip
    assert stage.log.start_offset == 0
    assert stage.log.end_offset == 8


def test_the_active_segment_is_not_looked_at() -> None:
    stage = compacted_stage()
    fill(stage, keyed((b"active", b"old")))
    compact(stage)
    assert pairs(stage) == [(0, b"active", b"old"), (1, b"active", b"")]


def test_what_was_clean_is_compared_with_what_is_dirty() -> None:
    stage = compacted_stage()
    fill(stage, keyed((b"a", b"1"), (b"b", b"1")))
    cleaned = compact(stage)
    stage.append(keyed((b"a", b"2")))
    stage.log.roll(now_ms=NOW_MS)
    compact(stage, cleaned_offset=cleaned)
    assert latest(pairs(stage)) == {b"b": (1, b"1"), b"active": (2, b""), b"a": (3, b"2")}


def test_compacting_again_changes_nothing() -> None:
    stage = compacted_stage()
    fill(stage, *[keyed((b"%d" % (number % 7), b"%d" % number)) for number in range(50)])
    cleaned = compact(stage)
    once = [stage.content(segment.base_offset) for segment in stage.log.segments]
    compact(stage)
    compact(stage, cleaned_offset=cleaned)
    assert [stage.content(segment.base_offset) for segment in stage.log.segments] == once


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_keeps_its_header_and_codec(codec: Codec) -> None:
    stage = compacted_stage()
    made = keyed(
        (b"a", b"1" * 100), (b"b", b"1" * 100), (b"a", b"2" * 100), (b"c", b"x"),
        codec=codec, producer_id=9, producer_epoch=3, base_sequence=40,
    )  # fmt: skip
    fill(stage, made, keyed((b"c", b"y")))
    before = read_batches(stage.log)[0]
    compact(stage)
    after = read_batches(stage.log)[0]
    changed = {name for name, value in before._asdict().items() if getattr(after, name) != value}
    assert changed <= {"batch_length", "crc", "record_count"}
    assert (after.record_count, after.last_offset) == (2, 3)
    assert pairs(stage)[:3] == [(1, b"b", b"1" * 100), (2, b"a", b"2" * 100), (4, b"c", b"y")]


def test_times_and_headers_of_records_stay() -> None:
    stage = compacted_stage()
    records = [
        Record(b"%d" % (number % 3), b"v", (("h", b"%d" % number),), NOW_MS + number * 1000) for number in range(6)
    ]
    fill(stage, encode_batch(records), keyed((b"2", b"new")))
    compact(stage)
    kept = [record for record in read_records(stage.log) if record.offset < 6]
    assert kept == [records[3]._replace(offset=3), records[4]._replace(offset=4)]
    assert read_batches(stage.log)[0].max_timestamp == NOW_MS + 4000


def test_the_time_of_appending_stays() -> None:
    stage = compacted_stage(log_append_time=True)
    fill(stage, keyed((b"a", b"1"), (b"b", b"1")), keyed((b"a", None)))
    compact(stage, now_ms=NOW_MS + 5)
    assert {record.timestamp_ms for record in read_records(stage.log)} == {NOW_MS}


def test_whole_batches_are_copied_byte_by_byte() -> None:
    stage = compacted_stage()
    fill(stage, keyed((b"a", b"1"), codec=Codec.GZIP), keyed((b"b", b"1"), (b"c", b"1")))
    before = stage.content(0)
    compact(stage)
    assert stage.content(0) == before


def test_records_without_a_key_go() -> None:
    stage = compacted_stage()
    fill(stage, keyed((None, b"1"), (b"a", b"1"), (None, b"2")), keyed((None, b"3")), keyed((b"z", b"")))
    compact(stage)
    assert pairs(stage)[:2] == [(1, b"a", b"1"), (4, b"z", b"")]


@pytest.mark.parametrize("attribute", [TRANSACTIONAL, CONTROL])
def test_batches_of_transactions_stay_untouched(attribute: int) -> None:
    """Which of them were aborted is not known: neither they nor what is older than they may go."""
    stage = compacted_stage()
    transactional = keyed(
        (b"a", b"2"), (b"a", b"3"), transactional=attribute == TRANSACTIONAL, control=attribute == CONTROL,
        producer_id=1, producer_epoch=0, base_sequence=0,
    )  # fmt: skip
    fill(stage, keyed((b"a", b"1")), transactional, keyed((b"b", b"")))
    compact(stage)
    assert [offset for offset, key, _ in pairs(stage) if key == b"a"] == [0, 1, 2]


# Tombstones.


def test_a_tombstone_stays_for_a_while_and_then_goes() -> None:
    stage = compacted_stage(delete_retention_ms=DAY_MS)
    fill(stage, keyed((b"a", b"1"), (b"b", b"1")), keyed((b"a", None), (b"c", b"1"), timestamp_ms=NOW_MS - 3))
    compact(stage, now_ms=NOW_MS)
    assert pairs(stage)[:3] == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    marked = read_batches(stage.log)[1]
    assert marked.delete_horizon_ms == NOW_MS + DAY_MS
    assert marked.max_timestamp == NOW_MS - 3
    assert [record.timestamp_ms for record in read_records(stage.log)][1:3] == [NOW_MS - 3] * 2
    # Looked at again before its time, it is not given more.
    compact(stage, now_ms=NOW_MS + DAY_MS - 1)
    assert read_batches(stage.log)[1] == marked
    compact(stage, now_ms=NOW_MS + DAY_MS)
    assert pairs(stage)[:2] == [(1, b"b", b"1"), (3, b"c", b"1")]
    assert read_batches(stage.log)[1].delete_horizon_ms == NOW_MS + DAY_MS


def test_a_tombstone_that_is_superseded_goes_at_once() -> None:
    stage = compacted_stage()
    fill(stage, keyed((b"a", None)), keyed((b"a", b"back")))
    compact(stage)
    assert pairs(stage)[0] == (1, b"a", b"back")


def test_an_expired_tombstone_goes_with_its_batch() -> None:
    stage = compacted_stage(delete_retention_ms=0)
    fill(stage, keyed((b"a", b"1")), keyed((b"a", None)), keyed((b"b", b"")))
    compact(stage)
    assert pairs(stage)[0] == (1, b"a", None)
    compact(stage)
    assert pairs(stage)[0] == (2, b"b", b"")
    assert stage.batches()[0].base_offset == 2


# What is left of a batch without records.


def test_the_last_batch_of_a_segment_says_how_far_it_reaches() -> None:
    stage = compacted_stage()
    fill(stage, keyed((b"a", b"1")), keyed((b"b", b"1")), keyed((b"b", b"2"), (b"a", b"2"), codec=Codec.ZSTD))
    stage.append(keyed((b"a", b"3"), (b"b", b"3")))
    stage.log.roll(now_ms=NOW_MS)
    stage.configure(segment_bytes=150)  # Nothing becomes one segment.
    compact(stage)
    first = stage.log.segments[0]
    ((_, header),) = whole_batches(stage.content(first.base_offset))
    assert (header.base_offset, header.last_offset, header.record_count, header.attributes) == (2, 3, 0, 0)
    assert header.max_timestamp == NOW_MS
    assert stage.content(first.base_offset, ".timeindex") == b""  # There is no record to be found by it.
    compact(stage)
    assert len(list(whole_batches(stage.content(first.base_offset)))) == 1


def test_a_retry_is_known_though_its_records_are_gone() -> None:
    """Also where nothing but the log remembers its producer."""
    stage = compacted_stage()
    retried = keyed((b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
    fill(stage, retried, keyed((b"a", b"2")), keyed((b"b", b"")))
    compact(stage)
    assert pairs(stage)[0] == (1, b"a", b"2")
    for name in stage.disk.list("orders-0"):
        if name.endswith(".snapshot"):
            stage.disk.open(f"orders-0/{name}").delete()
    stage.kill()
    assert isinstance(stage.append(retried), Duplicate)


def test_of_a_producer_that_is_forgotten_nothing_is_kept() -> None:
    stage = compacted_stage()
    fill(stage, keyed((b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0), keyed((b"a", b"2")))
    stage.log.producers.expire(now_ms=NOW_MS + DAY_MS, expiration_ms=DAY_MS)
    compact(stage)
    assert [header.base_offset for header in stage.batches()] == [1, 2]


# Segments.


def test_small_segments_become_one() -> None:
    stage = compacted_stage(segment_bytes=400)
    for number in range(60):
        stage.append(keyed((b"%d" % (number % 4), b"x" * 20)))
    before = len(stage.log.segments)
    cleaned = compact(stage)
    compact(stage, cleaned_offset=0)
    assert before > 10
    assert len(stage.log.segments) < before / 2
    assert cleaned == stage.log.segments[-1].base_offset
    assert set(latest(pairs(stage))) == {b"0", b"1", b"2", b"3"}


def test_what_it_writes_is_good_in_every_detail() -> None:
    stage = compacted_stage(segment_bytes=3000, index_interval_bytes=100)
    for number in range(200):
        key = b"%d" % (number * 7 % 31)
        stage.append(keyed((key, None if number % 5 == 0 else b"x" * (number % 40)), timestamp_ms=NOW_MS + number % 17))
    compact(stage)
    stage.stop()
    bases = [segment.base_offset for segment in stage.log.segments]
    for base, next_base in zip(bases, [*bases[1:], None], strict=True):
        report = verify_segment(
            stage.disk.open(stage.path(base, ".log")),
            base_offset=base,
            next_base=next_base,
            offset_index=stage.content(base, ".index"),
            time_index=stage.content(base, ".timeindex"),
        )
        assert report.findings == []
        assert next_base is None or report.last_offset == next_base - 1


def test_every_offset_can_still_be_asked_for() -> None:
    """A reader at an offset that is gone gets what comes next."""
    stage = compacted_stage(segment_bytes=600, index_interval_bytes=0)
    for number in range(80):
        stage.append(keyed((b"%d" % (number % 5), b"%d" % number)))
    compact(stage)
    kept = [offset for offset, _, _ in pairs(stage)]
    assert len(kept) < 30
    for offset in range(stage.log.end_offset):
        span = stage.log.read(offset, bytes_max=1, at_least_one=True)
        assert span is not None
        file, position, size = span
        (found,) = whole_batches(file.read(position, size))
        assert found[1].last_offset >= offset
        behind = [header for header in stage.batches() if header.last_offset >= offset]
        assert found[1] == behind[0]


def test_records_are_found_by_time_afterwards() -> None:
    stage = compacted_stage(segment_bytes=500, index_interval_bytes=0)
    for number in range(60):
        stage.append(keyed((b"%d" % (number % 6), b"x"), timestamp_ms=NOW_MS + number * 10))
    compact(stage)
    kept = read_records(stage.log)
    for stamp in range(NOW_MS - 5, NOW_MS + 600, 7):
        expected = next((record.offset for record in kept if record.timestamp_ms >= stamp), None)
        found = stage.log.find_timestamp(stamp)
        assert (found.offset if found is not None else None) == expected
    newest = stage.log.find_max_timestamp()
    assert newest is not None
    assert newest.offset == 59


def test_the_end_of_what_is_visible_moves_with_the_segment() -> None:
    """The watermark stood behind the last batch of a segment, at a position that is no more."""
    stage = compacted_stage()
    for number in range(20):
        stage.append(keyed((b"a", b"%d" % number)))
    stage.log.roll(now_ms=NOW_MS)
    compact(stage)
    assert pairs(stage) == [(19, b"a", b"19")]
    assert stage.log.find_max_timestamp() is not None
    stage.append(keyed((b"b", b"")))
    assert pairs(stage)[1:] == [(20, b"b", b"")]


# Bounds and damage.


def test_what_does_not_fit_in_memory_waits_for_the_next_time() -> None:
    stage = compacted_stage(segment_bytes=300)
    for number in range(40):
        stage.append(keyed((b"%d" % (number % 20), b"%d" % number)))
    expected = latest(pairs(stage))
    cleaned: int | None = None
    rounds = 0
    while cleaned != (cleaned := compact(stage, cleaned_offset=cleaned, memory_bytes=3 * KEY_BYTES)):
        assert latest(pairs(stage)) == expected
        rounds += 1
    assert rounds > 5
    assert cleaned == stage.log.segments[-1].base_offset
    sealed = [key for offset, key, _ in pairs(stage) if offset < cleaned]
    assert len(sealed) == len(set(sealed))


def test_a_batch_with_more_keys_than_fit_is_not_passed() -> None:
    stage = compacted_stage()
    fill(stage, keyed((b"a", b""), (b"b", b""), (b"c", b"")))
    assert compact(stage, memory_bytes=2 * KEY_BYTES) == 0
    assert len(pairs(stage)) == 4


def test_damage_is_neither_copied_nor_given_a_new_checksum() -> None:
    stage = compacted_stage()
    fill(stage, keyed((b"a", b"1"), (b"b", b"1")), keyed((b"a", b"2")))
    compact(stage)
    content = stage.content(0)
    # In a record; and in the second batch's offset, which no checksum covers.
    for position, reason in ((65, "CRC"), (70, "offset")):
        stage.disk.overwrite(stage.path(0, ".log"), position, b"\xff")
        with pytest.raises(CorruptBatch, match=f"{stage.path(0, '.log')}: .*{reason}"):
            write_cleaned(stage, [0], KeyMap(start_offset=0, bytes_max=1 << 20))
        stage.disk.overwrite(stage.path(0, ".log"), 0, content)


def test_a_batch_that_carries_a_horizon_is_read_with_its_own_times() -> None:
    stage = compacted_stage()
    fill(stage, keyed((b"a", b"1")), keyed((b"a", None), timestamp_ms=NOW_MS + 77))
    compact(stage)
    (position, header), *_ = [item for item in whole_batches(stage.content(0)) if item[1].record_count]
    batch = stage.content(0)[position:]
    assert parse_header(batch).base_timestamp == header.delete_horizon_ms != NOW_MS + 77
    assert [record.timestamp_ms for record in decode_records(batch)] == [NOW_MS + 77]


def test_a_segment_is_sealed_by_the_time_it_must_be_compacted() -> None:
    for compacts, segments in ((True, 2), (False, 1)):
        stage = LogStage(compacts=compacts, max_compaction_lag_ms=1000)
        stage.append(keyed((b"a", b"1"), timestamp_ms=NOW_MS))
        stage.append(keyed((b"a", b"2"), timestamp_ms=NOW_MS + 1001))
        assert len(stage.log.segments) == segments
