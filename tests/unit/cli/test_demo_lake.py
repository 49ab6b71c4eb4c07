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


def test_a_program_is_stopped_as_a_user_would(places: Places) -> None:
    crew = Crew(places)
    crew.start("server", *_LASTS)
    pid = crew.pid("server")
    crew.stop("server")
    assert not is_alive(pid)
    crew.close()
