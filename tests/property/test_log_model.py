"""A log against a plain list of batches: whatever is appended, read, rolled, stopped and killed, both agree."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ApiError, ErrorCode
from headrace.protocol.batch import BatchHeader, parse_header, parse_whole_batch, whole_batches
from headrace.storage.log import Appended, Duplicate
from tests.unit.storage.logs import NOW_MS, LogStage, batch, read

SEQUENCES = 2**31


@dataclass
class Model:
    """What a log must know, kept the simplest way."""

    batches: list[tuple[bytes, BatchHeader]]
    start: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1][1].last_offset + 1 if self.batches else 0

    def span_from(self, offset: int) -> bytes:
        """Everything from the batch that holds the offset on."""
        return b"".join(data for data, header in self.batches if header.last_offset >= offset)


class Pair:
    """A log and its model, asked the same things."""

    def __init__(self, log_settings: dict[str, Any]) -> None:
        self.stage = LogStage(**log_settings)
        self.model = Model([])
        self.epoch = 0

    def append(self, values: list[bytes], timestamp_ms: int) -> None:
        sent = batch(*values, timestamp_ms=timestamp_ms)
        written = self.stage.append(sent, now_ms=NOW_MS, epoch=self.epoch)
        assert isinstance(written, Appended)
        assert (written.base_offset, written.last_offset) == (self.model.end, self.model.end + len(values) - 1)
        kept = self.stage.log.segments[-1].log
        data = kept.read(kept.size - len(sent), len(sent))
        header = parse_whole_batch(data)
        assert (header.base_offset, header.leader_epoch) == (written.base_offset, self.epoch)
        self.model.batches.append((data, header))

    def read(self, offset: int, bytes_max: int, at_least_one: bool) -> None:
        log, model = self.stage.log, self.model
        if not model.start <= offset <= model.end:
            with pytest.raises(ApiError) as caught:
                log.read(offset, bytes_max=bytes_max, at_least_one=at_least_one)
            assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
            return
        span = log.read(offset, bytes_max=bytes_max, at_least_one=at_least_one)
        if offset == model.end:
            assert span is None
            return
        expected = model.span_from(offset)
        first_bytes = parse_header(expected).size_bytes
        if span is None:
            assert bytes_max < first_bytes
            assert not at_least_one
            return
        data = read(span)
        assert list(whole_batches(data))
        assert expected.startswith(data)
        assert len(data) <= max(bytes_max, first_bytes if at_least_one else 0)

    def check(self) -> None:
        log = self.stage.log
        assert (log.start_offset, log.end_offset, log.high_watermark) == (self.model.start, *[self.model.end] * 2)
        assert self.stage.batches() == [h for _, h in self.model.batches if h.last_offset >= self.model.start]
        bases = [segment.base_offset for segment in log.segments]
        assert bases == sorted(set(bases))


OPERATIONS = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.binary(max_size=200), min_size=1, max_size=4),
        st.integers(NOW_MS - 5000, NOW_MS + 5000),
    ),
    st.tuples(st.just("read"), st.floats(-0.1, 1.1), st.integers(0, 2000), st.booleans()),
    st.tuples(st.just("stop")),
    st.tuples(st.just("kill")),
    st.tuples(st.just("roll")),
    st.tuples(st.just("flush")),
    st.tuples(st.just("raise"), st.floats(0, 1)),
)
SETTINGS = st.fixed_dictionaries(
    {
        "segment_bytes": st.sampled_from([300, 1000, 1 << 20]),
        "segment_ms": st.sampled_from([1000, 2**63 - 1]),
        "index_interval_bytes": st.sampled_from([0, 100, 4096]),
        "segment_index_bytes": st.sampled_from([24, 48, 10 << 20]),
        "flush_before_expose": st.just(False),
    }
)


@settings(max_examples=150, deadline=None)
@given(SETTINGS, st.lists(OPERATIONS, max_size=60))
def test_a_log_does_what_a_list_of_batches_would(
    log_settings: dict[str, Any], operations: list[tuple[Any, ...]]
) -> None:
    pair = Pair(log_settings)
    for operation, *arguments in operations:
        match operation:
            case "append":
                pair.append(*arguments)
            case "read":
                pair.read(round(arguments[0] * pair.model.end), *arguments[1:])
            case "stop":
                pair.stage.stop()
            case "kill":
                pair.stage.start_checkpoint = pair.model.start
                pair.stage.kill(recovery_point=pair.stage.log.recovery_point)
                pair.epoch += 1
            case "roll":
                pair.stage.log.roll(now_ms=NOW_MS)
            case "flush":
                assert pair.stage.flush() is None
            case "raise":
                pair.model.start = max(pair.model.start, round(arguments[0] * pair.model.end))
                pair.stage.log.raise_start(pair.model.start)
                pair.stage.start_checkpoint = pair.model.start
    pair.check()


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, SEQUENCES - 1),
    st.lists(
        st.one_of(
            st.tuples(st.just("next"), st.integers(1, 4)),
            st.tuples(st.just("again"), st.integers(0, 7)),
            st.tuples(st.just("skip"), st.integers(1, 3)),
            st.tuples(st.just("stop"), st.just(0)),
            st.tuples(st.just("kill"), st.just(0)),
            st.tuples(st.just("roll"), st.just(0)),
        ),
        max_size=40,
    ),
)
def test_a_retry_is_answered_as_before_and_a_gap_is_refused(first: int, steps: list[tuple[str, int]]) -> None:
    """Also over restarts, and where sequences wrap from 2^31-1 to 0."""
    stage = LogStage(segment_bytes=700)
    written: list[tuple[int, int, int]] = []  # Base sequence, count, base offset.
    sequence = first

    def send(base_sequence: int, count: int) -> Appended | Duplicate:
        values = [b"%d" % number for number in range(count)]
        return stage.append(batch(*values, producer_id=5, producer_epoch=1, base_sequence=base_sequence % SEQUENCES))

    for step, number in steps:
        if step == "next":
            answer = send(sequence, number)
            assert isinstance(answer, Appended)
            written.append((sequence, number, answer.base_offset))
            sequence += number
        elif step == "again" and number < len(written):
            base_sequence, count, base_offset = written[-1 - number]
            if number < 5:
                answer = send(base_sequence, count)
                assert isinstance(answer, Duplicate)
                assert (answer.base_offset, answer.last_offset) == (base_offset, base_offset + count - 1)
            else:
                assert refusal(send, base_sequence, count) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif step == "skip" and written:
            assert refusal(send, sequence + number, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif step == "stop":
            stage.stop()
        elif step == "kill":
            stage.kill(recovery_point=stage.log.recovery_point)
        elif step == "roll":
            stage.log.roll(now_ms=NOW_MS)
    assert [header.base_sequence for header in stage.batches()] == [base % SEQUENCES for base, _, _ in written]


def refusal(send: Callable[[int, int], object], base_sequence: int, count: int) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        send(base_sequence, count)
    return caught.value.code
