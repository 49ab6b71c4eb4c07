"""The files of a partition, byte for byte as Apache Kafka 4.1.1 writes them for the same batches.

The golden partition is fed to a log of ours, batch by batch; what each then has on disk is compared.
"""

from pathlib import Path
from typing import Any

import pytest

from headrace.ids import TopicName, TopicPartition, parse_topic_id
from headrace.protocol.batch import whole_batches
from headrace.sim.disk import SimDisk
from headrace.sim.world import World
from headrace.storage.checkpoints import (
    decode_offsets,
    decode_partition_metadata,
    encode_offsets,
    encode_partition_metadata,
)
from headrace.storage.epochs import LeaderEpochs
from headrace.storage.loading import load_log
from headrace.storage.log import Appended
from headrace.storage.producers import Producers
from tests.golden.storage.files import GOLDEN, INDEX_INTERVAL_BYTES, SEGMENT_MS, TOPIC
from tests.unit.storage.logs import DIRECTORY, LogStage, Settings, read_batches

PARTITION = GOLDEN / f"{TOPIC}-0"
SETTINGS: dict[str, Any] = {"index_interval_bytes": INDEX_INTERVAL_BYTES, "segment_ms": SEGMENT_MS}
BASES = sorted(int(path.stem) for path in PARTITION.glob("*.log"))


def golden(base_offset: int, suffix: str) -> bytes:
    return (PARTITION / f"{base_offset:020d}{suffix}").read_bytes()


@pytest.fixture(scope="module")
def written() -> LogStage:
    """Our log after the golden batches were appended to it, stopped and started where Kafka was."""
    stage = LogStage(**SETTINGS)
    epoch = 0
    for base in BASES:
        data = golden(base, ".log")
        for position, header in whole_batches(data):
            if header.leader_epoch > epoch:
                epoch = header.leader_epoch
                stage.stop()
            sent = bytearray(data[position : position + header.size_bytes])
            sent[:8] = bytes(8)
            written = stage.append(bytes(sent), epoch=epoch)
            assert isinstance(written, Appended)
            assert written.base_offset == header.base_offset
    stage.log.close()
    return stage


def test_the_golden_partition_is_worth_comparing() -> None:
    assert len(BASES) == 4
    assert sum(len(golden(base, ".index")) // 8 for base in BASES) > 30


def test_segments_roll_where_kafkas_do(written: LogStage) -> None:
    assert [segment.base_offset for segment in written.log.segments] == BASES


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
@pytest.mark.parametrize("base_offset", BASES)
def test_files_are_kafkas(written: LogStage, base_offset: int, suffix: str) -> None:
    assert written.content(base_offset, suffix) == golden(base_offset, suffix)


def test_leader_epochs_are_kafkas(written: LogStage) -> None:
    data = (PARTITION / "leader-epoch-checkpoint").read_bytes()
    assert written.disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == data
    assert LeaderEpochs.decode(data).encode() == data


@pytest.mark.parametrize("path", sorted(PARTITION.glob("*.snapshot")), ids=lambda path: path.stem.lstrip("0"))
def test_producer_snapshots_are_kafkas(written: LogStage, path: Path) -> None:
    data = path.read_bytes()
    theirs = Producers.decode(data)
    assert len(theirs) == 2
    assert theirs.encode() == data
    # Ours remembers more batches of each producer; the last of them is what Kafka writes.
    ours = Producers.decode(written.disk.read_file(f"{DIRECTORY}/{path.name}") or b"").statistics()
    assert theirs.statistics().items() <= ours.items()


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"])
def test_offset_checkpoints_are_kafkas(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    assert decode_offsets(data) == {TopicPartition(TopicName(TOPIC), 0): 300}
    assert encode_offsets(decode_offsets(data)) == data


def test_partition_metadata_is_kafkas() -> None:
    data = (PARTITION / "partition.metadata").read_bytes()
    topic_id = decode_partition_metadata(data)
    assert topic_id == parse_topic_id(data.decode()[-22:])
    assert encode_partition_metadata(topic_id) == data


@pytest.mark.parametrize("clean", [True, False])
def test_a_partition_of_kafkas_is_opened_and_read(clean: bool) -> None:
    disk = SimDisk(World(1))
    disk.make_dir(DIRECTORY)
    for path in PARTITION.iterdir():
        disk.open(f"{DIRECTORY}/{path.name}", create=True).append((path.read_bytes(),))
    settings, point = Settings(**SETTINGS), 300 if clean else 0
    log, recovery = load_log(disk, DIRECTORY, settings, clean=clean, recovery_point=point, start_offset=0, now_ms=1)
    assert (log.start_offset, log.end_offset) == (0, 300)
    assert recovery.bytes_scanned == (0 if clean else log.size_bytes)
    assert (recovery.bytes_cut, recovery.quarantined) == (0, ())
    expected = [header for base in BASES for _, header in whole_batches(golden(base, ".log"))]
    assert read_batches(log) == expected
    log.close()
    for path in PARTITION.iterdir():
        if path.suffix != ".snapshot":
            assert disk.read_file(f"{DIRECTORY}/{path.name}") == path.read_bytes(), path.name
