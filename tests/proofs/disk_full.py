"""A disk that fills up, and room that appears again.

The data directory is on a small file system of its own, in turn one in memory and an ext4 on a loop device, half of
whose space a ballast file takes. An idempotent producer and a bare client write until nothing fits any more; the disk
stays full for a while; in every other pair of rounds the node is killed and started meanwhile; then the ballast goes.
Needs the right to mount.
"""

import itertools
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from headrace.errors import ErrorCode
from headrace.protocol.records import Record, encode_batch
from headrace.testing.node_process import NodeProcess
from tests.hostile.target import Wire
from tests.oracle.toolbox import ToolMissing, require_tool, run_checked
from tests.proofs.ledger import Anomaly, Ledger, Place, encode_message
from tests.proofs.nodes import START_S_MAX, connect, running
from tests.proofs.proof import Facts, Slice
from tests.proofs.readback import Reading, create_topic, wait_visible
from tests.proofs.writer import Watch, Writer, wait_delivered

DISK_BYTES: Final = 48 << 20
BALLAST_BYTES: Final = 24 << 20
LOAD_BYTES: Final = 30 << 20  # More than fits beside the ballast, less than fits without it.
WRITTEN: Final = tuple(Place("written", partition) for partition in range(2))
PROBED: Final = Place("probed", 0)
PLACES: Final = (*WRITTEN, PROBED)
_PRODUCER, _PROBER = 0, 1
_PROBE_BYTES: Final = 100_000
_PROBE_EVERY_S: Final = 0.1
_FULL_S: Final = 2.0
_RECOVERY_S_MAX: Final = 60.0


def check_mounts() -> None:
    require_tool("mkfs.ext4", hint="the Debian package is e2fsprogs")
    if os.geteuid() != 0:
        raise ToolMissing("a small file system can be mounted by root alone")
    with tempfile.TemporaryDirectory(prefix="headrace-mount-") as directory:
        mount_point = Path(directory) / "mount"
        mount_point.mkdir()
        try:
            with _mounted(mount_point, Path(directory) / "image", kind="ext4"):
                pass
        except RuntimeError as error:
            raise ToolMissing(f"no small file system can be mounted here: {error}") from error


def run(work: Slice) -> Facts:
    counts: Facts = {}
    for number in work.each():
        directory = work.scratch / str(number)
        directory.mkdir()
        with _mounted(directory, work.scratch / f"{number}.image", kind=("tmpfs", "ext4")[number % 2]):
            full = _FullDisk(directory, random.Random(f"disk-full {number}"), kill_while_full=number % 4 >= 2)
            with running(full.node):
                full.round()
            for name, count in full.counts.items():
                counts[name] = counts.get(name, 0) + count
        directory.rmdir()
    return counts


@contextmanager
def _mounted(directory: Path, image: Path, *, kind: str) -> Iterator[None]:
    if kind == "tmpfs":
        run_checked(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", directory])
    else:
        with image.open("wb") as file:
            file.truncate(DISK_BYTES)
        run_checked(["mkfs.ext4", "-q", "-F", "-m", "0", image])
        run_checked(["mount", "-o", "loop", image, directory])
    try:
        yield
    finally:
        _unmount(directory)
        image.unlink(missing_ok=True)


def _unmount(directory: Path) -> None:
    # A killed node's helper lets go of its files a moment later.
    for attempt in itertools.count():
        done = subprocess.run(["umount", directory], capture_output=True)
        if done.returncode == 0:
            return
        if attempt == 50:
            raise RuntimeError(f"{directory} stays mounted: {done.stderr.decode(errors='replace').strip()}")
        time.sleep(0.1)


class _FullDisk:
    def __init__(self, directory: Path, chance: random.Random, *, kill_while_full: bool) -> None:
        self._chance = chance
        self._kill_while_full = kill_while_full
        self._ballast = directory / "ballast"
        self._ledger = Ledger()
        self._readings = {place: Reading(place) for place in PLACES}
        self.counts: Facts = dict.fromkeys(("refused", "read_while_full", "kills"), 0)
        settings = {"log.flush.offset.checkpoint.interval.ms": "300"}
        if chance.random() < 0.5:
            settings["log.flush.interval.messages"] = "1"
        self.node = NodeProcess(directory / "data", settings=settings)
        # Small ones make new files while there is no room for them; a large one makes none.
        self._segment_bytes = chance.choice((1 << 20, 1 << 30))

    def round(self) -> None:
        self._put_ballast()
        with connect(self.node) as wire:
            settings = {"internal.segment.bytes": str(self._segment_bytes)}
            assert create_topic(wire, WRITTEN[0].topic, partitions=len(WRITTEN), settings=settings) == 0
            assert create_topic(wire, PROBED.topic, partitions=1, settings=settings) == 0
            writer = Writer(_PRODUCER, self.node.bootstrap, self._ledger, {"batch.size": 200_000})
            self._fill(wire, writer)
        if self._kill_while_full:
            self.node.kill()
            self.counts["kills"] += 1
            self.node.start(timeout_s=START_S_MAX)
        with connect(self.node) as wire:
            self._stay_full(wire, writer)
            self._ballast.unlink()
            self._wait_for_room(wire)
            wait_delivered([writer])
            assert not self.node.has_ended  # It came back without being started again.
            wait_visible(wire, self._ledger_ends())
            self._verify(wire)
        self._restart()
        with connect(self.node) as wire:
            code, text = self._probe(wire)
            if code != 0:
                raise Anomaly(f"after a restart with room on the disk {PROBED} answered {code} ({text})")
            self._verify(wire)
        self.node.stop()
        self.counts["messages_acknowledged"] = self._ledger.acknowledged
        self.counts["messages_found"] = self._ledger.found

    def _put_ballast(self) -> None:
        with self._ballast.open("wb") as file:
            for _ in range(BALLAST_BYTES >> 20):
                file.write(bytes(1 << 20))
            os.fsync(file.fileno())

    def _fill(self, wire: Wire, writer: Writer) -> None:
        """Send everything, and go on until a bare client has been refused a few times in a row."""
        left_bytes, refusals, probed_s = LOAD_BYTES, 0, 0.0
        watch = Watch("acknowledged, and the disk not yet full")
        while left_bytes > 0 or refusals < 3:
            size = self._chance.randrange(500, 4000)
            if left_bytes > 0 and writer.send(self._chance.choice(WRITTEN), size=size):
                left_bytes -= size
            else:
                writer.poll(0.01)
            if time.monotonic() - probed_s > _PROBE_EVERY_S:
                code, _ = self._probe(wire)
                refusals = refusals + 1 if code else 0
                probed_s = time.monotonic()
            watch.saw(writer.acknowledged)

    def _stay_full(self, wire: Wire, writer: Writer) -> None:
        """Readers are served everything acknowledged, and writers hear the same answer all along."""
        until_s = time.monotonic() + _FULL_S
        while time.monotonic() < until_s:
            writer.poll(0.05)
            self._probe(wire)
        if not writer.outstanding:
            raise Anomaly("the disk was to be full, and took everything")
        self._verify(wire)
        self.counts["read_while_full"] += self._ledger.found

    def _wait_for_room(self, wire: Wire) -> None:
        give_up_s = time.monotonic() + _RECOVERY_S_MAX
        while (refusal := self._probe(wire))[0] != 0:
            if time.monotonic() > give_up_s:
                raise Anomaly(f"there has been room for {_RECOVERY_S_MAX:.0f} s, and the answer is still {refusal}")
            time.sleep(0.1)

    def _probe(self, wire: Wire) -> tuple[int, str | None]:
        """One write, whose refusal must be one that producers retry, in words that people understand."""
        message = self._ledger.send(_PROBER, PROBED)
        batch = encode_batch([Record(None, encode_message(message, size=_PROBE_BYTES), (), 1_700_000_000_000)])
        data = [{"name": PROBED.topic, "partition_data": [{"index": PROBED.partition, "records": batch}]}]
        answer = wire.call(0, 8, {"acks": -1, "timeout_ms": 30_000, "topic_data": data})
        row = answer["responses"][0]["partition_responses"][0]
        code, text = row["error_code"], row["error_message"]
        if code == 0:
            self._ledger.acknowledge(message, PROBED, row["base_offset"])
        elif code == ErrorCode.KAFKA_STORAGE_ERROR and "No room on the disk" in text:
            self.counts["refused"] += 1
        else:
            raise Anomaly(f"on a full disk a producer was told {code}: {text}")
        return code, text

    def _restart(self) -> None:
        if self._chance.random() < 0.5:
            self.node.kill()
            self.counts["kills"] += 1
        else:
            self.node.stop(timeout_s=START_S_MAX)
        self.node.start(timeout_s=START_S_MAX)

    def _verify(self, wire: Wire) -> None:
        for place, reading in self._readings.items():
            reading.read(wire, partial(self._ledger.find, place))
            self._ledger.check_complete(place)

    def _ledger_ends(self) -> dict[Place, int]:
        return {place: count for place, count in self._ledger.count_sent().items() if place != PROBED}
