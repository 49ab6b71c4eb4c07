"""The producer's run, in a time of its own."""

import re
from itertools import repeat
from typing import Any

import pytest

from headrace.lab.perf.failures import RecordsNotSent
from headrace.lab.perf.producer import Plan, Surroundings, run
from tests.unit.lab.perf.fakes import FakeProducer, FakeTime


class Room:
    """Runs a plan, and keeps what was printed."""

    def __init__(self, **how: Any) -> None:
        self.time = FakeTime()
        self.producer = FakeProducer(self.time, **how)
        self.lines: list[str] = []
        self.complaints: list[str] = []
        self.around = Surroundings(
            print_line=self.lines.append,
            complain=self.complaints.append,
            check=lambda: None,
            clock_ms=self.time.clock_ms,
            clock_ns=self.time.clock_ns,
        )

    def run(self, **plan: Any) -> Any:
        return run(self.producer, Plan(topic="t", **plan), repeat(b"x" * 1024), self.around)  # type: ignore[arg-type]


def test_a_line_every_five_seconds_and_one_at_the_end() -> None:
    room = Room(latency_s=0.0025, produce_s=0.000_01)
    room.run(records=1_200, rate_per_s=100).check()
    assert [line for line in room.lines if re.match(r"\d+ records sent, 100\.\d records/sec \(0\.10 MB/sec\), ", line)]
    first, second, summary = room.lines
    assert first.endswith(" 2.5 ms avg latency, 3.0 ms max latency.")
    assert second.endswith(" 2.5 ms avg latency, 3.0 ms max latency.")
    assert re.fullmatch(
        r"1200 records sent, 100\.\d{6} records/sec \(0\.10 MB/sec\), 2\.50 ms avg latency, 3\.00 ms max latency, "
        r"3 ms 50th, 3 ms 95th, 3 ms 99th, 3 ms 99\.9th\.",
        summary,
    )
    assert room.complaints == []
    assert room.producer.calls == []


def test_without_a_limit_nothing_is_waited_for() -> None:
    room = Room(produce_s=0.000_01)
    room.run(records=10_000, rate_per_s=-1).check()
    (summary,) = room.lines
    # A tenth of a second to send, and three milliseconds until the last is acknowledged.
    assert summary.startswith("10000 records sent, 97087.378641 records/sec (94.81 MB/sec), 3.00 ms avg latency, ")


def test_the_time_that_a_record_waits_for_room_is_part_of_its_latency() -> None:
    room = Room(latency_s=0.010, room=1)
    room.run(records=3, rate_per_s=-1).check()
    # Each waits for the one before: 10, 20 and 20 ms.
    assert "16.67 ms avg latency, 20.00 ms max latency, 20 ms 50th" in room.lines[-1]


def test_no_room_for_longer_than_max_block_ms_is_a_failure() -> None:
    room = Room(latency_s=0.5, room=1)
    failures = room.run(records=2, rate_per_s=-1, block_ms_max=150)
    assert room.lines[-1].startswith("1 records sent, ")
    with pytest.raises(RecordsNotSent, match="1 records were not sent: 1 x no room in the buffer within 150 ms"):
        failures.check()
    assert room.complaints == ["not sent: no room in the buffer within 150 ms"]


def test_records_that_fail_are_told_once_and_counted_apart() -> None:
    room = Room(fails=lambda number: number % 4 == 0)
    failures = room.run(records=100, rate_per_s=-1)
    assert room.lines[-1].startswith("75 records sent, ")
    assert room.complaints == ["not sent: Local: Message timed out (_MSG_TIMED_OUT)"]
    with pytest.raises(RecordsNotSent, match=r"25 records were not sent: 25 x Local: Message timed out"):
        failures.check()


def test_records_to_warm_up_with_are_left_out_of_a_second_summary() -> None:
    room = Room(produce_s=0.000_01)
    room.run(records=1_700, rate_per_s=100, warmup_records=600).check()
    warmup, first, steady, second, third, summary, steady_summary = room.lines
    assert warmup.startswith("Warmup first 600 records.")
    assert re.fullmatch(r"(499|50\d) records sent, .*", first)
    assert steady == "In steady state."
    for line in (second, third):
        assert re.match(r"(499|50\d) records sent, (99\.9|100\.\d) records/sec ", line)
    assert re.match(r"1700 records sent, (99\.9|100\.)", summary)
    assert re.match(r"1100 steady state records sent, (99\.9|100\.)", steady_summary)


def test_transactions_last_as_long_as_said() -> None:
    room = Room(produce_s=0.000_01)
    room.run(records=250, rate_per_s=100, transaction_ms=1_000).check()
    assert room.producer.calls[0] == "init"
    begins = [call for call in room.producer.calls if call.startswith("begin")]
    assert len(begins) == 3
    assert room.producer.calls[-1] == "commit at 250"
    assert len(room.producer.calls) == 1 + 2 * len(begins)


def test_whoever_says_that_it_is_enough_is_heard() -> None:
    room = Room()

    class Enough(Exception):
        pass

    def check() -> None:
        if len(room.producer.values) > 100:
            raise Enough

    room.around = Surroundings(
        print_line=room.lines.append,
        complain=room.complaints.append,
        check=check,
        clock_ms=room.time.clock_ms,
        clock_ns=room.time.clock_ns,
    )
    with pytest.raises(Enough):
        room.run(records=10_000, rate_per_s=-1)
    assert len(room.producer.values) < 200
