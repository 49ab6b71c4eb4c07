"""Embedded brokers started and closed, one after the other, in every way that they can run.

Each is used as a test uses one, through its socket and through the control socket, filled and cleared. In between and
afterwards the test process is looked at: its threads, descriptors and children, its temporary directory, and its
memory: what is resident, in which allocators have a say, and behind some starts more what Python itself has allocated.
How long a start and a clearing take decides only where the whole proof is run.
"""

import ctypes
import gc
import os
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from headrace.protocol.records import Record, encode_batch
from headrace.testing import Broker, BrokerPool
from tests.hostile.target import Wire
from tests.proofs.proof import Facts, Slice

WAYS: Final = ("process", "fork", "thread")
READY_MS_MAX: Final = {"process": 400.0, "fork": 50.0}  # Of the median. A thread is for debuggers, who do not mind.
CLEAR_MS_MAX: Final = 10.0  # Of the median, in every way.
TOPICS: Final = 10
PARTITIONS_PER_TOPIC: Final = 3
RECORDS_PER_PARTITION: Final = 100
# Over the first starts allocators and caches settle. What is lost with each start goes on being lost after them.
WARM_STARTS: Final = 30
GROWTH_KB_PER_START_MAX: Final = 2.5  # In CI's thirty samples the last of the settling is up to half of it.
# What there is after these is compared with what there was before. A leak of an object or of 1 kB would be above that.
TRACED_STARTS: Final = 10
TRACED_WARM_STARTS: Final = 2
OBJECTS_MORE_MAX: Final = 5
TRACED_BYTES_MORE_MAX: Final = 5_000
_NEAR: Final = 10
_API_VERSIONS: Final = 18
_PRODUCE: Final = 0
_OFFSET_COMMIT: Final = 8
_FIND_COORDINATOR: Final = 10
_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's.
_clear_type_cache: Final = getattr(sys, "_clear_internal_caches", None) or getattr(sys, "_clear_type_cache", None)


class Left(NamedTuple):
    """What there is of a process beside its memory, each thing by a name of its own.

    What others began earlier may end at any moment, so only what is new counts.
    """

    threads: frozenset[str]
    descriptors: frozenset[str]
    children: frozenset[int]
    files: frozenset[str]

    @classmethod
    def now(cls, directory: Path) -> "Left":
        return cls(
            frozenset(thread.name for thread in threading.enumerate()),
            frozenset(_descriptors()),
            frozenset(_children(os.getpid())),
            frozenset(path.name for path in directory.iterdir()),
        )

    def beyond(self, before: "Left") -> list[str | int]:
        return [name for now, then in zip(self, before, strict=True) for name in now - then]


def _descriptors() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # The one that lists them.
            yield f"{descriptor.name} {descriptor.readlink()}"


def _children(pid: int) -> list[int]:
    children: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        # The kernel's part of a thread may outlive Python's by a moment.
        with suppress(FileNotFoundError, ProcessLookupError):
            children += (task / "children").read_text().split()
    return [int(child) for child in children]


def _collect() -> None:
    """A broker in a thread is made of cycles, as most programs are.

    And the interpreter remembers up to 4,096 names of attributes, of which every answer that is unpickled has new ones.
    """
    gc.collect()
    if _clear_type_cache is not None:
        _clear_type_cache()


def memory_kb() -> int:
    """What is resident, without what only waits for the collector or the allocator to give it back."""
    _collect()
    if _trim is not None:
        _trim(0)
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def growth_per_step(samples: Sequence[float]) -> float:
    """The middle of the slopes between any two that are near: what is lost each time changes it, and a jump or two do
    not, which few of those lie across."""
    pairs = combinations(enumerate(samples), 2)
    return median((two - one) / (to - at) for (at, one), (to, two) in pairs if to - at <= _NEAR)


@contextmanager
def temporary_files_in(directory: Path) -> Iterator[Path]:
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield directory
    finally:
        tempfile.tempdir = before


def use(broker: Broker) -> None:
    broker.create_topic("orders", 3)
    assert broker.produce("orders", b"1", partition=2) == 0
    assert broker.log("orders", 2).values == [b"1"]


def fill(broker: Broker) -> None:
    """As much as a large test may leave: thousands of records in some topics, and a group that has read them."""
    for number in range(TOPICS):
        broker.create_topic(f"topic-{number}", PARTITIONS_PER_TOPIC)
    batch = encode_batch([Record(b"key", b"%0100d" % n, (), 0) for n in range(RECORDS_PER_PARTITION)])
    records = [{"index": partition, "records": batch} for partition in range(PARTITIONS_PER_TOPIC)]
    read = [
        {"partition_index": partition, "committed_offset": RECORDS_PER_PARTITION, "committed_metadata": ""}
        for partition in range(PARTITIONS_PER_TOPIC)
    ]
    names = [f"topic-{number}" for number in range(TOPICS)]
    with Wire(broker.bootstrap, timeout_s=30) as wire:
        assert wire.call(_API_VERSIONS, 0, {})["error_code"] == 0
        written = [{"name": name, "partition_data": records} for name in names]
        produced = wire.call(_PRODUCE, 7, {"acks": -1, "timeout_ms": 30_000, "topic_data": written})
        found = wire.call(_FIND_COORDINATOR, 2, {"key": "readers", "key_type": 0})
        assert found["error_code"] == 0, found
        committed = wire.call(
            _OFFSET_COMMIT,
            7,
            {
                "group_id": "readers",
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": [{"name": name, "partitions": read} for name in names],
            },
        )
    rows = [row for topic in produced["responses"] for row in topic["partition_responses"]]
    rows += [row for topic in committed["topics"] for row in topic["partitions"]]
    assert [row["error_code"] for row in rows] == [0] * (2 * TOPICS * PARTITIONS_PER_TOPIC)
    assert len(broker.records(names[-1])) == PARTITIONS_PER_TOPIC * RECORDS_PER_PARTITION
    assert len(broker.groups()["readers"].offsets) == TOPICS * PARTITIONS_PER_TOPIC


def clear(broker: Broker) -> float:
    """How many milliseconds it took."""
    began_s = time.perf_counter()
    broker.clear()
    took_ms = (time.perf_counter() - began_s) * 1000
    assert (broker.topics(), broker.groups()) == ({}, {})
    return took_ms


def make(way: str, pool: BrokerPool) -> Broker:
    return pool.broker() if way == "fork" else Broker(in_thread=way == "thread")


def run(work: Slice) -> Facts:
    ready_ms: dict[str, list[float]] = {way: [] for way in WAYS}
    clear_ms: dict[str, list[float]] = {way: [] for way in WAYS}
    samples_kb: list[int] = []
    with temporary_files_in(work.scratch) as directory:
        at_first = Left.now(directory)
        with BrokerPool() as pool:
            with pool.broker():
                pass  # The pool is there: its first broker waits for it.
            beside_pool = Left.now(directory)
            for unit in work.each():
                way = WAYS[unit % len(WAYS)]
                broker = make(way, pool)
                began_s = time.perf_counter()
                with broker:
                    ready_ms[way].append((time.perf_counter() - began_s) * 1000)
                    use(broker)
                    fill(broker)
                    clear_ms[way].append(clear(broker))
                assert not (left := Left.now(directory).beyond(beside_pool)), f"a broker by {way} left {left}"
                samples_kb.append(memory_kb())
            memory = check_memory(samples_kb)
            for way in WAYS if memory else ():
                memory |= check_traced(way, partial(make, way, pool))
        assert not (left := Left.now(directory).beyond(at_first)), f"the pool left {left}"
    facts: Facts = {"starts": len(work.units)}
    facts |= {f"ready_ms_{way}_median_max": round(median(times), 1) for way, times in ready_ms.items() if times}
    facts |= {f"clear_ms_{way}_median_max": round(median(times), 1) for way, times in clear_ms.items() if times}
    facts |= memory
    if work.is_full:
        check_times(facts)
    return facts


def check_memory(samples_kb: Sequence[int]) -> Facts:
    """After each start. Nothing of those with which the process warms up; of too few nothing can be told."""
    warm_kb = samples_kb[WARM_STARTS:]
    if len(warm_kb) < 2:
        return {}
    growth_kb = growth_per_step(warm_kb)
    assert growth_kb <= GROWTH_KB_PER_START_MAX, f"each of {len(warm_kb)} starts left {growth_kb:.1f} kB of memory"
    return {
        "memory_samples": len(warm_kb),
        "memory_growth_kb_per_start_max": round(growth_kb, 2),
        "memory_from_first_to_last_sample_kb_max": warm_kb[-1] - warm_kb[0],
    }


def check_traced(way: str, make_broker: Callable[[], Broker]) -> Facts:
    """By what Python counts itself, whatever allocators do; in a process that has warmed up."""

    def start(times: int) -> None:
        for _ in range(times):
            with make_broker() as broker:
                use(broker)
                fill(broker)
                clear(broker)

    def counted() -> tuple[int, int]:
        _collect()
        return len(gc.get_objects()), tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        start(TRACED_WARM_STARTS)
        objects, size_bytes = counted()
        start(TRACED_STARTS)
        objects_then, bytes_then = counted()
    finally:
        tracemalloc.stop()
    more_objects, more_bytes = objects_then - objects, bytes_then - size_bytes
    told = f"{TRACED_STARTS} starts by {way} left {more_objects} objects and {more_bytes:,} bytes"
    assert more_objects <= OBJECTS_MORE_MAX, told
    assert more_bytes <= TRACED_BYTES_MORE_MAX, told
    return {f"traced_objects_more_{way}_max": more_objects, f"traced_bytes_more_{way}_max": more_bytes}


def check_times(facts: Facts) -> None:
    limits_ms = {f"ready_ms_{way}_median_max": limit_ms for way, limit_ms in READY_MS_MAX.items()}
    limits_ms |= {f"clear_ms_{way}_median_max": CLEAR_MS_MAX for way in WAYS}
    for name, limit_ms in limits_ms.items():
        assert facts[name] < limit_ms, f"{name.replace('_', ' ')}: {facts[name]}, not below {limit_ms:g}"
