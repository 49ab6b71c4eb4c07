"""What a consumer consumes with. One thread uses an engine.

`librdkafka` is what people run: a member of a group, that takes what is there at once, many messages at a time, and
commits offsets now and then. `columnar` reads whole batches as columns, for several times the rate at the same CPU, and
no client that anybody uses for this: it is in no group, and its share of the partitions is fixed from the beginning.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, ThrottleEvent, TopicPartition

from headrace.errors import HeadraceError
from headrace.lab.errors import LabError

Int64s = npt.NDArray[np.int64]

WAIT_S: Final = 0.05
_LEAVE_S: Final = 5.0
_MESSAGES_MAX: Final = 2000
_BATCHES_MAX: Final = 64  # Read and not yet counted.
_MILLISECOND_NS: Final = 1_000_000
# Of these no wait will make an end; of any other, a broker that comes back may.
_HOPELESS: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class Taken(NamedTuple):
    """Messages that have come, all at one moment."""

    utc_ns: int
    timestamps_ms: Int64s
    size_bytes: int  # Of values.


class ConsumerEngine(Protocol):
    ready_utc_ns: int  # When it had its partitions, and began to fetch; known once it is ready.

    @property
    def throttled_ns(self) -> int:
        """For so long in all brokers said that they hold answers back, for a quota's sake."""
        ...

    def wait_ready(self, timeout_s: float) -> list[Taken]:
        """Until it has its partitions; what came meanwhile. LabError where it does not get any."""
        ...

    def take(self) -> list[Taken]:
        """What is there; where nothing is, for a moment what comes."""
        ...

    def close(self) -> None: ...


class LibrdkafkaConsumer:
    def __init__(self, settings: Mapping[str, Any], topic: str, group: str) -> None:
        self._is_assigned = False
        self.ready_utc_ns = 0
        self._throttled_ns: Counter[int] = Counter()  # By broker.
        try:
            self._consumer = Consumer(
                {
                    "log_level": 0,
                    "auto.offset.reset": "earliest",
                    # By default a consumer whose queue is full fetches nothing for a second, however soon it is empty.
                    "fetch.queue.backoff.ms": 20,
                    "throttle_cb": self._note_throttle,
                    **settings,
                    "group.id": group,
                }
            )
            self._consumer.subscribe([topic], on_assign=self._note_assigned)
        except KafkaException as error:
            raise LabError(f"librdkafka does not take these settings: {error.args[0].str()}") from error

    def _note_assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._is_assigned:  # Others that join change it later.
            self._is_assigned = True
            self.ready_utc_ns = time.time_ns()

    def _note_throttle(self, event: ThrottleEvent) -> None:
        self._throttled_ns[event.broker_id] += round(event.throttle_time * 1e9)

    @property
    def throttled_ns(self) -> int:
        """Of the broker that held back most: several do so at the same time."""
        return max(self._throttled_ns.values(), default=0)

    def wait_ready(self, timeout_s: float) -> list[Taken]:
        deadline_s = time.monotonic() + timeout_s
        while not self._is_assigned:
            first = self._consumer.poll(WAIT_S)
            if first is not None:
                return _taken([first])
            if time.monotonic() > deadline_s:
                raise LabError(f"no partitions within {timeout_s:g} s of joining the group")
        return []

    def take(self) -> list[Taken]:
        """librdkafka's own batches wait to be full."""
        found = self._consumer.consume(_MESSAGES_MAX, 0)
        if not found:
            first = self._consumer.poll(WAIT_S)
            found = [] if first is None else [first]
        return _taken(found)

    def close(self) -> None:
        """It waits for a broker that is gone for as long as that is, which is for ever if the lab was killed."""
        leaving = threading.Thread(target=self._consumer.close, daemon=True)
        leaving.start()
        leaving.join(_LEAVE_S)


def _taken(messages: list[Message]) -> list[Taken]:
    """Messages, without news of trouble that may pass."""
    utc_ns = time.time_ns()
    stamps_ms, size_bytes = [], 0
    for message in messages:
        error = message.error()
        if error is None:
            stamps_ms.append(message.timestamp()[1])
            size_bytes += len(message)
        elif error.fatal() or error.code() in _HOPELESS:
            raise LabError(f"a consumer cannot go on: {error.str()}")
    return [Taken(utc_ns, np.array(stamps_ms, np.int64), size_bytes)] if stamps_ms else []


class ColumnarConsumer:
    """Number `index` of `members` that share a topic's partitions."""

    def __init__(self, settings: Mapping[str, Any], topic: str, *, index: int, members: int) -> None:
        from headrace.columnar.reading import Scan
        from headrace.wire.cluster import Cluster
        from headrace.wire.settings import client_settings

        told = client_settings(config=settings)
        with Cluster(told) as cluster:
            share = list(cluster.partitions(topic))[index::members]
        self.ready_utc_ns = time.time_ns()
        self._over = threading.Event()
        self._batches: queue.Queue[Taken | HeadraceError] = queue.Queue(_BATCHES_MAX)
        self._thread: threading.Thread | None = None
        self._scan: Scan | None = None
        if share:  # With fewer partitions than members, some have none.
            columns = ("timestamp", "value")
            self._scan = Scan(told, {topic: share}, end=None, columns=columns, missing="skip", stop=self._over)
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()

    @property
    def throttled_ns(self) -> int:
        return 0 if self._scan is None else self._scan.throttled_ms * _MILLISECOND_NS

    def _read(self) -> None:
        assert self._scan is not None
        try:
            for batch in self._scan:
                utc_ns = time.time_ns()
                stamps = batch.column(0).cast("int64").fill_null(0).to_numpy(zero_copy_only=False)
                self._put(Taken(utc_ns, stamps, _value_bytes(batch.column(1))))
        except HeadraceError as error:
            if not self._over.is_set():
                self._put(error)

    def _put(self, taken: "Taken | HeadraceError") -> None:
        is_put = False
        while not is_put and not self._over.is_set():
            with suppress(queue.Full):
                self._batches.put(taken, timeout=WAIT_S)
                is_put = True

    def wait_ready(self, timeout_s: float) -> list[Taken]:
        return []

    def take(self) -> list[Taken]:
        found: list[Taken] = []
        with suppress(queue.Empty):
            while len(found) < _BATCHES_MAX:
                taken = self._batches.get(timeout=0 if found else WAIT_S)
                if isinstance(taken, HeadraceError):
                    raise LabError(f"a consumer cannot go on: {taken}") from taken
                found.append(taken)
        return found

    def close(self) -> None:
        self._over.set()
        if self._scan is not None and self._thread is not None:
            self._scan.close()
            self._thread.join()


class BehindConsumer:
    """One that is made when its time has come. Until then it has nothing to do with the brokers."""

    def __init__(self, make: Callable[[], ConsumerEngine], *, begin_utc_ns: int) -> None:
        self._make = make
        self._engine: ConsumerEngine | None = None
        self.ready_utc_ns = begin_utc_ns

    @property
    def throttled_ns(self) -> int:
        return 0 if self._engine is None else self._engine.throttled_ns

    def wait_ready(self, timeout_s: float) -> list[Taken]:
        return []

    def take(self) -> list[Taken]:
        if self._engine is None:
            if (left_s := (self.ready_utc_ns - time.time_ns()) / 1e9) > 0:
                time.sleep(min(left_s, WAIT_S))
                return []
            self._engine = self._make()
        return self._engine.take()

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()


def _value_bytes(values: Any) -> int:
    """Of an Arrow column of bytes, without those of its nulls."""
    import pyarrow.compute as pc

    return pc.sum(pc.binary_length(values)).as_py() or 0
