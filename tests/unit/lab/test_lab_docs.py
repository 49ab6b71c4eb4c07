"""The examples of docs/lab.md are files that can be run, and its table has every key."""

import re
from pathlib import Path

import pytest

from headrace.lab.documents import parse_document
from headrace.lab.targets.spec import BUILT_IN, KINDS, find_target, parse_target
from headrace.lab.workload import KEYS, parse_workload

TEXT = (Path(__file__).parents[3] / "docs" / "lab.md").read_text()
EXAMPLES = [parse_document(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)]


def test_there_are_examples_of_both() -> None:
    assert {"kind" in example for example in EXAMPLES} == {True, False}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: next(iter(example)))
def test_an_example_can_be_read(example: dict[str, object]) -> None:
    if "kind" in example:
        assert parse_target(example, name="example").kind in KINDS
    else:
        assert parse_workload(example, name="example").cells


def test_every_key_has_its_line() -> None:
    table = TEXT[TEXT.index("## Workloads") : TEXT.index("## Targets")]
    assert set(KEYS) <= set(re.findall(r"`(\w+)`", table))


def test_every_name_of_a_target_is_one() -> None:
    table = TEXT[TEXT.index("## Targets") : TEXT.index("```yaml\n# three-brokers.yaml")]
    named = re.findall(r"`([a-z][a-z0-9-]*)`", table)
    assert set(named) == set(BUILT_IN)
    for name in named:
        assert find_target(name).name == name
