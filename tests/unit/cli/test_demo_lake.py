"""The programs of the demo: killed, started again, missed when they end by themselves, and ended with it."""

import os
import time
from pathlib import Path

import pytest

from headrace.cli.demo_lake import Crew, Places
from headrace.cli.output import CommandError

_LASTS = ("http.server", "0", "--bind", "127.0.0.1")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(root=tmp_path)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_program_that_was_killed_starts_again_by_its_name(places: Places) -> None:
    crew = Crew(places)
    try:
        crew.start("server", *_LASTS)
        first = crew.pid("server")
        crew.kill("server")
        assert not is_alive(first)
        crew.start("server")
        crew.check()
        assert is_alive(second := crew.pid("server"))
    finally:
        crew.close()
    assert not is_alive(second)


def test_a_program_that_ends_by_itself_is_missed_with_its_last_words(places: Places) -> None:
    crew = Crew(places)
    crew.start("server", "http.server", "no-port")
    deadline_s = time.monotonic() + 30
    with pytest.raises(CommandError, match=r"(?s)server ended with status 2:.*no-port"):  # noqa: PT012
        while time.monotonic() < deadline_s:
            crew.check()
            time.sleep(0.01)
    crew.close()


_PARENT = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep({for_s})"])
print(child.pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("for_s", [1, 100])
def test_what_a_program_started_has_ended_with_it(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, for_s: int
) -> None:
    """By itself, if it is given the time; or killed."""
    monkeypatch.setattr("headrace.cli.demo_lake._GROUP_S_MAX", 3.0)
    (tmp_path / "parent.py").write_text(_PARENT.format(for_s=for_s))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    crew = Crew(places)
    crew.start("parent", "parent")
    while not (words := places.log("parent").read_text()).endswith("\n"):
        crew.check()
        time.sleep(0.01)
    crew.stop("parent")
    deadline_s = time.monotonic() + 10
    while is_at_work(int(words)):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def is_at_work(pid: int) -> bool:
    """Alive, and not merely waiting for somebody to hear that it has ended."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_program_is_stopped_as_a_user_would(places: Places) -> None:
    crew = Crew(places)
    crew.start("server", *_LASTS)
    pid = crew.pid("server")
    crew.stop("server")
    assert not is_alive(pid)
    crew.close()
