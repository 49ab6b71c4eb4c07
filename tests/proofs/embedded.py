"""Embedded brokers started and closed, one after the other, in every way that they can run.

Each is used as a test uses one, through its socket and through the control socket. In between and afterwards the test
process is looked at: its threads, descriptors and children, its temporary directory, and its memory once it has warmed
up.
"""

import gc
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from headrace.testing import Broker, BrokerPool
from tests.hostile.target import Wire
from tests.proofs.proof import Facts, Slice

WAYS: Final = ("process", "fork", "thread")
# Over the first starts allocators and caches settle. Afterwards resident memory goes up and down by some two megabytes.
WARM_STARTS: Final = 30
MEMORY_KB_MAX: Final = 4096
_API_VERSIONS: Final = 18


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


def memory_kb() -> int:
    """Without what only waits for the collector: a broker in a thread is made of cycles, as most programs are."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


@contextmanager
def temporary_files_in(directory: Path) -> Iterator[Path]:
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield directory
    finally:
        tempfile.tempdir = before


def use(broker: Broker) -> None:
    host, port = broker.bootstrap.split(":")
    with Wire(f"{host}:{port}", timeout_s=30) as wire:
        assert wire.call(_API_VERSIONS, 0, {})["error_code"] == 0
    broker.create_topic("orders", 3)
    assert broker.produce("orders", b"1", partition=2) == 0
    assert broker.log("orders", 2).values == [b"1"]
    broker.clear()
    assert broker.topics() == {}


def run(work: Slice) -> Facts:
    ready_ms: dict[str, list[float]] = {way: [] for way in WAYS}
    clear_ms: list[float] = []
    warm_kb = 0
    with temporary_files_in(work.scratch) as directory:
        at_first = Left.now(directory)
        with BrokerPool() as pool:
            with pool.broker():
                pass  # The pool is there: its first broker waits for it.
            beside_pool = Left.now(directory)
            for unit in work.each():
                way = WAYS[unit % len(WAYS)]
                broker = pool.broker() if way == "fork" else Broker(in_thread=way == "thread")
                began_s = time.perf_counter()
                with broker:
                    ready_ms[way].append((time.perf_counter() - began_s) * 1000)
                    use(broker)
                    began_s = time.perf_counter()
                    broker.clear()
                    clear_ms.append((time.perf_counter() - began_s) * 1000)
                assert not (left := Left.now(directory).beyond(beside_pool)), f"a broker by {way} left {left}"
                if unit - work.units.start == WARM_STARTS:
                    warm_kb = memory_kb()
            grown_kb = memory_kb() - warm_kb if warm_kb else 0
        assert not (left := Left.now(directory).beyond(at_first)), f"the pool left {left}"
    assert grown_kb <= MEMORY_KB_MAX, f"{grown_kb} kB more after {len(work.units)} starts than after {WARM_STARTS}"
    medians = {f"ready_ms_{way}_median_max": sorted(times)[len(times) // 2] for way, times in ready_ms.items() if times}
    return {
        "starts": len(work.units),
        **{name: round(value, 1) for name, value in medians.items()},
        "clear_ms_median_max": round(sorted(clear_ms)[len(clear_ms) // 2], 1),
        "memory_grown_kb_max": grown_kb,
    }
