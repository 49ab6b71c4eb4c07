"""Clients that live in a time of their own: no socket, no thread, no sleeping."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError


class FakeTime:
    def __init__(self, now_ns: int = 1_700_000_000_000_000_000) -> None:
        self.now_ns = now_ns

    def clock_ns(self) -> int:
        return self.now_ns

    def clock_ms(self) -> int:
        return self.now_ns // 1_000_000

    def sleep(self, duration_s: float) -> None:
        self.now_ns += int(duration_s * 1e9)


@dataclass
class FakeMessage:
    payload: bytes = b""
    name: bytes | None = None
    latency_s: float | None = None
    failure: Any = None
    pairs: list[tuple[str, bytes | None]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.payload)

    def key(self) -> bytes | None:
        return self.name

    def value(self) -> bytes:
        return self.payload

    def headers(self) -> list[tuple[str, bytes | None]]:
        return self.pairs

    def latency(self) -> float | None:
        return self.latency_s

    def error(self) -> Any:
        return self.failure


class FakeProducer:
    """Acknowledges each record `latency_s` after it was sent, or fails it if `fails` says so; has room for so many."""

    def __init__(
        self,
        time: FakeTime,
        *,
        latency_s: float = 0.003,
        room: int = 1_000_000,
        produce_s: float = 0.0,
        fails: Callable[[int], bool] = lambda number: False,
    ) -> None:
        self._time, self._latency_s, self._room, self._produce_s, self._fails = time, latency_s, room, produce_s, fails
        self._waiting: deque[tuple[int, Any, Callable[[Any, Any], None]]] = deque()
        self.values: list[bytes] = []
        self.calls: list[str] = []

    def produce(self, topic: str, value: bytes, *, on_delivery: Callable[[Any, Any], None]) -> None:
        if len(self._waiting) >= self._room:
            raise BufferError("Local: Queue full")
        self._time.sleep(self._produce_s)
        error = KafkaError(KafkaError._MSG_TIMED_OUT) if self._fails(len(self.values)) else None
        self.values.append(value)
        message = FakeMessage(value, latency_s=self._latency_s)
        self._waiting.append((self._time.now_ns + int(self._latency_s * 1e9), (error, message), on_delivery))

    def poll(self, timeout: float) -> int:
        deadline_ns = self._time.now_ns + int(timeout * 1e9)
        if not self._waiting or self._waiting[0][0] > deadline_ns:
            self._time.now_ns = deadline_ns
            return 0
        self._time.now_ns = max(self._time.now_ns, self._waiting[0][0])
        served = 0
        while self._waiting and self._waiting[0][0] <= self._time.now_ns:
            _, (error, message), delivered = self._waiting.popleft()
            delivered(error, message)
            served += 1
        return served

    def flush(self, timeout: float) -> int:
        deadline_ns = self._time.now_ns + int(timeout * 1e9)
        while self._waiting and self._time.now_ns < deadline_ns:
            self.poll((deadline_ns - self._time.now_ns) / 1e9)
        return len(self._waiting)

    def init_transactions(self) -> None:
        self.calls.append("init")

    def begin_transaction(self) -> None:
        self.calls.append(f"begin at {len(self.values)}")

    def commit_transaction(self) -> None:
        self.calls.append(f"commit at {len(self.values)}")


class FakeConsumer:
    """Brings what `brings` says comes at which second, after `join_s` without partitions."""

    def __init__(
        self, time: FakeTime, brings: Sequence[tuple[float, list[FakeMessage]]], *, join_s: float = 0.0
    ) -> None:
        self._time, self._join_s = time, join_s
        start_ns = time.now_ns
        self._coming = deque((start_ns + int(at_s * 1e9), message) for at_s, messages in brings for message in messages)
        self.topics: list[str] = []
        self.on_assign: Callable[[object, list[Any]], None] | None = None
        self.on_revoke: Callable[[object, list[Any]], None] | None = None

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any) -> None:
        self.topics, self.on_assign, self.on_revoke = topics, on_assign, on_revoke

    def poll(self, timeout: float) -> Any:
        if self.on_assign is not None:
            self._time.sleep(self._join_s)
            self.on_assign(self, [FakePartition("t", 0)])
            self.on_assign = None
        deadline_ns = self._time.now_ns + int(timeout * 1e9)
        if not self._coming or self._coming[0][0] > deadline_ns:
            self._time.now_ns = deadline_ns
            return None
        at_ns, message = self._coming.popleft()
        self._time.now_ns = max(self._time.now_ns, at_ns)
        return message

    def consume(self, num_messages: int, timeout: float) -> list[Any]:
        assert timeout == 0
        found: list[Any] = []
        while self._coming and self._coming[0][0] <= self._time.now_ns and len(found) < num_messages:
            found.append(self._coming.popleft()[1])
        return found


@dataclass
class FakePartition:
    topic: str
    partition: int
