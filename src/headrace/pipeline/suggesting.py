"""A declared schema proposed from a sample of records, for a person to read and correct.

A type is proposed only where every value of the sample has it; where two do not go together, the more frequent one is
proposed and the conflict told, since the others would become dead letters.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime
from typing import Any, Final

from headrace.columnar import Scan
from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.declared import Mismatch
from headrace.pipeline.json_decoding import decode_value
from headrace.wire.cluster import Cluster
from headrace.wire.offsets import EARLIEST, LATEST, list_offsets
from headrace.wire.settings import ClientSettings

_SAMPLE_RECORDS: Final = 1_000


class Suggestion:
    """Shown values one by one; `declaration` is what they have in common, `remarks` what they have not."""

    def __init__(self) -> None:
        self.records = 0
        self.remarks: list[str] = []
        self._unreadable = 0
        self._objects = _Objects()

    def show(self, values: Iterable[bytes | None]) -> None:
        for value in values:
            self.records += 1
            try:
                self._objects.show(decode_value(value, lambda parsed, path: parsed))
            except (Mismatch, RecursionError) as trouble:
                self._unreadable += 1
                if self._unreadable == 1:
                    self.remarks.append(f"some values would be dead letters: {trouble}")

    def declaration(self) -> dict[str, Any]:
        return self._objects.kind("", self.remarks)


class _Objects:
    """The fields of all objects that were found in one place."""

    def __init__(self) -> None:
        self._fields: dict[str, _Values] = {}

    def show(self, parsed: dict[str, Any]) -> None:
        for name, value in parsed.items():
            self._fields.setdefault(name, _Values()).show(value)

    def kind(self, path: str, remarks: list[str]) -> dict[str, Any]:
        found = {}
        for name, values in self._fields.items():
            where = f"{path}.{name}" if path else name
            if (kind := values.kind(where, remarks)) is not None:
                found[name] = kind
            else:
                remarks.append(f"{where} is always null or empty, and left out")
        return found


class _Values:
    """All values of one field."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._objects = _Objects()
        self._elements: _Values | None = None

    def show(self, value: Any) -> None:
        match value:
            case None:
                return
            case dict():
                self._kinds["object"] += 1
                self._objects.show(value)
            case list():
                self._kinds["array"] += 1
                self._elements = self._elements or _Values()
                for each in value:
                    self._elements.show(each)
            case _:
                self._kinds[_plain_kind(value)] += 1

    def kind(self, path: str, remarks: list[str]) -> Any:
        kinds = self._kinds
        # Of types that go together, the wider.
        for narrow, wide in (("long", "double"), ("date", "string"), ("timestamp", "string")):
            if kinds[narrow] and (kinds[wide] or (wide == "string" and kinds["date"] and kinds["timestamp"])):
                kinds[wide] += kinds.pop(narrow)
        present = [kind for kind, count in kinds.most_common() if count]
        if not present:
            return None
        if len(present) > 1:
            told = ", ".join(f"{kind} ({kinds[kind]})" for kind in present)
            remarks.append(f"{path} is {told}: those that are no {present[0]} would be dead letters")
        match present[0]:
            case "object":
                return self._objects.kind(path, remarks) or None
            case "array":
                inner = self._elements.kind(f"{path}[]", remarks) if self._elements else None
                return None if inner is None else [inner]
            case plain:
                return plain


def _plain_kind(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "long"
        case float():
            return "double"
    for kind, parse in (("date", date.fromisoformat), ("timestamp", datetime.fromisoformat)):
        try:
            found = parse(value)
        except ValueError:
            continue
        if kind == "date" or getattr(found, "tzinfo", None) is not None:
            return kind
    return "string"


def sample(settings: ClientSettings, topics: Sequence[str]) -> Iterator[bytes | None]:
    """The values of the last records of each partition, a thousand of each at most."""
    with Cluster(settings) as cluster:
        places = [TopicPartition(TopicName(name), number) for name in topics for number in cluster.partitions(name)]
        earliest = list_offsets(cluster, dict.fromkeys(places, EARLIEST))
        ends = list_offsets(cluster, dict.fromkeys(places, LATEST), read_committed=True)
    for place in places:
        end = ends[place].offset
        first = max(earliest[place].offset, end - _SAMPLE_RECORDS)
        with closing(
            Scan(settings, {place.topic: [place.partition]}, start=first, end=end, columns=["value"], missing="skip")
        ) as scan:
            for batch in scan:
                yield from batch.column("value").to_pylist()


def declaration_text(declaration: dict[str, Any]) -> str:
    return json.dumps(declaration, indent=2, ensure_ascii=False)
