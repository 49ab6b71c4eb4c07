"""The small text files at the root of a data directory, in Kafka's formats.

`recovery-point-offset-checkpoint` and its siblings map partitions to offsets; `meta.properties` names the
cluster and the node; `partition.metadata` names a partition's topic id.
"""

from collections.abc import Mapping
from typing import Final

from headrace.errors import ConfigError
from headrace.ids import TopicId, TopicName, TopicPartition, parse_topic_id, topic_id_text

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"

_CHECKPOINT_VERSION: Final = "0"


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [_CHECKPOINT_VERSION, str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(data: bytes | None) -> dict[TopicPartition, int]:
    """ValueError where the file is not a checkpoint; no file means no offsets."""
    if data is None:
        return {}
    version, count, *lines = data.decode().split("\n")
    if version != _CHECKPOINT_VERSION:
        raise ValueError(f"offset checkpoint of version {version!r}")
    offsets = {}
    for line in lines:
        if line:
            topic, partition, offset = line.split()
            offsets[TopicPartition(TopicName(topic), int(partition))] = int(offset)
    if len(offsets) != int(count):
        raise ValueError(f"{len(offsets)} offsets, {count} announced")
    return offsets


def encode_properties(properties: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    lines = (line.strip() for line in data.decode().splitlines())
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {topic_id_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes | None) -> TopicId | None:
    """The topic id; None where the file is missing or torn, which the catalogue can mend."""
    for line in (data or b"").decode("ascii", "replace").splitlines():
        name, _, value = line.partition(":")
        if name == "topic_id":
            try:
                return parse_topic_id(value.strip())
            except ValueError:
                return None
    return None


def parse_partition_directory(name: str) -> TopicPartition | None:
    """`orders-7` -> ("orders", 7); None for what is not a partition's directory."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isascii() or not partition.isdigit():
        return None
    return TopicPartition(TopicName(topic), int(partition))


def check_meta(properties: Mapping[str, str], *, path: str) -> None:
    """Refuse a directory written by a format that this program does not know."""
    version = properties.get("headrace.format", "1")
    if version != "1":
        raise ConfigError(
            f"{path} was written in format {version} of Headrace's data directory, this program knows format 1; "
            "use a newer headrace"
        )
