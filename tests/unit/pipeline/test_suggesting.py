import json
from typing import Any

import pytest

from headrace.pipeline.declared import parse_declaration
from headrace.pipeline.suggesting import Suggestion


def suggest(*values: Any) -> tuple[dict[str, Any], list[str]]:
    suggestion = Suggestion()
    suggestion.show(value if isinstance(value, bytes) else json.dumps(value).encode() for value in values)
    return suggestion.declaration(), suggestion.remarks


def test_a_schema_is_proposed_that_can_be_declared() -> None:
    declared, remarks = suggest(
        {"page": "/a", "count": 1, "price": 1, "at": "2026-11-15T12:00:00Z", "day": "2026-11-15", "user": {"id": 1}},
        {"page": None, "count": 2, "price": 1.5, "paid": True, "tags": [], "user": {"name": "x"}},
        {"tags": ["a"]},
    )
    assert declared == {
        "page": "string",
        "count": "long",
        "price": "double",
        "at": "timestamp",
        "day": "date",
        "user": {"id": "long", "name": "string"},
        "paid": "boolean",
        "tags": ["string"],
    }
    assert not remarks
    assert parse_declaration(json.dumps(declared)) == declared


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2026-11-15", "soon"], "string"),
        (["2026-11-15T12:00:00Z", "2026-11-15"], "string"),
        (["2026-11-15T12:00:00"], "string"),
        ([1, 2.5], "double"),
    ],
)
def test_of_types_that_go_together_the_wider_is_proposed(values: list[Any], kind: str) -> None:
    assert suggest(*({"x": value} for value in values)) == ({"x": kind}, [])


def test_types_that_do_not_go_together_are_told_of() -> None:
    declared, remarks = suggest({"x": 1}, {"x": 2}, {"x": "a"})
    assert declared == {"x": "long"}
    assert remarks == ["x is long (2), string (1): those that are no long would be dead letters"]


def test_what_is_never_there_cannot_be_typed() -> None:
    assert suggest({"x": None, "y": [], "z": {}, "a": 1}) == (
        {"a": "long"},
        [f"{name} is always null or empty, and left out" for name in "xyz"],
    )


def test_values_that_are_no_json_are_told_of_once() -> None:
    declared, remarks = suggest(b"oops", b"oops", {"a": 1})
    assert declared == {"a": "long"}
    assert len(remarks) == 1
    assert remarks[0].startswith("some values would be dead letters: the value is not JSON")
