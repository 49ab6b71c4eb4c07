"""End to end, in a time of its own."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.lab.perf.latency import Plan, Record, Surroundings, WrongRecord, compare, run
from tests.unit.lab.perf.fakes import FakeMessage, FakeTime


class FakeWire:
    """A producer and a consumer in one: what is acknowledged after 1 ms comes out after 2 more."""

    def __init__(self, time: FakeTime, *, error: Any = None, loses: bool = False) -> None:
        self._time, self._error, self._loses = time, error, loses
        self._report: Callable[[], None] | None = None
        self._message: FakeMessage | None = None
        self.sent: list[FakeMessage] = []

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        *,
        headers: Any,
        on_delivery: Callable[[Any, Any], None],
    ) -> None:
        self._message = FakeMessage(value, key, pairs=headers)
        self.sent.append(self._message)
        self._report = lambda: on_delivery(self._error, self._message)

    def poll(self, timeout: float) -> Any:
        if self._report is not None:
            report, self._report = self._report, None
            self._time.sleep(0.001)
            report()
            return 1
        message, self._message = self._message, None
        self._time.sleep(timeout if self._loses or message is None else 0.002)
        return None if self._loses else message


def around(time: FakeTime, lines: list[str]) -> Surroundings:
    return Surroundings(print_line=lines.append, check=lambda: None, clock_ns=time.clock_ns)


def test_lines_as_kafkas() -> None:
    time, lines = FakeTime(), list[str]()
    wire = FakeWire(time)
    run(wire, wire, Plan(topic="t", records=1_001, value_bytes=20), around(time, lines))
    assert lines == ["0\t3.0", "1000\t3.0", "Avg latency: 3.0000 ms", "Percentiles: 50th = 3, 99th = 3, 99.9th = 3"]
    assert all(len(message) == 20 and message.key() is None and not message.pairs for message in wire.sent)


def test_keys_and_headers() -> None:
    time, lines = FakeTime(), list[str]()
    wire = FakeWire(time)
    plan = Plan(topic="t", records=2, value_bytes=0, key_bytes=3, headers=2, header_key_bytes=4, header_value_bytes=-1)
    run(wire, wire, plan, around(time, lines))
    first = wire.sent[0]
    assert len(first.key() or b"") == 3
    assert [(len(name), value) for name, value in first.pairs] == [(4, None), (4, None)]


def test_what_is_not_acknowledged_ends_it() -> None:
    time = FakeTime()
    wire = FakeWire(time, error=KafkaError(KafkaError.NOT_ENOUGH_REPLICAS))
    with pytest.raises(KafkaException):
        run(wire, wire, Plan(topic="t", records=1, value_bytes=1), around(time, []))


def test_what_does_not_come_within_a_minute_ends_it() -> None:
    time = FakeTime()
    wire = FakeWire(time, loses=True)
    with pytest.raises(WrongRecord, match=r"poll\(\) timed out before finding a result \(timeout:\[60000ms\]\)"):
        run(wire, wire, Plan(topic="t", records=1, value_bytes=1), around(time, []))


@pytest.mark.parametrize(
    ("message", "part"),
    [
        (FakeMessage(b"other", b"k", pairs=[("h", b"1")]), "value"),
        (FakeMessage(b"v", None, pairs=[("h", b"1")]), "key"),
        (FakeMessage(b"v", b"k", pairs=[("h", b"2")]), "headers"),
    ],
)
def test_what_somebody_else_sent_is_noticed(message: FakeMessage, part: str) -> None:
    with pytest.raises(WrongRecord, match=f"The message {part} read"):
        compare(Record(b"k", b"v", [("h", b"1")]), message)  # type: ignore[arg-type]
