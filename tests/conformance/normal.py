"""Making two brokers' answers comparable, and comparing them field by field.

What must differ between two brokers (their ids, ports, clocks, disks) is replaced by a name for it, and only
where it is exactly what that broker ought to say: a wrong port stays a number and is a difference. A list whose
items carry an identity is compared item by item whatever its order; Kafka's own order comes from hash maps.
"""

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.errors import ErrorCode
from tests.conformance.batches import split_batches
from tests.conformance.broker import Broker
from tests.conformance.run import Observed
from tests.conformance.schemas import Message

# What tells the items of a list apart, wherever it occurs.
_IDENTITY = (
    "api_key",
    "name",
    "topic_name",
    "topic",
    "topic_id",
    "partition_index",
    "partition",
    "index",
    "node_id",
    "broker_id",
    "resource_type",
    "resource_name",
    "log_dir",
    "group_id",
    "key",
    "member_id",
)
_NODE_FIELDS = {"node_id", "broker_id", "leader_id", "controller_id", "replica_nodes", "isr_nodes", "replicas", "isr"}
_EPOCH_FIELDS = {"leader_epoch", "epoch"}
_BYTES_OF_DISK = {"total_bytes", "usable_bytes"}
_CLOCK_SLACK_MS = 2_000
# Groups and transactions make these when first used; when that is does not matter here.
_INTERNAL_TOPICS = {"__consumer_offsets", "__transaction_state", "__share_group_state"}

_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
# Kafka explains a refused timestamp by the range that its clock allows.
_CLOCK_IN_WORDS = re.compile(r"within \[-?\d+, -?\d+\]")

# What coordinators call members that do not name themselves ends so.
_MEMBER_ID = re.compile(r".*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_MISSING = "(not there)"


@dataclass(frozen=True, slots=True)
class Difference:
    path: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.path}: apache {_shown(self.path, self.theirs)}, headrace {_shown(self.path, self.ours)}"


def _shown(path: str, value: Any) -> str:
    if path.endswith("error_code") and isinstance(value, int):
        return f"{value} {ErrorCode(value).name}"
    return repr(value)[:300]


class Symbols:
    """One broker's names for what only it can know, given out in order of appearance within one case."""

    def __init__(self, broker: Broker, *, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._given: dict[tuple[str, object], str] = {}

    def normal(self, observed: Observed) -> dict[str, Any]:
        """The answer as paths and comparable values, the same for every version of the case where it can be."""
        flat = _flat("", self._value("", observed.seen))
        return {self._unnamed(path): self._unnamed(value) for path, value in flat}

    def _unnamed(self, value: Any) -> Any:
        return value.replace(self._topic, "$topic") if isinstance(value, str) else value

    def _value(self, name: str, value: Any) -> Any:
        match value:
            case dict():
                return self._struct(value)
            case list():
                items = [self._value(name, one) for one in value]
                return [one for one in items if not (isinstance(one, dict) and _is_internal(one))]
            case uuid.UUID():
                return self._topic_id(value)
            case bytes() if name == "records":
                return [self._batch(one) for one in split_batches(value)]
            case bytes():
                return value.hex()
            case bool() | None:
                return value
            case int():
                return self._number(name, value)
            case str():
                return self._text(name, value)
        return value

    def _struct(self, values: Message) -> Message:
        return {name: self._value(name, value) for name, value in values.items()}

    def _batch(self, values: Message) -> Message:
        normal = self._struct(values)
        if normal.get("max_timestamp_ms") == "$now" and values["crc_is_right"]:
            normal["crc"] = "$stamped"
        return normal

    def _topic_id(self, value: uuid.UUID) -> str:
        if value.int == 0:
            return "$none"
        name = self._broker.find_topic_name(value)
        return f"$id of {name}" if name is not None else self._first_seen("uuid", value)

    def _number(self, name: str, value: int) -> Any:
        if name in _NODE_FIELDS and value == self._broker.node_id:
            return "$node"
        if name == "port" and value == self._broker.port:
            return "$port"
        if name in _BYTES_OF_DISK and value > 0:
            return "$positive"
        if name in _EPOCH_FIELDS and value in self._broker.epochs:
            return f"$epoch{self._broker.epochs.index(value)}"
        if name == "finalized_features_epoch" and value >= 0:
            return "$epoch"
        if ("timestamp" in name or "append_time" in name) and self._is_recent(value):
            return "$now"
        if name == "producer_id" and value >= 0:
            return self._first_seen("producer", value)
        if name == "session_id" and value > 0:
            return self._first_seen("session", value)
        return value

    def _is_recent(self, time_ms: int) -> bool:
        """Stamped by the broker's clock during this run; every timestamp that we send is from another time."""
        return self._broker.met_ms - _CLOCK_SLACK_MS < time_ms < time.time() * 1000 + _CLOCK_SLACK_MS

    def _text(self, name: str, value: str) -> str:
        if name == "cluster_id" and value == self._broker.cluster_id:
            return "$cluster"
        if name == "host" and value == self._broker.host:
            return "$host"
        if name == "log_dir" and value == self._broker.data_dir:
            return "$data"
        if name in ("member_id", "leader") and _MEMBER_ID.fullmatch(value):
            return self._first_seen("member", value)
        if name == "value":
            return _ADDRESS.sub("$address", value.replace(self._broker.data_dir, "$data"))
        return _CLOCK_IN_WORDS.sub("within [$range]", value) if name.endswith("message") else value

    def _first_seen(self, kind: str, value: object) -> str:
        numbered = sum(1 for known, _ in self._given if known == kind)
        return self._given.setdefault((kind, value), f"${kind}{numbered}")


def _is_internal(item: Message) -> bool:
    return any(item.get(field) in _INTERNAL_TOPICS for field in ("name", "topic", "topic_name"))


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _flat(f"{path}.{name}" if path else name, one)
    elif isinstance(value, list):
        yield path, "(list)"
        for label, one in _labelled(value):
            yield from _flat(f"{path}[{label}]", one)
    else:
        yield path, value


def _labelled(items: list[Any]) -> Iterator[tuple[str, Any]]:
    """Items with what identifies them, or else with their position; twins are numbered."""
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        label = str(index)
        if isinstance(item, dict):
            parts = [str(item[field]) for field in _IDENTITY if field in item and not isinstance(item[field], list)]
            label = " ".join(parts) or label
        seen[label] = seen.get(label, 0) + 1
        yield (label if seen[label] == 1 else f"{label} #{seen[label]}"), item


def compare(theirs: dict[str, Any], ours: dict[str, Any]) -> list[Difference]:
    """Differences in path order. An item that only one side has is one difference, not one for each field."""
    found = [
        Difference(path, theirs.get(path, _MISSING), ours.get(path, _MISSING))
        for path in sorted(theirs.keys() | ours.keys())
        if theirs.get(path, _MISSING) != ours.get(path, _MISSING)
    ]
    return _merged(found, theirs, ours)


def _merged(found: list[Difference], theirs: dict[str, Any], ours: dict[str, Any]) -> list[Difference]:
    merged: list[Difference] = []
    for one in found:
        lonely = _lonely_item(one, theirs, ours)
        if lonely is None:
            merged.append(one)
        elif lonely not in merged:
            merged.append(lonely)
    return merged


def _lonely_item(one: Difference, theirs: dict[str, Any], ours: dict[str, Any]) -> Difference | None:
    """The outermost list item around a field that exists on one side only, if the whole item does."""
    if one.theirs != _MISSING and one.ours != _MISSING:
        return None
    other = theirs if one.theirs == _MISSING else ours
    for end in (index + 1 for index, letter in enumerate(one.path) if letter == "]"):
        item = one.path[:end]
        if not any(path.startswith(item) for path in other):
            there = "(there)"
            return Difference(item, *((_MISSING, there) if one.theirs == _MISSING else (there, _MISSING)))
    return None
