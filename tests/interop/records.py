"""The records that every client sends, and the hashes that every client must find.

A scenario is one topic's worth of records with the way to send them. What a client cannot say (kcat has no
timestamps) is left out of what it is asked to say, never out of what is compared.
"""

import base64
import hashlib
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

PARTITIONS = 3
_BASE_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    partition: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "key": _base64(self.key),
            "value": _base64(self.value),
            "headers": [[name, _base64(value)] for name, value in self.headers],
            "timestamp": self.timestamp_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    records: Sequence[Record]
    codec: str = "none"
    acks: str = "all"


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def hashes(records: Sequence[Record], *, timestamps: bool) -> dict[str, dict[str, Any]]:
    """What consuming each partition from its beginning must report."""
    return {str(partition): _hash(records, partition, timestamps=timestamps) for partition in range(PARTITIONS)}


def _hash(records: Sequence[Record], partition: int, *, timestamps: bool) -> dict[str, Any]:
    digest = hashlib.sha256()
    mine = [record for record in records if record.partition == partition]
    for record in mine:
        digest.update(_sized(record.key) + _sized(record.value) + struct.pack(">i", len(record.headers)))
        for name, value in record.headers:
            digest.update(_sized(name.encode()) + _sized(value))
        digest.update(struct.pack(">q", (record.timestamp_ms or 0) if timestamps else 0))
    last = len(mine) - 1
    return {"count": len(mine), "first": 0 if mine else -1, "last": last, "sha256": digest.hexdigest()}


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def without_timestamps(records: Sequence[Record]) -> list[Record]:
    return [replace(record, timestamp_ms=None) for record in records]


def _many(seed: int, *, count: int = 300) -> list[Record]:
    """Small records, some alike and some random, so that a codec has work to do."""
    chance = random.Random(seed)
    return [
        Record(
            partition=chance.randrange(PARTITIONS),
            key=f"key-{index % 17}".encode(),
            value=chance.choice([chance.randbytes(100), b"the same words again " * chance.randrange(1, 20)]),
            timestamp_ms=_BASE_MS + index,
        )
        for index in range(count)
    ]


def _large(seed: int) -> list[Record]:
    chance = random.Random(seed)
    return [
        Record(partition=0, key=b"large", value=chance.randbytes(900_000), timestamp_ms=_BASE_MS + index)
        for index in range(3)
    ]


_NULLS = [
    Record(partition=0, key=key, value=value, timestamp_ms=_BASE_MS)
    for key in (None, b"", b"key")
    for value in (None, b"", b"value")
]
_HEADERS = [
    Record(partition=0, key=b"1", value=b"one", headers=(("trace", b"abc"),), timestamp_ms=_BASE_MS),
    Record(
        partition=0, key=b"2", value=b"twice", headers=(("a", b"1"), ("a", b"2"), ("b", b"3")), timestamp_ms=_BASE_MS
    ),
    Record(partition=0, key=b"3", value=b"none", timestamp_ms=_BASE_MS),
    Record(partition=0, key=b"4", value=b"empty", headers=(("e", b""), ("f", b"x")), timestamp_ms=_BASE_MS),
    Record(partition=0, key=b"5", value=b"null", headers=(("n", None), ("o", b"x")), timestamp_ms=_BASE_MS),
    Record(partition=0, key=b"6", value=b"binary", headers=(("bin", bytes(range(128, 256))),), timestamp_ms=_BASE_MS),
]
_TIMES_MS = (_BASE_MS, 1, _BASE_MS + 5000, 1_600_000_000_123, _BASE_MS + 4999, _BASE_MS + 5000)
_TIMESTAMPS = [Record(partition=0, value=b"%d" % time_ms, timestamp_ms=time_ms) for time_ms in _TIMES_MS]

SCENARIOS: dict[str, Scenario] = {
    **{
        f"codec-{codec}": Scenario(records=_many(seed), codec=codec)
        for seed, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd"))
    },
    "acks-1": Scenario(records=_many(11), acks="1"),
    "acks-0": Scenario(records=_many(12, count=50), acks="0"),
    "nulls": Scenario(records=_NULLS),
    "headers": Scenario(records=_HEADERS),
    "timestamps": Scenario(records=_TIMESTAMPS, codec="gzip"),
    "large": Scenario(records=_large(21)),
    "large-compressed": Scenario(records=_large(22), codec="zstd"),
}
