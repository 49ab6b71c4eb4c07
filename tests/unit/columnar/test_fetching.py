"""When a bounded read has all there is, and what it makes of answers that are empty or cut off.

The broker here is scripted: it answers each Fetch as told, whatever a real one would have in its log.
"""

import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest

from headrace import columnar
from headrace.errors import CorruptBatch
from headrace.protocol.records import Record, encode_batch
from tests.unit.wire.scripted import Peer, Request, ScriptedBroker

ID = bytes(15) + b"\x01"
SOON_S = 10.0  # A read that takes longer hangs.

# From the body of a Fetch about one partition and what was asked before it, the records.
Answer = Callable[["Fetch"], bytes]


class Fetch:
    """One partition that was asked for."""

    def __init__(self, request: Request, part: Mapping[str, Any], number: int) -> None:
        self.number = number  # Of this partition's, from 0 on.
        self.partition: int = part["partition"]
        self.offset: int = part["fetch_offset"]
        self.wait_ms: int = request.body["max_wait_ms"]
        self.is_committed = request.body["isolation_level"] == 1
        self.is_alone = sum(len(topic["partitions"]) for topic in request.body["topics"]) == 1


class Log:
    """A topic on one broker whose answers a test gives. Ends are what the broker says of its log."""

    def __init__(
        self,
        answer: Answer,
        *,
        end: int,
        stable: int | None = None,
        partitions: int = 1,
        brokers: int = 1,
        throttle_ms: int = 0,
    ) -> None:
        self.fetches: list[Fetch] = []
        self.throttle_ms = throttle_ms  # What every answer says of a quota.
        self.end = end
        self.stable = end if stable is None else stable
        self._answer = answer
        self._partitions = partitions
        self._brokers = brokers  # All of them at one address.
        self._lock = threading.Lock()
        self.broker = ScriptedBroker(self._serve)

    def _serve(self, peer: Peer) -> None:
        peer.greet()
        while True:
            request = peer.read()
            with self._lock:
                body = getattr(self, f"_{request.api.name}")(request)
            peer.answer(request, body)

    def _Metadata(self, request: Request) -> dict[str, Any]:  # noqa: N802
        host, port = self.broker.address
        numbers = range(self._partitions)
        brokers = [{"node_id": node_id, "host": host, "port": port} for node_id in range(self._brokers)]
        partitions = [
            {"partition_index": number, "leader_id": number % self._brokers, "leader_epoch": 1} for number in numbers
        ]
        topics = [{"name": "t", "topic_id": ID, "partitions": partitions}]
        return {"brokers": brokers, "topics": topics}

    def _ListOffsets(self, request: Request) -> dict[str, Any]:  # noqa: N802
        def answer(one: Mapping[str, Any]) -> dict[str, Any]:
            latest = self.stable if request.body["isolation_level"] else self.end
            offset = 0 if one["timestamp"] == -2 else latest
            return {"partition_index": one["partition_index"], "offset": offset, "leader_epoch": 1}

        (topic,) = request.body["topics"]
        return {"topics": [{"name": "t", "partitions": [answer(one) for one in topic["partitions"]]}]}

    def _Fetch(self, request: Request) -> dict[str, Any]:  # noqa: N802
        answered = []
        (topic,) = request.body["topics"]
        for part in topic["partitions"]:
            before = sum(fetch.partition == part["partition"] for fetch in self.fetches)
            fetch = Fetch(request, part, before)
            self.fetches.append(fetch)
            answered.append(
                {
                    "partition_index": fetch.partition,
                    "high_watermark": self.end,
                    # As brokers did for long: nothing is said of it to who does not ask for what is committed.
                    "last_stable_offset": self.stable if fetch.is_committed else -1,
                    "records": self._answer(fetch),
                }
            )
        topics = [{"topic": "t", "topic_id": ID, "partitions": answered}]
        return {"throttle_time_ms": self.throttle_ms, "responses": topics}

    def scan(self, *, patience_s: float = SOON_S, **options: Any) -> columnar.Scan:
        settings = self.broker.settings(api_timeout_s=patience_s, retry_backoff_s_max=0.01)
        return columnar.Scan(settings, "t", **options)

    def offsets(self, **options: Any) -> list[int]:
        return [offset for batch in self.scan(**options) for offset in batch["offset"].to_pylist()]


@contextmanager
def serving(answer: Answer, **ends: Any) -> Iterator[Log]:
    log = Log(answer, **ends)
    with log.broker:
        yield log


def batch(first: int, count: int = 1) -> bytes:
    return encode_batch([Record(None, b"row", timestamp_ms=1000)] * count, base_offset=first)


def from_batches(*batches: tuple[int, int]) -> Answer:
    """As a log of these batches, first offset and count, answers: with the first that reaches the offset."""
    return lambda fetch: next((batch(first, count) for first, count in batches if first + count > fetch.offset), b"")


ISOLATIONS = pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])


@ISOLATIONS
@pytest.mark.parametrize("empty", [1, 2, 3, 7])
def test_answers_that_are_empty_for_want_of_time_cost_no_row(isolation: str, empty: int) -> None:
    """At each place the broker is too slow so many times, as with a tier that is far away."""
    asked: dict[int, int] = {}
    all_of_it = from_batches((0, 3), (3, 3), (6, 4))

    def slow(fetch: Fetch) -> bytes:
        asked[fetch.offset] = asked.get(fetch.offset, 0) + 1
        return b"" if asked[fetch.offset] <= empty else all_of_it(fetch)

    with serving(slow, end=10) as log:
        assert log.offsets(isolation=isolation) == list(range(10))


@pytest.mark.parametrize("throttle_ms", [0, 70])
def test_what_answers_say_of_a_quota_is_added_up(throttle_ms: int) -> None:
    with serving(from_batches((0, 3), (3, 3)), end=6, throttle_ms=throttle_ms) as log:
        scan = log.scan()
        assert scan.throttled_ms == 0
        assert sum(found.num_rows for found in scan) == 6
        assert scan.throttled_ms == throttle_ms * len(log.fetches)


def test_of_brokers_that_hold_back_at_the_same_time_it_is_the_one_that_did_so_for_longest() -> None:
    with serving(from_batches((0, 3), (3, 3)), end=6, partitions=3, brokers=3, throttle_ms=70) as log:
        scan = log.scan()
        assert sum(found.num_rows for found in scan) == 18
        fetches = Counter(fetch.partition for fetch in log.fetches)
        assert len(fetches) == 3
        assert scan.throttled_ms == 70 * max(fetches.values())


def test_a_broker_that_is_slow_for_committed_records_alone_costs_no_row() -> None:
    """What is not committed comes at once; it must neither be taken for the rows, nor for their end."""
    all_of_it = from_batches((0, 3), (3, 3))

    def slow(fetch: Fetch) -> bytes:
        return b"" if fetch.is_committed and fetch.number % 5 else all_of_it(fetch)

    with serving(slow, end=6) as log:
        assert log.offsets() == list(range(6))


def test_who_gave_nothing_has_more_time_to_answer() -> None:
    with serving(lambda fetch: batch(0, 2) if fetch.wait_ms >= 4000 else b"", end=2) as log:
        assert log.offsets() == [0, 1]
    assert log.fetches[0].wait_ms == 500
    assert max(fetch.wait_ms for fetch in log.fetches) == 4000


@ISOLATIONS
def test_a_batch_behind_the_end_proves_that_there_is_nothing_before(isolation: str) -> None:
    """Offsets 2 to 7 were compacted away; 8 is an open transaction, or just behind what is asked for."""

    def answer(fetch: Fetch) -> bytes:
        if fetch.offset < 2:
            return batch(0, 2)
        return b"" if fetch.is_committed else batch(8)

    with serving(answer, end=9, stable=8) as log:
        assert log.offsets(isolation=isolation, end=8) == [0, 1]
    assert len(log.fetches) <= 3


def test_other_partitions_that_fill_the_answer_are_no_sign_of_an_end() -> None:
    """Partition 1 is answered only when it is asked for alone."""
    log_of = from_batches((0, 5))
    with serving(
        lambda fetch: log_of(fetch) if fetch.partition == 0 or fetch.is_alone else b"", end=5, partitions=2
    ) as log:
        assert sorted(log.offsets()) == sorted([*range(5), *range(5)])


@ISOLATIONS
def test_a_log_that_ends_in_nothing_is_believed_when_patience_is_over(isolation: str) -> None:
    with serving(from_batches((0, 2)), end=5) as log:
        assert log.offsets(isolation=isolation, patience_s=0.5) == [0, 1]
    assert len(log.fetches) > 5  # It was asked again and again.


@ISOLATIONS
def test_nothing_that_nothing_proves_is_an_error(isolation: str) -> None:
    """The log goes on behind the end, so the broker could show that."""
    with (
        serving(from_batches((0, 2)), end=9) as log,
        pytest.raises(
            columnar.OffsetsGone, match=r"t-0: its broker gives nothing from offset 2 on.* up to 5: .* up to 9"
        ),
    ):
        log.offsets(isolation=isolation, end=5, patience_s=0.5)


def test_a_log_cut_within_a_gap_is_an_error() -> None:
    """It ends before the end that was settled, and what it still has is behind us: no hang."""
    with serving(from_batches((0, 2)), end=9) as log:
        scan = log.scan(patience_s=0.5)
        log.end = log.stable = 4
        with pytest.raises(columnar.OffsetsGone, match="t-0 ends at offset 4, where it had more, up to 9"):
            list(scan)


def test_many_small_answers_that_wait_for_their_reader_take_little_memory() -> None:
    """As of one who follows a topic of few messages a second, and is busy with something else."""
    answers = 200
    all_here = threading.Event()

    def live(fetch: Fetch) -> bytes:
        if fetch.offset < answers:
            return batch(fetch.offset)
        all_here.set()
        return b""

    tracemalloc.start()
    try:
        with serving(live, end=answers) as log, closing(log.scan(start="earliest", end=None)) as scan:
            rows = iter(scan)
            next(rows)
            assert all_here.wait(SOON_S)
            assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


# --- Cut off -----------------------------------------------------------------------------------------------------

ENDLESS = pytest.mark.parametrize("end", ["latest", None], ids=["read", "follow"])


@ENDLESS
@pytest.mark.parametrize("kept_bytes", [5, 30, 61, -1])
def test_nothing_but_a_truncated_batch_is_one_clear_error(end: str | None, kept_bytes: int) -> None:
    whole = batch(2, 3)
    cut = whole[:kept_bytes]
    with (
        serving(lambda fetch: batch(0, 2) if fetch.offset < 2 else cut, end=5) as log,
        pytest.raises(CorruptBatch, match=rf"^t-0: {len(cut)} bytes at offset 2 that hold no whole batch$"),
    ):
        log.offsets(start="earliest", end=end)


@ENDLESS
def test_a_batch_of_what_was_read_already_is_one_clear_error(end: str | None) -> None:
    with (
        serving(lambda fetch: batch(0, 2), end=5) as log,
        pytest.raises(CorruptBatch, match=r"^t-0: a batch that ends before offset 2, where one with 2 was asked for$"),
    ):
        log.offsets(start="earliest", end=end)


@pytest.mark.parametrize("kept_bytes", [5, 30])
def test_a_truncated_batch_where_the_end_was_to_be_proved_ends_nothing(kept_bytes: int) -> None:
    """Rows are missing: what begins before the end is no proof, and what has no offset is an error."""

    def answer(fetch: Fetch) -> bytes:
        if fetch.offset < 2:
            return batch(0, 2)
        return b"" if fetch.is_committed else batch(2, 3)[:kept_bytes]

    with (
        serving(answer, end=5) as log,
        pytest.raises((CorruptBatch, columnar.OffsetsGone), match=r"at offset 2|from offset 2"),
    ):
        log.offsets(patience_s=0.5)
