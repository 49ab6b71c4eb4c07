"""Clients that hold on to what they do not use: connections, memory, time."""

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.node_process import NodeProcess
from tests.hostile.frames import batch, produce
from tests.hostile.target import TOPIC, Wire, request_frame, resident_mb, under_attack

BUDGET_MB = 96  # memory.budget.bytes, by default.


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as process:
        yield process
        process.stop()


def connect(node: NodeProcess) -> socket.socket:
    host, port = node.bootstrap.rsplit(":", 1)
    return socket.create_connection((host, int(port)), 5)


def test_500_idle_connections_cost_little(node: NodeProcess) -> None:
    before_mb = resident_mb(node.pid)
    with under_attack(node):
        idle = [connect(node) for _ in range(500)]
        time.sleep(0.5)
        assert resident_mb(node.pid) - before_mb < 10
        for sock in idle:
            sock.close()


def test_slow_senders_hold_up_nobody(node: NodeProcess) -> None:
    frame = produce(batch())
    with under_attack(node):
        slow = [connect(node) for _ in range(50)]
        for position in range(60):
            for sock in slow:
                sock.send(frame[position : position + 1])
            time.sleep(0.01)
        for sock in slow:
            sock.close()


def test_announced_bytes_claim_no_memory(node: NodeProcess) -> None:
    """A hundred frames that announce 90 MB each and bring 64 KiB of it."""
    before_mb = resident_mb(node.pid)
    with under_attack(node):
        greedy = []
        for _ in range(100):
            wire = Wire(node.bootstrap)
            # Strangers get little room; after one good request the full size is allowed.
            wire.call(18, 0, {})
            wire.send(struct.pack(">i", 90_000_000) + b"\0\0\0\7\0\0\0\1" + b"\0" * 65536)
            greedy.append(wire)
        time.sleep(0.5)
        assert resident_mb(node.pid) - before_mb < 40
        for wire in greedy:
            wire.close()


def test_a_stranger_cannot_announce_much(node: NodeProcess) -> None:
    with connect(node) as sock:
        sock.send(struct.pack(">i", 90_000_000) + b"\0" * 100)
        assert sock.recv(1) == b""


def test_bytes_that_arrive_stay_within_the_budget(node: NodeProcess) -> None:
    """Twenty senders push 20 MB each of frames that never end: more than four times the budget."""
    before_mb = resident_mb(node.pid)
    with under_attack(node):
        greedy = []
        for _ in range(20):
            wire = Wire(node.bootstrap)
            wire.call(18, 0, {})
            wire.socket.settimeout(0.3)  # It is not going to take everything.
            greedy.append(wire)
        block = b"\0" * (1 << 20)
        for wire in greedy:
            wire.send(struct.pack(">i", 90_000_000))
        for _ in range(20):
            for wire in greedy:
                wire.send(block)
        taken_mb = resident_mb(node.pid) - before_mb
        for wire in greedy:
            wire.close()
    assert taken_mb < BUDGET_MB + 20


def test_readers_that_do_not_read_hold_no_memory(node: NodeProcess) -> None:
    """Fetches whose answers nobody takes: they wait in the page cache, not in the node."""
    with Wire(node.bootstrap) as wire:
        wire.call(3, 4, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": True})
        for _ in range(40):
            wire.send(produce(_large()))
            assert wire.receive() is not None
    before_mb = resident_mb(node.pid)
    asked = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50 << 20}]
    fetch = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "session_epoch": -1,
             "topics": [{"topic": TOPIC, "partitions": asked}]}  # fmt: skip
    with under_attack(node):
        deaf = [Wire(node.bootstrap) for _ in range(30)]
        for wire in deaf:
            for number in range(20):
                wire.send(request_frame(1, 11, fetch, correlation_id=number))
        time.sleep(0.5)
        assert resident_mb(node.pid) - before_mb < 20
        for wire in deaf:
            wire.close()


def _large() -> bytes:
    from headrace.protocol.records import Record, encode_batch

    return encode_batch([Record(None, b"x" * 900_000, (), 1_700_000_000_000)])
