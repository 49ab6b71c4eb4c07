"""`python -m bench.micro`: what the pieces of the hot path cost in one process, without sockets or clients.

Each piece stands beside a floor, the least that any implementation must do for it (the bare CRC, the bare
write, a dictionary hit). The ratio to the floor is what to compare between machines and before and after a
change; the nanoseconds are of this machine alone. Subject and floor alternate, so that a slow moment falls
on both.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from rich.console import Console
from rich.table import Table

from headrace.node.configs import BrokerConfig, TopicConfig
from headrace.protocol.batch import HEADER, parse_whole_batch
from headrace.protocol.checksum import crc32c
from headrace.protocol.produce import TopicAnswers, encode_produce_response, parse_produce
from headrace.protocol.records import Record, encode_batch
from headrace.server.disk import SystemDisk
from headrace.storage.loading import load_log
from headrace.storage.log import PartitionLog

_REPEAT_S: Final = 0.05
_CRC_START: Final = 21

Operation = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A piece of ours and its floor, made anew for each run of the benchmark."""

    name: str
    floor_name: str
    subject: Operation
    floor: Operation


def _batch(records: int) -> bytes:
    return encode_batch([Record(None, bytes(200), timestamp_ms=1_700_000_000_000)] * records)


def _produce_frame(batch: bytes) -> memoryview:
    """The body of a Produce v7 request with one batch for one partition."""
    head = Struct(">hhi").pack(-1, 1, 30_000)  # No transaction, acks=1, timeout.
    topic = Struct(">ih5si").pack(1, 5, b"bench", 1)
    return memoryview(bytearray(head + topic + Struct(">ii").pack(0, len(batch)) + batch))


def _new_log(stack: ExitStack) -> PartitionLog:
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-micro-"))
    disk = SystemDisk(directory, helper=None, descriptors_max=64)
    stack.callback(disk.close)
    config = TopicConfig.resolve(BrokerConfig.resolve({}), {})
    log, _recovery = load_log(
        disk, "bench-0", config, clean=True, recovery_point=0, start_offset=0, now_ms=1_700_000_000_000
    )
    return log


def _append_pair(records: int, stack: ExitStack) -> Pair:
    batch = bytearray(_batch(records))
    view, header, log = memoryview(batch), parse_whole_batch(batch), _new_log(stack)
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-micro-"))
    descriptor = os.open(Path(directory) / "floor", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    stack.callback(os.close, descriptor)
    return Pair(
        name=f"append a batch of {records} x 200 B to a log",
        floor_name="write(2)",
        subject=lambda: log.append(view, header, now_ms=1_700_000_000_000, leader_epoch=0),
        floor=lambda: os.write(descriptor, view),
    )


def _lookup_pair(name: str, stack: ExitStack, *, batches: int, offsets: Iterator[int]) -> Pair:
    log, batch = _new_log(stack), bytearray(_batch(10))
    header = parse_whole_batch(batch)
    for _ in range(batches):
        log.append(memoryview(batch), header, now_ms=1_700_000_000_000, leader_epoch=0)
    assert log.high_watermark == log.end_offset  # Else the reads below would find nothing, very fast.
    positions = dict.fromkeys(range(0, log.end_offset, 10), 0)
    return Pair(
        name=name,
        floor_name="dictionary hit",
        subject=lambda: log.read(next(offsets), bytes_max=1 << 20, at_least_one=True),
        floor=lambda: positions[next(offsets)],
    )


def _cycle(offsets: Sequence[int]) -> Iterator[int]:
    while True:
        yield from offsets


def make_pairs(stack: ExitStack) -> Iterator[Pair]:
    for records in (1, 80):
        batch = _batch(records)
        view = memoryview(batch)

        def crc(view: memoryview = view) -> int:
            return crc32c(view[_CRC_START:])

        def parse(batch: bytes = batch) -> object:
            return parse_whole_batch(batch)

        yield Pair(
            name=f"parse and check a batch of {records} x 200 B", floor_name="CRC alone", subject=parse, floor=crc
        )
        yield _append_pair(records, stack)
    frame = _produce_frame(_batch(80))
    yield Pair(
        name="parse a Produce v7 request",
        floor_name="one unpack",
        subject=lambda: parse_produce(frame, 0, 7),
        floor=lambda: HEADER.unpack_from(frame, 0),
    )
    answers: list[TopicAnswers] = [(b"bench", [(0, 0, 0, -1, 0, None)])]
    answer = Struct(">ih5siihqqqi")
    yield Pair(
        name="write a Produce v7 response",
        floor_name="one pack",
        subject=lambda: encode_produce_response(answers, 7),
        floor=lambda: answer.pack(1, 5, b"bench", 1, 0, 0, 0, -1, 0, 0),
    )
    recent = range(199_000, 200_000, 10)
    yield _lookup_pair("find a fetch near the tail", stack, batches=20_000, offsets=_cycle(recent))
    # A stride that visits the whole log in no helpful order.
    scattered = [(n * 7919 % 20_000) * 10 for n in range(20_000)]
    yield _lookup_pair("find a fetch anywhere in 40 MB", stack, batches=20_000, offsets=_cycle(scattered))


@dataclass(frozen=True, slots=True)
class Cost:
    pair: Pair
    subject_ns: list[float]
    floor_ns: list[float]

    def ratios(self) -> list[float]:
        return [ours / floor for ours, floor in zip(self.subject_ns, self.floor_ns, strict=True)]


def measure(pair: Pair, *, repeats: int) -> Cost:
    counts = [_calls_for(operation) for operation in (pair.subject, pair.floor)]
    cost = Cost(pair, [], [])
    for _ in range(repeats):
        cost.subject_ns.append(_ns_per_call(pair.subject, counts[0]))
        cost.floor_ns.append(_ns_per_call(pair.floor, counts[1]))
    return cost


def _calls_for(operation: Operation) -> int:
    """As many calls as fill a repeat, so that the clock's own cost vanishes."""
    return max(1, round(_REPEAT_S * 1e9 / _ns_per_call(operation, 200)))


def _ns_per_call(operation: Operation, calls: int) -> float:
    began_ns = time.perf_counter_ns()
    for _ in range(calls):
        operation()
    return (time.perf_counter_ns() - began_ns) / calls


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description="Cost of the hot path's pieces.")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args(arguments)
    table = Table(title="median, least..greatest; a call of an empty function is part of every figure")
    for title in ("piece", "us", "floor", "us", "ratio"):
        table.add_column(title, justify="left" if title in {"piece", "floor"} else "right")
    with ExitStack() as stack:
        for pair in make_pairs(stack):
            cost = measure(pair, repeats=options.repeats)
            table.add_row(
                pair.name,
                _spread([ns / 1e3 for ns in cost.subject_ns]),
                pair.floor_name,
                _spread([ns / 1e3 for ns in cost.floor_ns]),
                _spread(cost.ratios()),
            )
    Console(width=130).print(table)
    return 0


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
