"""Records leave by `sendfile`, straight from the page cache, and old data is read off the loop.

Needs strace for the first; the second needs a kernel that lets a file be dropped from the page cache.
"""

import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from headrace.protocol.records import Record, encode_batch
from headrace.testing.node_process import NodeProcess
from tests.clients.drivers import DRIVERS
from tests.clients.scenario import Message
from tests.hostile.target import Wire

VALUE_BYTES = 1000
_RETURNED = re.compile(r"(sendfile|sendmsg|sendto|write|writev)\(.*= (\d+)$")


def fill(node: NodeProcess, topic: str, *, messages: int) -> None:
    DRIVERS["confluent-kafka"].create_topic(node.bootstrap, topic, partitions=1)
    value = os.urandom(VALUE_BYTES)
    sent = (Message(None, value, (), 1_700_000_000_000) for _ in range(messages))
    DRIVERS["confluent-kafka"].produce(node.bootstrap, topic, {0: sent}, codec="none", acks="1")


def test_bulk_reads_are_carried_by_sendfile(node: NodeProcess, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    fill(node, "bulk", messages=60_000)
    trace = tmp_path / "strace.txt"
    calls = "trace=sendfile,sendmsg,sendto,write,writev"
    command = ["strace", "-f", "-e", calls, "-o", str(trace), "-p", str(node.pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as tracer:
        try:
            assert tracer.stderr is not None
            if b"attached" not in (line := tracer.stderr.readline()):
                pytest.skip(f"strace cannot attach: {line.decode().strip()}")
            found = DRIVERS["confluent-kafka"].consume(node.bootstrap, "bulk", 0, count=60_000)
        finally:
            tracer.terminate()
    assert len(found) == 60_000
    carried: dict[str, int] = {}
    for line in trace.read_text().splitlines():
        if match := _RETURNED.search(line):
            carried[match[1]] = carried.get(match[1], 0) + int(match[2])
    assert carried["sendfile"] >= 60_000 * VALUE_BYTES
    assert carried["sendfile"] / sum(carried.values()) >= 0.9, carried


def drop_from_cache(directory: Path) -> None:
    for path in directory.glob("*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def test_a_reader_of_cold_data_is_served_by_the_helper(node: NodeProcess) -> None:
    """What is not in the page cache still arrives, whole and in order, and the helper did the waiting."""
    fill(node, "cold", messages=100_000)
    drop_from_cache(node.data / "cold-0")
    found: list[Message] = []
    reading = threading.Thread(
        target=lambda: found.extend(DRIVERS["confluent-kafka"].consume(node.bootstrap, "cold", 0, count=100_000))
    )
    with Wire(node.bootstrap) as wire:
        wire.call(3, 4, {"topics": [{"name": "hot"}], "allow_auto_topic_creation": True})
        batch = encode_batch([Record(None, b"x", (), 1_700_000_000_000)])
        data = [{"name": "hot", "partition_data": [{"index": 0, "records": batch}]}]
        reading.start()
        while reading.is_alive():
            answer = wire.call(0, 7, {"acks": 1, "timeout_ms": 1000, "topic_data": data})
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
            time.sleep(0.001)
    reading.join()
    assert len(found) == 100_000
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    assert children, "no helper was started, so the loop itself waited for the device"
