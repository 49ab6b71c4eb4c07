"""The consumer's run, in a time of its own."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.lab.perf.consumer import Plan, Surroundings, run
from tests.unit.lab.perf.fakes import FakeConsumer, FakeMessage, FakeTime


def ran(consumer: FakeConsumer, time: FakeTime, **plan: Any) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    complaints: list[str] = []
    start_ms = time.clock_ms()
    around = Surroundings(
        print_line=lines.append,
        complain=complaints.append,
        check=lambda: None,
        date_text=lambda now_ms: f"+{now_ms - start_ms}",
        clock_ms=time.clock_ms,
    )
    run(consumer, Plan(topics=["t"], **plan), around)  # type: ignore[arg-type]
    return lines, complaints


def messages(count: int, size_bytes: int = 1024) -> list[FakeMessage]:
    return [FakeMessage(b"x" * size_bytes) for _ in range(count)]


def test_a_line_at_the_end() -> None:
    time = FakeTime()
    consumer = FakeConsumer(time, [(1.0, messages(600)), (2.0, messages(424))], join_s=0.5)
    lines, complaints = ran(consumer, time, records=1_024)
    assert consumer.topics == ["t"]
    assert lines[0].startswith("start.time, end.time, ")
    assert lines[1:] == ["+0, +2000, 1.0000, 0.5000, 1024, 512.0000, 500, 1500, 0.6667, 682.6667"]
    assert complaints == []


def test_a_line_for_each_interval_and_none_at_the_end() -> None:
    time = FakeTime()
    brings = [(at_s / 2, messages(512)) for at_s in range(25)]
    lines, _ = ran(FakeConsumer(time, brings, join_s=0.5), time, records=512 * 25, is_detailed=True, has_header=False)
    # The first record of a poll ends the interval; the others of that poll are of the next.
    assert lines == [
        "+5000, 0, 5.0010, 1.0002, 5121, 1024.2000, 500, 4500, 1.1113, 1138.0000",
        "+10000, 0, 10.0010, 1.0000, 10241, 1024.0000, 0, 5000, 1.0000, 1024.0000",
    ]


def test_no_more_is_read_than_was_asked_for() -> None:
    time = FakeTime()
    lines, _ = ran(FakeConsumer(time, [(0.0, messages(900))]), time, records=700, has_header=False)
    assert lines[0].split(", ")[4] == "700"


def test_keys_are_counted_too() -> None:
    time = FakeTime()
    brings = [(1.0, [FakeMessage(b"x" * (1 << 19), name=b"k" * (1 << 19))])]
    lines, _ = ran(FakeConsumer(time, brings), time, records=1, has_header=False)
    assert lines[0].split(", ")[2] == "1.0000"


def test_who_waits_too_long_says_so() -> None:
    time = FakeTime()
    lines, _ = ran(FakeConsumer(time, [(1.0, messages(10))]), time, records=11, timeout_ms=2_000, has_header=False)
    warning, total = lines
    assert warning.startswith("WARNING: Exiting before consuming the expected number of messages: timeout (2000 ms)")
    assert total.split(", ")[4] == "10"
    assert 3_000 < int(total.split(", ")[1]) <= 3_200


def test_a_topic_that_is_not_there_yet_is_waited_for() -> None:
    time = FakeTime()
    missing = FakeMessage(failure=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "Subscribed topic not available: t"))
    lines, complaints = ran(FakeConsumer(time, [(0.5, [missing]), (1.0, [missing, *messages(1)])]), time, records=1)
    assert complaints == ["Subscribed topic not available: t (UNKNOWN_TOPIC_OR_PART)"]
    assert lines[1].split(", ")[4] == "1"


def test_any_other_error_ends_it() -> None:
    time = FakeTime()
    failed = FakeMessage(failure=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException):
        ran(FakeConsumer(time, [(0.5, [failed])]), time, records=1)
