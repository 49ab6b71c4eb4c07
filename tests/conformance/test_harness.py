"""The harness itself: a difference cannot hide from it, and an excuse cannot outlive its cause."""

import io
import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from tests.conformance.batches import BASE_TIMESTAMP_MS, batch, split_batches
from tests.conformance.differences import Accepted
from tests.conformance.normal import Symbols, compare
from tests.conformance.run import Observed
from tests.oracle.toolbox import ToolMissing, without_tool

try:
    from tests.conformance.cases import CASES
    from tests.conformance.cases.frames import HARMLESS
    from tests.conformance.schemas import Field, Malformed, decode, encode, schema
except ToolMissing as missing:  # The schemas come with Kafka's jars.
    without_tool(missing)

MESSAGES = [
    (f"{api}{kind}", version)
    for api in HARMLESS
    for kind in ("Request", "Response")
    for version in range(schema(f"{api}{kind}").versions.first, schema(f"{api}{kind}").versions.last + 1)
]


def filled(fields: tuple[Field, ...], version: int, numbers: Iterator[int]) -> dict[str, Any]:
    """A value in every field that the version has, all of them different where they can be."""
    return {field.name: _filled(field, field.type, version, numbers) for field in fields if version in field.versions}


def _filled(field: Field, kind: str, version: int, numbers: Iterator[int]) -> Any:
    if kind.startswith("[]"):
        return [_filled(field, kind[2:], version, numbers) for _ in range(2)]
    number = next(numbers)
    match kind:
        case "bool":
            return True
        case "string":
            return f"text-{number}"
        case "bytes" | "records":
            return b"bytes-%d" % number
        case "uuid":
            return uuid.UUID(int=number)
        case "float64":
            return number / 2
        case "int8" | "int16" | "int32" | "int64" | "uint16" | "uint32":
            return number % 100
    return filled(field.fields, version, numbers)


@pytest.mark.parametrize(("message", "version"), MESSAGES)
def test_the_codec_agrees_with_an_independent_one(message: str, version: int) -> None:
    found = schema(message)
    values = filled(found.fields, version, itertools.count(1))
    data = encode(message, version, values)
    load = load_request_schema if message.endswith("Request") else load_response_schema
    theirs = load(found.api_key, version)
    written = io.BytesIO()
    entity, size = entity_reader(theirs)(data, 0)
    assert size == len(data)
    entity_writer(theirs)(written, entity)
    assert written.getvalue() == data
    assert decode(message, version, data) == (values, len(data))


def test_a_response_cut_short_is_malformed() -> None:
    data = encode("MetadataResponse", 12, filled(schema("MetadataResponse").fields, 12, itertools.count(1)))
    for size in range(len(data)):
        with pytest.raises(Malformed):
            decode("MetadataResponse", 12, data[:size])


def test_a_name_that_the_schema_does_not_know_is_refused() -> None:
    with pytest.raises(AssertionError, match="no field"):
        encode("MetadataRequest", 12, {"topic": []})


class FakeBroker:
    """A broker as far as the comparison looks at one."""

    def __init__(self, *, port: int = 9092, topics: dict[uuid.UUID, str] | None = None) -> None:
        self.host, self.port, self.node_id = "127.0.0.1", port, 1
        self.cluster_id, self.data_dir, self.met_ms = "cluster", "/data", BASE_TIMESTAMP_MS + 10_000
        self.epochs: tuple[int, ...] = ()
        self._topics = topics or {}

    def find_topic_name(self, topic_id: uuid.UUID) -> str | None:
        return self._topics.get(topic_id)


def normal(seen: dict[str, Any], **broker: Any) -> dict[str, Any]:
    symbols = Symbols(FakeBroker(**broker), topic="mine")  # type: ignore[arg-type]
    return symbols.normal(Observed("Metadata", 12, seen))


def paths(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    return [one.path for one in compare(normal(theirs), normal(ours))]


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 0}, {"a": None}, ["a"]),
        ({"a": []}, {"a": None}, ["a"]),
        ({"a": 1}, {}, ["a"]),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a[0]", "a[1]"]),
        ({"t": [{"name": "x", "v": 1}, {"name": "y"}]}, {"t": [{"name": "y"}, {"name": "x", "v": 1}]}, []),
        ({"t": [{"name": "x", "v": 1}]}, {"t": [{"name": "x", "v": 2}]}, ["t[x].v"]),
        ({"t": [{"name": "x", "v": 1}]}, {"t": []}, ["t[x]"]),
        ({"t": [{"name": "x"}]}, {"t": [{"name": "x"}, {"name": "x"}]}, ["t[x #2]"]),
        ({"trailing": b"x"}, {}, ["trailing"]),
    ],
)
def test_every_difference_is_found(theirs: dict[str, Any], ours: dict[str, Any], expected: list[str]) -> None:
    assert paths(theirs, ours) == expected


def test_what_must_differ_is_compared_by_what_it_ought_to_be() -> None:
    mine, other = uuid.UUID(int=7), uuid.UUID(int=8)
    theirs = normal({"port": 1000, "topic_id": mine}, port=1000, topics={mine: "t"})
    assert compare(theirs, normal({"port": 2000, "topic_id": other}, port=2000, topics={other: "t"})) == []
    wrong = compare(theirs, normal({"port": 2001, "topic_id": mine}, port=2000, topics={other: "t"}))
    assert [one.path for one in wrong] == ["port", "topic_id"]


def test_producer_ids_are_told_apart_but_not_compared() -> None:
    assert (
        paths({"a": {"producer_id": 5}, "b": {"producer_id": 6}}, {"a": {"producer_id": 1}, "b": {"producer_id": 2}})
        == []
    )
    assert paths({"a": {"producer_id": 5}, "b": {"producer_id": 6}}, {"a": {"producer_id": 1}, "b": {"producer_id": 1}})
    assert paths({"producer_id": 5}, {"producer_id": -1}) == ["producer_id"]


def test_records_are_compared_batch_by_batch() -> None:
    one, two = batch(2), batch(2, base_timestamp_ms=BASE_TIMESTAMP_MS + 1)
    assert paths({"records": one}, {"records": one}) == []
    found = paths({"records": one + one}, {"records": one + two})
    assert "records[1].base_timestamp_ms" in found
    assert not any(path.startswith("records[0]") for path in found)
    assert paths({"records": one}, {"records": one[:-1]}) != []
    assert [part["count"] for part in split_batches(one + two)] == [2, 2]


def test_an_excuse_covers_what_it_names_and_nothing_else() -> None:
    excuse = Accepted(case="Fetch/negative *", field="*partitions[*].error_code", reason="")
    assert excuse.covers("Fetch/negative wait", "responses[t].partitions[0].error_code")
    assert not excuse.covers("Fetch/read committed", "responses[t].partitions[0].error_code")
    assert not excuse.covers("Fetch/negative wait", "responses[t].partitions[0].high_watermark")


def test_no_two_cases_share_a_topic() -> None:
    names = [case.topic_name(version) for case in CASES for version in case.all_versions()]
    assert len(names) == len(set(names))
