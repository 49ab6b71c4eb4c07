"""The two clients of the proof about cold reads, each a process of its own so that neither waits for the other.

    python -m tests.proofs.cold_clients hot BOOTSTRAP              writes and reads a small message at a fixed rate,
                                                                   until its standard input is closed
    python -m tests.proofs.cold_clients cold BOOTSTRAP END_OFFSET  reads the cold topic up to there, as fast as it can

Each prints one line of JSON. Instants are of the monotonic clock, which all processes of a host share.

The reader stands for one on another machine: it yields the processor to everybody else, and copies little, so that what
it costs the small client is what it asks of the node.
"""

import json
import os
import select
import socket
import sys
import time
from typing import Final, NamedTuple

from headrace.protocol.batch import whole_batches
from headrace.protocol.records import Record, encode_batch
from tests.hostile.target import Wire
from tests.proofs.ledger import Place
from tests.proofs.nodes import ANSWER_S_MAX
from tests.proofs.readback import fetch

HOT: Final = Place("hot", 0)
COLD: Final = Place("cold", 0)
RATE_PER_S: Final = 200
_FETCH_BYTES: Final = 1 << 20  # What consumers ask for by default.


class Sample(NamedTuple):
    due_s: float
    latency_ms: float


class Read(NamedTuple):
    bytes: int
    began_s: float
    ended_s: float


def hot(wire: Wire) -> list[Sample]:
    """Open loop: a write and its reading are due every so often, and late ones are charged for all of their wait."""
    batch = encode_batch([Record(None, bytes(100), (), 1_700_000_000_000)])
    data = [{"name": HOT.topic, "partition_data": [{"index": HOT.partition, "records": batch}]}]
    request = {"acks": 1, "timeout_ms": 30_000, "topic_data": data}
    samples: list[Sample] = []
    began_s = time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        due_s = began_s + len(samples) / RATE_PER_S
        time.sleep(max(0.0, due_s - time.monotonic()))
        row = wire.call(0, 8, request)["responses"][0]["partition_responses"][0]
        assert row["error_code"] == 0, row
        assert fetch(wire, HOT, row["base_offset"])["records"]
        samples.append(Sample(due_s, (time.monotonic() - due_s) * 1000))
    return samples


class LeanWire(Wire):
    """Each answer is received into one piece of memory by one call."""

    def receive(self) -> bytes | None:
        self.socket.settimeout(None)  # Or the kernel would give what it has; whoever started us keeps the time.
        size = self.socket.recv(4, socket.MSG_WAITALL)
        return self.socket.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL) if size else None


def cold(wire: Wire, end_offset: int) -> Read:
    os.nice(10)
    began_s = time.monotonic()
    offset = size = 0
    while offset < end_offset:
        records = fetch(wire, COLD, offset, bytes_max=_FETCH_BYTES)["records"]
        for _, header in whole_batches(records):  # Which checks every CRC.
            assert header.base_offset == offset, f"a batch at {header.base_offset} where {offset} was due"
            offset = header.last_offset + 1
            size += header.size_bytes
    return Read(size, began_s, time.monotonic())


def main() -> None:
    kind, bootstrap, *limit = sys.argv[1:]
    if kind == "hot":
        with Wire(bootstrap, timeout_s=ANSWER_S_MAX) as wire:
            print(json.dumps(hot(wire)))
    else:
        with LeanWire(bootstrap) as wire:
            print(json.dumps(cold(wire, int(limit[0]))))


if __name__ == "__main__":
    main()
