"""Which repeats of a workload are made, whatever becomes of one of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.lab import running
from headrace.lab.errors import LabError
from headrace.lab.results import RepeatLine, Results
from headrace.lab.running import run_workload
from headrace.lab.targets.spec import find_target
from headrace.lab.workload import Cell, parse_workload

SHORT, DIED, AWAY = "consumers got 900 of 1,000 messages", "node died", "cannot reach b:1"


@dataclass
class FakeTarget:
    """It has no members, so that nobody misses them."""

    is_dead: bool = False
    keeps_messages: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    members: tuple[Any, ...] = ()

    def trouble(self) -> str | None:
        return DIED if self.is_dead else None


def run(out: Path, monkeypatch: pytest.MonkeyPatch, partial: dict[tuple[str, int], str]) -> Results:
    """Two cells of two repeats, of which some are partial."""
    target = FakeTarget()

    @contextmanager
    def started(*_: object, **__: object) -> Iterator[FakeTarget]:
        yield target

    def run_repeat(cell: Cell, repeat: int, target: FakeTarget, **_: object) -> RepeatLine:
        why = partial.get((cell.values["acks"], repeat))
        if why == AWAY:
            raise LabError(AWAY)
        target.is_dead = why == DIED
        return RepeatLine(cell=cell.values, repeat=repeat, metrics={"rate_per_s": 1.0}, partial=why)

    monkeypatch.setattr(running, "running", started)
    monkeypatch.setattr(running, "run_repeat", run_repeat)
    monkeypatch.setattr(running, "_measured_host", dict)
    given = {"rate": "1K", "duration": "1s", "repeats": 2, "sweep": {"acks": ["1", "all"]}}
    return run_workload(parse_workload(given, name="w"), find_target("node"), out=out)


def made(results: Results) -> list[tuple[str, int, str | None]]:
    return [(line.cell["acks"], line.repeat, line.partial) for line in results.repeats]


def test_consumers_that_stop_short_in_one_repeat_cost_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = run(tmp_path, monkeypatch, {("1", 0): SHORT, ("all", 0): "sender 1: killed"})
    assert made(results) == [("1", 0, SHORT), ("all", 0, "sender 1: killed"), ("1", 1, None), ("all", 1, None)]
    assert results.partial == SHORT


def test_a_broker_that_died_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = run(tmp_path, monkeypatch, {("all", 0): DIED})
    assert made(results) == [("1", 0, None), ("all", 0, DIED)]
    assert results.partial == DIED


def test_a_cluster_that_goes_away_leaves_what_was_measured_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = run(tmp_path, monkeypatch, {("1", 0): SHORT, ("all", 0): AWAY})
    assert made(results) == [("1", 0, SHORT)]
    assert results.partial == f"{SHORT}; {AWAY}"
    with pytest.raises(LabError, match=AWAY):
        run(tmp_path / "other", monkeypatch, {("1", 0): AWAY})
