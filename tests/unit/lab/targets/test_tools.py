"""Programs that may be missing, and what they leave in the cache."""

import sys
from pathlib import Path

import pytest

from headrace.lab.targets.available import available
from headrace.lab.targets.tools import CACHE_VARIABLE, ToolFailed, ToolMissing, cached_build, require_tool, run_checked


def test_a_missing_tool_is_told_with_how_to_get_it() -> None:
    with pytest.raises(ToolMissing, match=r"anvil-of-headrace is not installed \(ask a smith\)"):
        require_tool("anvil-of-headrace", hint="ask a smith")


def test_a_failing_tool_is_told_with_what_it_said() -> None:
    with pytest.raises(ToolFailed, match=r"(?s)exited with 3.*no luck"):
        run_checked([sys.executable, "-c", "import sys; sys.stderr.write('no luck'); sys.exit(3)"])


def test_a_build_is_done_once_and_again_where_its_sources_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    source, builds = tmp_path / "source", []
    source.write_text("one")

    def build(into: Path) -> None:
        builds.append(into)
        (into / "made").write_text(source.read_text())

    first = cached_build("thing", [source], build)
    assert cached_build("thing", [source], build) == first
    assert len(builds) == 1
    source.write_text("two")
    assert (cached_build("thing", [source], build) / "made").read_text() == "two"
    assert sorted(path.name for path in (tmp_path / "cache").iterdir() if path.suffix == ".part") == []


def test_a_build_that_fails_leaves_nothing_that_looks_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    source = tmp_path / "source"
    source.write_text("one")

    def build(into: Path) -> None:
        raise ToolFailed("no luck")

    with pytest.raises(ToolFailed):
        cached_build("thing", [source], build)
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_java_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    found = {each.name: each for each in available()}
    assert (found["node"].is_here, found["kafka"].is_here) == (True, False)
    assert found["kafka"].how == (
        "install Java 17 or newer (the Debian package is default-jre-headless) and Maven (the Debian package is maven)"
    )
