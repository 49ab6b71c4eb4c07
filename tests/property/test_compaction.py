"""Compaction beside a plain model: whatever is written, deleted and compacted, and however often, the last value of
each key is there, offsets and order stay, and nothing is invented."""

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, encode_batch
from tests.unit.storage.compacting import compact, pairs
from tests.unit.storage.logs import NOW_MS, LogStage, read_records

KEYS = [b"a", b"b", b"c", b"long" * 10, b"", None]
RETENTION_MS = 1000


class Written(NamedTuple):
    offset: int
    record: Record


class Model:
    """Everything ever written, and what must be there of it."""

    def __init__(self) -> None:
        self.written: list[Written] = []
        self.cleanings_ms: list[int] = []

    def append(self, record: Record) -> None:
        self.written.append(Written(len(self.written), record))

    def check(self, found: list[Record], *, cleaned_offset: int) -> None:
        by_offset = dict(self.written)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        for record in found:
            assert record == by_offset[record.offset]._replace(offset=record.offset)
        kept = set(offsets)
        last = {record.key: offset for offset, record in self.written if record.key is not None}
        for offset, record in self.written:
            if offset >= cleaned_offset:
                assert offset in kept, "what was not compacted is all there"
            elif record.key is not None and last[record.key] == offset:
                assert offset in kept or record.value is None, "the last of its key is there"
        last_cleaned = {
            record.key: offset for offset, record in self.written if offset < cleaned_offset and record.key is not None
        }
        for record in found:
            if record.offset < cleaned_offset:
                assert last_cleaned[record.key] == record.offset, "what is superseded is gone"


BATCHES = st.tuples(
    st.just("append"),
    st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([None, b"", b"v", b"w" * 50])), min_size=1, max_size=5),
    st.sampled_from(list(Codec)),
    st.integers(-500, 500),
)
OPERATIONS = st.one_of(
    BATCHES,
    BATCHES,
    BATCHES,
    st.tuples(st.just("roll")),
    st.tuples(st.just("compact"), st.integers(0, 2 * RETENTION_MS)),
    st.tuples(st.just("stop")),
    st.tuples(st.just("kill")),
)
SETTINGS = st.fixed_dictionaries(
    {
        "segment_bytes": st.sampled_from([200, 700, 1 << 20]),
        "index_interval_bytes": st.sampled_from([0, 100, 4096]),
        "segment_index_bytes": st.sampled_from([48, 10 << 20]),
    }
)


@settings(max_examples=200, deadline=None)
@given(SETTINGS, st.lists(OPERATIONS, max_size=40))
def test_a_compacted_log_holds_what_it_must_and_nothing_else(
    log_settings: dict[str, Any], operations: list[tuple[Any, ...]]
) -> None:
    stage = LogStage(compacts=True, delete_retention_ms=RETENTION_MS, **log_settings)
    model = Model()
    cleaned = 0
    now_ms = NOW_MS
    for operation, *arguments in operations:
        match operation:
            case "append":
                contents, codec, shift_ms = arguments
                made = [Record(key, value, timestamp_ms=NOW_MS + shift_ms) for key, value in contents]
                stage.append(encode_batch(made, codec=codec))
                for record in made:
                    model.append(record)
            case "roll":
                stage.log.roll(now_ms=NOW_MS)
            case "compact":
                now_ms += arguments[0]
                before = {record.offset for record in read_records(stage.log)}
                cleaned = compact(stage, cleaned_offset=cleaned, now_ms=now_ms)
                assert {record.offset for record in read_records(stage.log)} <= before
            case "stop":
                stage.stop()
            case "kill":
                stage.kill(recovery_point=stage.log.recovery_point)
        assert stage.log.end_offset == len(model.written)
        assert stage.log.start_offset == 0
        model.check(read_records(stage.log), cleaned_offset=cleaned)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS[:4]), st.booleans()), min_size=1, max_size=40), st.integers(1, 5))
def test_no_tombstone_outlives_its_time_nor_what_it_deleted(writes: list[tuple[bytes, bool]], per_batch: int) -> None:
    stage = LogStage(compacts=True, delete_retention_ms=RETENTION_MS, segment_bytes=300)
    for start in range(0, len(writes), per_batch):
        some = writes[start : start + per_batch]
        stage.append(encode_batch([Record(key, b"v" if alive else None, timestamp_ms=NOW_MS) for key, alive in some]))
    stage.log.roll(now_ms=NOW_MS)
    living = {key for key, has_value in dict(writes).items() if has_value}
    compact(stage, now_ms=NOW_MS)
    assert {key for _, key, _ in pairs(stage)} == {key for key, _ in writes}
    compact(stage, cleaned_offset=0, now_ms=NOW_MS + RETENTION_MS)
    assert {key for _, key, _ in pairs(stage)} == living
