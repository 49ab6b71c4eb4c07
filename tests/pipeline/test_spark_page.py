"""The tables of options in docs/spark.md, held to the options that there are and to the tests that run them on both.

The page is the one table. What it names exists and runs the option that its row is about; whatever the code knows, and
every case in which we do not do as the official connector does, is on the page.
"""

import inspect
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.pipeline.client_options import REFUSED
from headrace.pipeline.options import LACKING, SINK, SOURCE
from tests.interop import test_official_connector as held

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
_REST = ("kafka.*", "*")  # What stands for all that no other row is about.


class Row(NamedTuple):
    options: tuple[str, ...]  # `*` stands for any text.
    tests: tuple[str, ...]


def read_rows(page: str) -> list[Row]:
    """A test's name may be left out before its case where it is that of the one before."""
    rows = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if not line.startswith("| ") or len(cells) != 3 or cells[0] in ("option", "---"):
            continue
        tests: list[str] = []
        for word in re.findall(r"`([^`]+)`", cells[2]):
            tests.append(tests[-1].partition("[")[0] + word if word.startswith("[") else word)
        rows.append(Row(tuple(re.findall(r"`([^`]+)`", cells[0])) or ("*",), tuple(tests)))
    return rows


ROWS = read_rows(_PAGE.read_text())
NAMED = {test for row in ROWS for test in row.tests}
CASES: Mapping[str, Collection[str]] = {
    **{f"test_source[{case.name}]": case.options for case in held.SOURCE},
    **{f"test_stream[{case.name}]": case.options for case in held.STREAMS},
    **{f"test_sink[{case.name}]": {*case.options, "mode"} for case in held.SINKS},
}


def sets(test: str, option: str) -> bool:
    """Whether a test has to do with an option: a case by what it sets, any other by its text."""
    if test in CASES:
        return any(fnmatchcase(given, option) for given in CASES[test])
    return option in inspect.getsource(getattr(held, test))


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 30
    assert Row(("topic",), ("test_sink_topic",)) in ROWS


@pytest.mark.parametrize("row", ROWS, ids=[", ".join(row.options) for row in ROWS])
def test_the_tests_of_a_row_are_there_and_set_its_options(row: Row) -> None:
    assert row.tests
    for test in row.tests:
        assert test in CASES or inspect.isfunction(getattr(held, test, None)), test
    for option in row.options:
        assert any(sets(test, option) for test in row.tests), option


def test_every_option_has_a_row() -> None:
    known = {*SOURCE, *SINK, *LACKING, *(f"kafka.{name}" for name in REFUSED)}
    told = {option for row in ROWS for option in row.options} - {*_REST}
    assert [option for option in sorted(known) if not any(fnmatchcase(option, each) for each in told)] == []
    ran = {option for test, options in CASES.items() if test not in NAMED for option in options}
    assert [option for option in sorted(ran) if not any(fnmatchcase(option, each) for each in told)] == []


def test_every_difference_is_on_the_page() -> None:
    differing = [
        *(f"test_source[{case.name}]" for case in held.SOURCE if case.both == "only we refuse" or case.tasks),
        *(f"test_stream[{case.name}]" for case in held.STREAMS if case.both == "only we refuse" or case.tasks),
        *(f"test_sink[{case.name}]" for case in held.SINKS if case.both == "only we refuse"),
    ]
    assert [test for test in differing if test not in NAMED] == []
