"""What introspection shows of a broker: values, taken at one moment, that do not change afterwards."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.protocol.records import Record


class Producer(NamedTuple):
    """An idempotent producer as one partition remembers it."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One partition: where it begins and ends, and its records. Iterating, indexing and `len` are about the records."""

    topic: str
    partition: int
    start_offset: int
    high_watermark: int
    end_offset: int
    size_bytes: int
    segments: int
    leader_epoch: int
    offline: str | None  # Why it serves no longer, after a disk error.
    producers: tuple[Producer, ...]
    records: "tuple[Record, ...]"

    def __iter__(self) -> "Iterator[Record]":
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> "Record":
        return self.records[index]

    @property
    def keys(self) -> list[bytes | None]:
        return [record.key for record in self.records]

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    # Partitions by topic; None where the members of the group do not speak the consumers' protocol.
    assignment: Mapping[str, tuple[int, ...]] | None


class Committed(NamedTuple):
    offset: int
    metadata: str
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    group_id: str
    state: str  # As Kafka names it: Empty, PreparingRebalance, CompletingRebalance, Stable.
    generation: int
    protocol_type: str | None
    protocol: str | None  # Which assignor: range, cooperative-sticky and so on.
    leader_id: str | None
    members: tuple[Member, ...]
    offsets: Mapping[tuple[str, int], Committed]  # By topic and partition.


class Traffic(NamedTuple):
    messages_in: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    connections: int
    connections_accepted: int
    protocol_errors: int
    memory_used_bytes: int
    fetch_sessions: int
    requests: Mapping[str, int]  # By API, under Kafka's names, since the broker was started.
    topics: Mapping[str, Traffic]
