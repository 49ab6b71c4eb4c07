"""Java consumers read through one cleaning after another, on a node and on Apache Kafka.

One keeps up with the writer, and mostly reads what is not compacted yet. One is slower, so that compaction gets ahead
of it again and again and replaces what it is about to read. A third starts in the middle, on what is compacted already.
How long it all takes is decided by what happens: the writer stops when each of the slow ones has been overtaken often
enough.
"""

import itertools
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.scenario import Message, fingerprint
from tests.interop.following import Follower, Seen, cleaned_offset, cleanings_ahead, complaints
from tests.oracle.kafka import ApacheKafka
from tests.oracle.subject import Headrace, RunningBroker
from tests.oracle.toolbox import ToolMissing, without_tool

BROKERS: Final[dict[str, type[Headrace] | type[ApacheKafka]]] = {"headrace": Headrace, "apache": ApacheKafka}
PROPERTIES: Final = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "1000"}
TOPIC: Final = "customers"
CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),  # The smallest that Kafka allows.
    "min.cleanable.dirty.ratio": "0.05",
}
KEYS: Final = 2_000
VALUE_BYTES: Final = 400
DELETED_SHARE: Final = 0.05
UPDATES_PER_S: Final = 5_000
UPDATES_PER_PRODUCER: Final = 2_500
SLOWLY_MS: Final = 40  # A hundred records in that time, half of what is written.
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CLEANINGS: Final = 3
PATIENCE_S: Final = 100.0
THE_END: Final = b"the end"


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """One that looks for something to compact ten times a second."""
    fresh = BROKERS[request.param].temporary(properties=PROPERTIES)
    try:
        fresh.start()
        yield fresh
    except ToolMissing as missing:
        without_tool(missing)
    finally:
        fresh.discard()


class Updates:
    """One producer after another, each with the next codec, at a steady rate: update number n stands at offset n."""

    def __init__(self, broker: RunningBroker) -> None:
        self.written: list[Message] = []
        self._broker = broker
        self._chance = random.Random(7)
        self._codecs = itertools.cycle(CODECS)
        self._began_s = time.monotonic()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(30)

    def send_some(self) -> None:
        """Some keys are updated far more often than others, and some are deleted for a while."""
        chance = self._chance
        keys = [b"key-%d" % int(KEYS * chance.random() ** 2) for _ in range(UPDATES_PER_PRODUCER)]
        self._send((key, None if chance.random() < DELETED_SHARE else chance.randbytes(VALUE_BYTES)) for key in keys)

    def send_last(self) -> None:
        self._send([(THE_END, b"")])

    def _send(self, updates: Iterable[tuple[bytes, bytes | None]]) -> None:
        first = len(self.written)
        for key, value in updates:
            self.written.append(Message(key, value, (), 1_700_000_000_000 + len(self.written)))
        settings = {"enable.idempotence": True, "compression.type": next(self._codecs), "batch.num.messages": 50}
        producer = Producer({**settings, "bootstrap.servers": self._broker.bootstrap, "linger.ms": 5})
        offsets: list[int] = []

        def delivered(error: object, message: Any) -> None:
            assert error is None, error
            offsets.append(message.offset())

        for number, one in enumerate(self.written[first:]):
            producer.produce(TOPIC, one.value, one.key, 0, on_delivery=delivered, timestamp=one.timestamp_ms)
            if number % 50 == 0:
                producer.poll(0)
                time.sleep(max(0, (first + number) / UPDATES_PER_S - (time.monotonic() - self._began_s)))
        assert producer.flush(60) == 0
        assert offsets == list(range(first, len(self.written)))


def test_java_consumers_read_through_cleanings(broker: RunningBroker) -> None:
    updates = Updates(broker)
    deadline_s = time.monotonic() + PATIENCE_S

    with ExitStack() as stack:

        def follow(name: str, *, pause_ms: int) -> Follower:
            return stack.enter_context(closing(Follower(name, broker, TOPIC, until=THE_END, pause_ms=pause_ms)))

        def write_until_overtaken(follower: Follower) -> None:
            while (overtaken := cleanings_ahead(follower.seen[:])) < CLEANINGS:
                follower.check_running()
                assert time.monotonic() < deadline_s, f"{follower.name} was overtaken {overtaken} times: {told()}"
                updates.send_some()

        def told() -> str:
            cleaned, written = cleaned_offset(broker, TOPIC), len(updates.written)
            return f"compacted up to {cleaned} of {written}\n{broker.log_text()[-3000:]}"

        quick, slow = follow("the quick one", pause_ms=0), follow("the slow one", pause_ms=SLOWLY_MS)
        write_until_overtaken(slow)
        late = follow("the late one", pause_ms=SLOWLY_MS)
        write_until_overtaken(late)
        updates.send_last()
        for follower in (quick, slow, late):
            follower.wait_end()

    cleaned = cleaned_offset(broker, TOPIC)
    for follower in (quick, slow, late):
        assert complaints(follower.seen, updates.written, cleaned=cleaned) == [], follower.name
        assert follower.position == len(updates.written)
    # The slow ones met what was compacted before it came to them, and the quick one what was not.
    assert len(late.seen) < len(slow.seen) < len(quick.seen) <= len(updates.written)
    assert late.seen[0].offset > 0


# --- The judge is judged -----------------------------------------------------------------------------------------

WRITTEN: Final = [Message(key, b"%d" % number, (), number) for number, key in enumerate([b"a", b"b", b"a", b"c", b"a"])]


def shown(*offsets: int) -> list[Seen]:
    return [Seen(offset, fingerprint(WRITTEN[offset]), 0) for offset in offsets]


@pytest.mark.parametrize("offsets", [(0, 1, 2, 3, 4), (1, 2, 3, 4), (1, 3, 4)])
def test_what_a_later_record_supersedes_may_be_missing(offsets: tuple[int, ...]) -> None:
    assert complaints(shown(*offsets), WRITTEN, cleaned=5) == []


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (shown(0, 1, 2, 3), "offset 4 is missing, superseded at 5, compacted up to 4"),
        (shown(1, 3, 4), "offset 2 is missing, superseded at 4, compacted up to 4"),
        (shown(0, 2, 3, 4), "offset 1 is missing, superseded at 5, compacted up to 4"),
        (shown(0, 1, 2, 3, 3, 4), "offset 3 came after 3"),
        (shown(0, 1, 3, 2, 4), "offset 2 came after 3"),
        ([*shown(0, 1, 2), Seen(3, shown(2)[0].hash, 0), *shown(4)], "what came at offset 3 was not written there"),
        ([*shown(0, 1, 2, 3, 4), Seen(5, shown(4)[0].hash, 0)], "nothing was written at offset 5"),
    ],
)  # fmt: skip
def test_what_is_lost_repeated_or_changed_is_complained_about(seen: list[Seen], complaint: str) -> None:
    assert complaints(seen, WRITTEN, cleaned=4) == [complaint]


def test_a_follower_is_overtaken_by_cleanings_that_it_did_not_begin_with() -> None:
    cleaned_when_seen = [10, 10, 20, 20, 30, 4]
    seen = [Seen(offset, "", cleaned) for offset, cleaned in enumerate(cleaned_when_seen)]
    assert cleanings_ahead(seen) == 2
    assert cleanings_ahead(seen[:2]) == cleanings_ahead([]) == 0
