"""What an interrupted run leaves for the next."""

from pathlib import Path

from bench.journal import Journal
from bench.results import Reading
from bench.run import _suffices

VERSIONS = {"headrace": "1 at abc", "kafka": "4.1.1"}


def reading(system: str, repeat: int) -> Reading:
    return Reading(row="start", system=system, repeat=repeat, values={"start_s": 0.25})


def test_what_was_added_is_there_for_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "readings"
    assert Journal(path, versions=VERSIONS, scale=1.0).readings() == []
    Journal(path, versions=VERSIONS, scale=1.0).add([reading("headrace", 0), reading("kafka", 0)])
    Journal(path, versions=VERSIONS, scale=1.0).add([reading("headrace", 1)])
    found = Journal(path, versions=VERSIONS, scale=1.0).readings()
    assert found == [reading("headrace", 0), reading("kafka", 0), reading("headrace", 1)]


def test_other_versions_and_other_scales_are_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "readings"
    Journal(path, versions=VERSIONS, scale=1.0).add([reading("headrace", 0), reading("kafka", 0)])
    changed = VERSIONS | {"headrace": "1 at def"}
    assert Journal(path, versions=changed, scale=1.0).readings() == [reading("kafka", 0)]
    assert Journal(path, versions=VERSIONS, scale=0.05).readings() == []
    assert Journal(path, versions={"headrace": VERSIONS["headrace"]}, scale=1.0).readings() == [reading("headrace", 0)]


def test_a_disturbed_block_is_measured_again_as_often_as_may_be() -> None:
    def attempt(row: str, steal: float) -> Reading:
        return Reading(row=row, system="headrace", repeat=0, values={"steal_share": steal})

    names = ["a", "b"]
    assert not _suffices([], names, attempts_max=3)
    once = [attempt("a", 0.0), attempt("b", 0.1)]
    assert not _suffices(once, names, attempts_max=3)
    assert _suffices(once, names, attempts_max=1)
    assert _suffices([*once, attempt("a", 0.1), attempt("b", 0.0)], names, attempts_max=3)
    assert _suffices([attempt(name, 0.1) for name in names * 3], names, attempts_max=3)
    assert not _suffices([attempt("a", 0.0)], names, attempts_max=3)
