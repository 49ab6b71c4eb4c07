"""A writer that has several batches of every partition under way, and brokers' answers that get lost meanwhile.

Every row is in the log once, in its place, whichever of the batches under way the broker took before the cut. Where the
cuts are is drawn from a seed, by the number of requests between two.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from headrace import columnar
from headrace.columnar import delivering
from headrace.testing import Broker
from headrace.testing.faults import Fault

PARTITIONS = 4
ROWS = 60_000
BATCH_BYTES = 4_000
QUICK = {"retry.backoff.ms": 2, "retry.backoff.max.ms": 10, "request.timeout.ms": 1000, "client.id": "saturated"}
CUTS_MIN = 15  # In every run, or it shows little.
WAIT_S = 0.002

NUMBERS = [b"%0100d" % number for number in range(ROWS)]
TABLE = pa.table(
    {"value": NUMBERS, "place": pa.array([number % PARTITIONS for number in range(ROWS)], pa.int32())},
)


@pytest.fixture(scope="module")
def one_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(one_broker: Broker) -> Broker:
    one_broker.clear()
    one_broker.create_topic("orders", PARTITIONS)
    return one_broker


@pytest.fixture
def under_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches of a partition were under way whenever the first of them failed."""
    seen: list[int] = []
    come_back = delivering._Target.come_back

    def watched(target: delivering._Target, trouble: Exception) -> None:
        if target.trouble is None:
            seen.append(target.under_way)
        come_back(target, trouble)  # type: ignore[arg-type]

    monkeypatch.setattr(delivering._Target, "come_back", watched)
    return seen


@contextmanager
def cutting(
    broker: Broker, seed: int, make_fault: Callable[[random.Random], Fault], *, most: int = 1000
) -> Iterator[list[Fault]]:
    """Faults, one after the other, each some requests after the last was met."""
    chance = random.Random(seed)
    faults: list[Fault] = []
    over = threading.Event()

    def run() -> None:
        while not over.is_set() and len(faults) < most:
            begin = produced(broker)
            gap = chance.randrange(2, 25)
            while produced(broker) < begin + gap and not over.wait(WAIT_S):
                pass
            fault = make_fault(chance)
            faults.append(fault)
            while not fault.hits and not over.wait(WAIT_S):
                pass

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield faults
    finally:
        over.set()
        thread.join(10)
    assert not thread.is_alive()


def produced(broker: Broker) -> int:
    return broker.statistics().requests.get("Produce", 0)


def write_all(broker: Broker) -> columnar.Written:
    return columnar.write(
        broker.bootstrap,
        "orders",
        TABLE,
        partition="place",
        batch_bytes=BATCH_BYTES,
        memory_bytes=1 << 20,
        config=QUICK,
    )


def check_each_row_once(broker: Broker, written: columnar.Written) -> None:
    assert written.records == ROWS
    for number in range(PARTITIONS):
        rows = NUMBERS[number::PARTITIONS]
        assert broker.log("orders", number).values == rows
        assert written.partitions[number].records == len(rows)
        assert written.partitions[number].last_offset == len(rows) - 1


@pytest.mark.parametrize("seed", range(4))
def test_connections_cut_while_batches_are_under_way_cost_and_double_nothing(
    broker: Broker, under_way: list[int], seed: int
) -> None:
    """Before the append or after it, by hanging up: all behind it on the connection is in doubt as well."""

    def cut(chance: random.Random) -> Fault:
        return broker.faults.disconnect(api="Produce", topic="orders", handled=chance.random() < 0.7)

    with cutting(broker, seed, cut) as faults:
        written = write_all(broker)
    assert sum(fault.hits for fault in faults) >= CUTS_MIN, f"{seed=}"
    assert max(under_way) == 5, f"{seed=}"
    assert sum(count > 1 for count in under_way) >= CUTS_MIN, f"{seed=}"
    check_each_row_once(broker, written)


def test_answers_that_never_come_cost_and_double_nothing(broker: Broker, under_way: list[int]) -> None:
    """The connection is stuck: what was sent on it was appended, and nobody says so."""

    def drop(_: random.Random) -> Fault:
        return broker.faults.drop(api="Produce", topic="orders", handled=True)

    with cutting(broker, 5, drop, most=2) as faults:
        written = write_all(broker)
    assert [fault.hits for fault in faults] == [1, 1]
    assert max(under_way) > 1
    check_each_row_once(broker, written)


def test_a_broker_that_forgets_what_is_in_doubt_is_told_nothing_twice(broker: Broker) -> None:
    """Whether it took what was under way cannot be known any more: an error, and no row that is there twice."""
    slow = QUICK | {"retry.backoff.ms": 500, "retry.backoff.max.ms": 500}
    with columnar.Writer(broker.bootstrap, "orders", partition=0, batch_bytes=BATCH_BYTES, config=slow) as writer:
        cut = broker.faults.disconnect(api="Produce", topic="orders", handled=True)
        writer.write(TABLE.slice(0, 10).to_batches()[0])
        cut.wait()
        broker.faults.error("UNKNOWN_PRODUCER_ID", api="Produce", topic="orders")
        with pytest.raises(columnar.WriteFailed, match="UNKNOWN_PRODUCER_ID; 0 rows were acknowledged before"):
            writer.flush()
    assert broker.log("orders", 0).values == NUMBERS[:10]


@pytest.mark.parametrize("seed", range(2))
def test_refusals_while_batches_are_under_way_cost_and_double_nothing(
    broker: Broker, under_way: list[int], seed: int
) -> None:
    """Those behind the one that was refused are out of order for the broker, and come again with it."""

    def refuse(chance: random.Random) -> Fault:
        error = chance.choice(["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "UNKNOWN_PRODUCER_ID"])
        return broker.faults.error(error, api="Produce", topic="orders")

    with cutting(broker, seed, refuse) as faults:
        written = write_all(broker)
    assert sum(fault.hits for fault in faults) >= CUTS_MIN, f"{seed=}"
    assert sum(count > 1 for count in under_way) >= CUTS_MIN, f"{seed=}"
    check_each_row_once(broker, written)
    assert len({each for number in range(PARTITIONS) for each in broker.log("orders", number).producers}) > 1
