"""One client reads gigabytes that are not in the page cache; another, with little to ask, should hardly notice.

The data is written, synced and dropped from the page cache. Then a small client runs alone, and beside a reader of all
of it, in turn; latency counts from when each request was due. Medians of three decide, and only in the whole proof:
a share of it shows that it works, and who did the waiting.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from headrace.protocol.records import Record, encode_batch
from headrace.protocol.schema import Value
from headrace.server.cachestat import load_range_cached
from headrace.testing.node_process import NodeProcess
from tests.proofs.cold_clients import COLD, HOT, Read, Sample
from tests.proofs.ledger import Anomaly
from tests.proofs.metrics import SETTING, read_metrics
from tests.proofs.nodes import connect, running
from tests.proofs.proof import Facts, Slice
from tests.proofs.readback import create_topic
from tests.proofs.result import ROOT

RECORDS_PER_BATCH: Final = 1000  # Of a kilobyte each: one unit is one such batch.
REPEATS: Final = 3
SLOWDOWN_MAX: Final = 2.0
RESIDENT_SHARE_MAX: Final = 0.02
WARMED_SHARE_MIN: Final = 0.5  # The kernel reads ahead too, and what it fetched unasked counts for nobody.
_IN_FLIGHT: Final = 4
_WARM_UP_S: Final = 2.0
_ALONE_S: Final = 20.0
_READ_S_MAX: Final = 900.0
_PAGES_SAMPLED: Final = 500


class Latency(NamedTuple):
    p50_ms: float
    p99_ms: float


class Beside(NamedTuple):
    latency: Latency
    read_mb_per_s: float
    warmed_share: float  # Of the bytes read: what the disk helper fetched, so that the loop did not wait.
    loop_lag_ms: float


def run(work: Slice) -> Facts:
    node = NodeProcess(work.scratch / "data", settings=SETTING)
    alone: list[Latency] = []
    beside: list[Beside] = []
    with running(node):
        _write(node, work)
        for _ in range(REPEATS if work.is_full else 1):
            drop_from_cache(node.data / str(COLD))
            alone.append(_alone(node, seconds=_ALONE_S if work.is_full else _WARM_UP_S))
            beside.append(_beside(node, batches=len(work.units)))
        node.stop()
    facts: Facts = {
        "repeats": len(alone),
        "p50_ms_alone": statistics.median(one.p50_ms for one in alone),
        "p99_ms_alone": statistics.median(one.p99_ms for one in alone),
        "p50_ms_beside": statistics.median(one.latency.p50_ms for one in beside),
        "p99_ms_beside": statistics.median(one.latency.p99_ms for one in beside),
        "read_mb_per_s": statistics.median(one.read_mb_per_s for one in beside),
        "warmed_share_min": min(one.warmed_share for one in beside),
        "loop_lag_ms_max": max(one.loop_lag_ms for one in beside),
    }
    if facts["warmed_share_min"] < WARMED_SHARE_MIN:
        raise Anomaly(f"the event loop waited for the device itself: {beside}")
    if work.is_full and facts["p99_ms_beside"] > SLOWDOWN_MAX * facts["p99_ms_alone"]:
        raise Anomaly(f"a cold reader more than doubled another client's p99: {alone}, {beside}")
    return facts


def _write(node: NodeProcess, work: Slice) -> None:
    """A batch of about a megabyte for each unit."""
    value = random.Random(0).randbytes(1000)
    batch = encode_batch([Record(None, value, (), 1_700_000_000_000)] * RECORDS_PER_BATCH)
    data = [{"name": COLD.topic, "partition_data": [{"index": COLD.partition, "records": batch}]}]
    with connect(node) as wire:
        for place in (COLD, HOT):
            assert create_topic(wire, place.topic, partitions=1, settings={}) == 0
        waiting = 0
        for _ in work.units:
            wire.ask(0, 8, {"acks": 1, "timeout_ms": 30_000, "topic_data": data})
            waiting += 1
            if waiting == _IN_FLIGHT:
                _check(wire.answer(0, 8))
                waiting -= 1
            work.advance(1)
        for _ in range(waiting):
            _check(wire.answer(0, 8))


def _check(answer: Value) -> None:
    row = answer["responses"][0]["partition_responses"][0]
    assert row["error_code"] == 0, row


def drop_from_cache(directory: Path) -> None:
    for path in sorted(directory.glob("*.log")):
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            share = _resident_share(descriptor)
        finally:
            os.close(descriptor)
        assert share <= RESIDENT_SHARE_MAX, f"{share:.0%} of {path.name} stays in the page cache"


def _resident_share(descriptor: int) -> float:
    """Estimated from some of the pages; zero where the kernel does not tell."""
    range_cached = load_range_cached(descriptor)
    pages = os.fstat(descriptor).st_size // 4096
    if range_cached is None or pages == 0:
        return 0.0
    chosen = [random.Random(0).randrange(pages) for _ in range(_PAGES_SAMPLED)]
    return sum(range_cached(descriptor, page * 4096, 4096) for page in chosen) / len(chosen)


def _alone(node: NodeProcess, *, seconds: float) -> Latency:
    with _client("hot", node) as hot:
        time.sleep(_WARM_UP_S + seconds)
        samples = _samples(hot)
    began_s = samples[0].due_s + _WARM_UP_S
    return _latency([one for one in samples if one.due_s >= began_s])


def _beside(node: NodeProcess, *, batches: int) -> Beside:
    before = read_metrics(node)
    with _client("hot", node) as hot:
        time.sleep(_WARM_UP_S)
        with _client("cold", node, str(batches * RECORDS_PER_BATCH)) as cold:
            read = Read(*json.loads(_output(cold)))
        samples = _samples(hot)
    after = read_metrics(node)
    warmed = after["headrace_cold_read_bytes_total"] - before["headrace_cold_read_bytes_total"]
    return Beside(
        latency=_latency([one for one in samples if read.began_s <= one.due_s <= read.ended_s]),
        read_mb_per_s=read.bytes / 1e6 / (read.ended_s - read.began_s),
        warmed_share=warmed / read.bytes,
        loop_lag_ms=after["headrace_loop_lag_seconds_max"] * 1000,
    )


def _latency(samples: list[Sample]) -> Latency:
    latencies_ms = sorted(one.latency_ms for one in samples)
    assert latencies_ms, "nothing was asked of the node meanwhile"
    return Latency(latencies_ms[len(latencies_ms) // 2], latencies_ms[len(latencies_ms) * 99 // 100])


@contextmanager
def _client(kind: str, node: NodeProcess, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.proofs.cold_clients", kind, node.bootstrap, *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _samples(hot: subprocess.Popen[bytes]) -> list[Sample]:
    return [Sample(*one) for one in json.loads(_output(hot))]


def _output(client: subprocess.Popen[bytes]) -> bytes:
    """What it prints in the end. Its standard input is closed, which is how a client without end is told."""
    output, _ = client.communicate(timeout=_READ_S_MAX)
    assert client.returncode == 0, f"the client ended with {client.returncode}"
    return output
