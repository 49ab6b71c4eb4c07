"""What an interrupted run leaves for the next."""

from pathlib import Path

from bench.journal import Journal
from bench.results import Reading

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
