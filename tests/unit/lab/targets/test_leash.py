"""What was started in a directory ends with whoever started it."""

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

from headrace.lab.targets.leash import leashed_directory, processes_naming, watch


def sleeper(directory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", str(directory / "data")])


def seen_naming(directory: Path) -> list[int]:
    """The first processes seen to name it: one that was just started has for a moment no command to be seen."""
    deadline_s = time.monotonic() + 60
    while not (found := processes_naming(str(directory))) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return found


def test_without_a_farewell_all_that_name_the_directory_end_and_it_too(tmp_path: Path) -> None:
    directory = tmp_path / "headrace-lab-x"
    directory.mkdir()
    with sleeper(directory) as ours, sleeper(tmp_path / "other") as other:
        try:
            assert seen_naming(directory) == [ours.pid]
            watch(io.BytesIO(b""), str(directory))
            assert ours.wait(60) == -signal.SIGKILL
            assert other.poll() is None
        finally:
            ours.kill()
            other.kill()
    assert not directory.exists()


def test_with_one_nothing_happens(tmp_path: Path) -> None:
    watch(io.BytesIO(b"."), str(tmp_path))
    assert tmp_path.exists()


def test_the_directory_is_there_as_long_as_it_is_needed() -> None:
    with leashed_directory() as directory:
        (directory / "data").mkdir()
        assert len(seen_naming(directory)) == 1  # The one that watches.
    assert not directory.exists()
    assert processes_naming(str(directory)) == []
