"""The disk helper: grouping, bounds, and every way in which it can fail without a false 'synced'."""

import asyncio
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from headrace.server import disk_helper
from headrace.server.disk import SystemDisk
from headrace.server.disk_helper import COMMAND, DEATHS_IN_A_ROW_MAX, IN_FLIGHT_MAX, WARMS_IN_FLIGHT_MAX, DiskHelper

WAIT_S = 30


class OpenFile:
    """What the helper needs of a file, without a disk around it."""

    def __init__(self, path: Path) -> None:
        self.deleted = False
        self.sync_error: OSError | None = None
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

    def fileno(self) -> int:
        if self._descriptor < 0:
            raise FileNotFoundError(errno.ENOENT, "gone")
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Stage:
    """A loop, helpers on it, files for them, and the outcomes they reported."""

    def __init__(self, loop: asyncio.AbstractEventLoop, directory: Path) -> None:
        self.loop = loop
        self.outcomes: list[OSError | None] = []
        self._directory = directory
        self._files: list[OpenFile] = []
        self._helpers: list[DiskHelper] = []

    def helper(self, *command: str) -> DiskHelper:
        helper = DiskHelper(self.loop, command=command or COMMAND)
        self._helpers.append(helper)
        return helper

    def file(self, content: bytes = b"x") -> OpenFile:
        file = OpenFile(self._directory / f"file{len(self._files)}")
        os.write(file.fileno(), content)
        self._files.append(file)
        return file

    def files(self, count: int) -> list[OpenFile]:
        return [self.file() for _ in range(count)]

    def run_until(self, condition: Callable[[], bool]) -> None:
        async def turn() -> None:
            async with asyncio.timeout(WAIT_S):
                while not condition():
                    await asyncio.sleep(0)

        self.loop.run_until_complete(turn())

    def run_until_outcomes(self, count: int) -> list[int | None]:
        """The errors reported so far, as numbers, once there are so many."""
        self.run_until(lambda: len(self.outcomes) >= count)
        assert len(self.outcomes) == count
        return [None if outcome is None else outcome.errno for outcome in self.outcomes]

    def sync(self, helper: DiskHelper, file: OpenFile) -> OSError | None:
        outcomes: list[OSError | None] = []
        helper.sync_then(file, outcomes.append)
        assert outcomes == []
        self.run_until(lambda: bool(outcomes))
        return outcomes[0]

    def close(self) -> None:
        for helper in self._helpers:
            helper.close()
        for file in self._files:
            file.close()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    loop = request.param()
    stage = Stage(loop, tmp_path)
    yield stage
    stage.close()
    loop.close()


def started(helper: DiskHelper) -> int:
    assert helper.pid is not None
    return helper.pid


def kill(helper: DiskHelper) -> None:
    """Kill the process and see it dead, which the loop does not know yet."""
    os.kill(started(helper), signal.SIGKILL)
    os.waitid(os.P_PID, started(helper), os.WEXITED | os.WNOWAIT)


# Doing its work.


def test_nothing_starts_before_it_is_needed(stage: Stage) -> None:
    helper = stage.helper()
    assert helper.pid is None
    assert stage.sync(helper, stage.file()) is None
    statistics = helper.statistics()
    assert (statistics.starts, statistics.syncs, statistics.in_flight, statistics.queued) == (1, 1, 0, 0)
    assert statistics.sync_us_total > 0


def test_callers_during_a_sync_share_the_next(stage: Stage) -> None:
    helper, file, other = stage.helper(), stage.file(), stage.file()
    for _ in range(10):
        helper.sync_then(file, stage.outcomes.append)
    helper.sync_then(other, stage.outcomes.append)
    assert stage.run_until_outcomes(11) == [None] * 11
    assert helper.statistics().syncs == 3


def test_what_is_in_flight_is_bounded_and_the_rest_waits_its_turn(stage: Stage) -> None:
    helper = stage.helper()
    for file in stage.files(5 * IN_FLIGHT_MAX):
        helper.sync_then(file, stage.outcomes.append)
        helper.sync_then(file, stage.outcomes.append)
    statistics = helper.statistics()
    assert (statistics.in_flight, statistics.queued) == (IN_FLIGHT_MAX, 5 * IN_FLIGHT_MAX)
    assert stage.run_until_outcomes(10 * IN_FLIGHT_MAX) == [None] * (10 * IN_FLIGHT_MAX)
    # Those not sent yet were joined; those in flight were followed.
    assert helper.statistics().syncs == 6 * IN_FLIGHT_MAX


def test_warming_leaves_threads_for_syncs(stage: Stage) -> None:
    helper = stage.helper()
    warmed: list[int] = []
    for number, file in enumerate(stage.files(20)):
        helper.warm_then(file, 0, 1, lambda number=number: warmed.append(number))  # type: ignore[misc]
    helper.sync_then(stage.file(), stage.outcomes.append)
    statistics = helper.statistics()
    assert (statistics.in_flight, statistics.queued) == (WARMS_IN_FLIGHT_MAX + 1, 20 - WARMS_IN_FLIGHT_MAX)
    stage.run_until(lambda: len(warmed) == 20)
    assert stage.run_until_outcomes(1) == [None]
    statistics = helper.statistics()
    assert (statistics.warms, statistics.warm_errors, statistics.warm_bytes_total) == (20, 0, 20)


def test_a_large_range_is_warmed_in_pieces(stage: Stage) -> None:
    helper, file = stage.helper(), stage.file(bytes(3_000_000))
    warmed: list[str] = []
    helper.warm_then(file, 1, 1 << 40, lambda: warmed.append("warm"))
    stage.run_until(lambda: bool(warmed))
    assert helper.statistics().warm_errors == 0


def test_a_file_that_cannot_be_opened_any_more_is_an_error_for_a_sync_and_none_for_warming(stage: Stage) -> None:
    helper, file = stage.helper(), stage.file()
    file.close()
    calls: list[str] = []
    helper.sync_then(file, stage.outcomes.append)
    helper.warm_then(file, 0, 1, lambda: calls.append("warm"))
    assert (stage.outcomes, calls) == ([], [])
    assert stage.run_until_outcomes(1) == [errno.ENOENT]
    stage.run_until(lambda: calls == ["warm"])
    assert helper.statistics().warm_errors == 1


def test_a_deleted_file_needs_no_sync(stage: Stage) -> None:
    helper, file = stage.helper(), stage.file()
    file.deleted = True
    file.close()
    assert stage.sync(helper, file) is None
    assert helper.pid is None


def test_a_callback_that_raises_does_not_take_the_others_with_it(stage: Stage) -> None:
    helper, file = stage.helper(), stage.file()
    raised: list[dict[str, Any]] = []
    stage.loop.set_exception_handler(lambda loop, context: raised.append(context))

    def fail(error: OSError | None) -> None:
        raise AssertionError("planted")

    helper.sync_then(file, fail)
    helper.sync_then(file, fail)
    helper.sync_then(file, stage.outcomes.append)
    helper.sync_then(stage.file(), stage.outcomes.append)
    assert stage.run_until_outcomes(2) == [None, None]
    assert [str(context["exception"]) for context in raised] == ["planted", "planted"]


# Failing.


def test_a_failed_sync_fails_the_file_for_good(stage: Stage) -> None:
    """A pipe cannot be synced: the kernel's own refusal stands for any other."""
    helper, good = stage.helper(), stage.file()
    reading, writing = os.pipe()
    bad = stage.file()
    os.dup2(writing, bad.fileno())
    for file in (bad, good, bad, bad, good):
        helper.sync_then(file, stage.outcomes.append)
    assert sorted(stage.run_until_outcomes(5), key=str) == [errno.EINVAL] * 3 + [None] * 2
    assert bad.sync_error is not None
    sent = helper.statistics().sync_us_total
    assert stage.sync(helper, bad) is bad.sync_error
    assert helper.statistics().sync_us_total == sent  # Nobody was asked again.
    assert stage.sync(helper, good) is None
    bad.close()
    os.close(writing)
    os.set_blocking(reading, False)
    assert os.read(reading, 1) == b""  # The helper keeps no descriptor, or this would not be the end.
    os.close(reading)


def strace(output: Path, *arguments: str) -> tuple[str, ...]:
    command = ("strace", "-f", "-qq", "-o", str(output), "-e", "trace=fdatasync,fsync", *arguments)
    if shutil.which("strace") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("needs strace(1), and the right to trace, to see or to spoil the helper's system calls")
    return command


def test_files_and_directories_are_synced_by_the_call_that_each_needs(stage: Stage, tmp_path: Path) -> None:
    helper = stage.helper(*strace(tmp_path / "calls"), *COMMAND)
    disk = SystemDisk(str(tmp_path), helper=helper, descriptors_max=10)
    disk.open("log", create=True).sync_then(stage.outcomes.append)
    assert stage.run_until_outcomes(1) == [None]
    disk.sync_dir_then("", stage.outcomes.append)
    assert stage.run_until_outcomes(2) == [None, None]
    helper.close()
    disk.close()
    calls = (tmp_path / "calls").read_text()
    assert re.findall(r"(\w+)\(.*\) += 0", calls) == ["fdatasync", "fsync"]


def test_an_error_of_the_device_is_never_acknowledged(stage: Stage, tmp_path: Path) -> None:
    inject = ("-e", "inject=fdatasync,fsync:error=EIO")
    helper = stage.helper(*strace(tmp_path / "calls", *inject), *COMMAND)
    file = stage.file()
    for _ in range(3):
        helper.sync_then(file, stage.outcomes.append)
    helper.sync_then(stage.file(), stage.outcomes.append)
    assert stage.run_until_outcomes(4) == [errno.EIO] * 4
    assert helper.statistics().sync_errors == 3
    assert helper.statistics().deaths == 0


def test_when_the_helper_dies_what_it_held_fails_and_what_was_queued_does_not(stage: Stage) -> None:
    helper = stage.helper()
    assert stage.sync(helper, stage.file()) is None
    first_pid = started(helper)
    os.kill(first_pid, signal.SIGSTOP)
    held, queued = stage.files(IN_FLIGHT_MAX), stage.files(10)
    behind: list[OSError | None] = []
    later: list[OSError | None] = []
    warmed: list[str] = []
    for file in held:
        helper.sync_then(file, stage.outcomes.append)
    helper.sync_then(held[0], behind.append)
    for file in queued:
        helper.sync_then(file, later.append)
    helper.warm_then(queued[0], 0, 1, lambda: warmed.append("warm"))
    os.kill(first_pid, signal.SIGKILL)
    assert stage.run_until_outcomes(IN_FLIGHT_MAX) == [errno.EIO] * IN_FLIGHT_MAX
    stage.run_until(lambda: len(later) == 10 and len(behind) == 1 and warmed == ["warm"])
    assert [error and error.errno for error in behind] == [errno.EIO]
    assert later == [None] * 10
    assert isinstance(stage.sync(helper, held[-1]), OSError)
    assert started(helper) != first_pid
    statistics = helper.statistics()
    assert (statistics.starts, statistics.deaths, statistics.in_flight, statistics.queued) == (2, 1, 0, 0)
    stage.run_until(lambda: has_been_reaped(first_pid))


def has_been_reaped(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_death_that_the_loop_has_not_seen_yet_costs_nobody_a_sync(stage: Stage) -> None:
    helper = stage.helper()
    assert stage.sync(helper, stage.file()) is None
    kill(helper)
    helper.sync_then(stage.file(), stage.outcomes.append)
    assert stage.run_until_outcomes(1) == [None]
    assert helper.statistics().starts == 2


def test_helpers_that_die_in_a_row_are_not_replaced_for_ever(stage: Stage) -> None:
    helper = stage.helper(sys.executable, "-I", "-S", "-c", "import os; os.read(0, 1)")
    for file in stage.files(2 * DEATHS_IN_A_ROW_MAX):
        error = stage.sync(helper, file)
        assert error is not None
        assert error.errno == errno.EIO
    statistics = helper.statistics()
    assert (statistics.starts, statistics.deaths) == (DEATHS_IN_A_ROW_MAX, DEATHS_IN_A_ROW_MAX)
    assert "in a row" in str(error)


def test_an_answer_in_between_forgives_earlier_deaths(stage: Stage) -> None:
    helper = stage.helper()
    for _ in range(2 * DEATHS_IN_A_ROW_MAX):
        assert stage.sync(helper, stage.file()) is None
        kill(helper)
    assert stage.sync(helper, stage.file()) is None


def test_a_helper_that_cannot_start_is_an_error_for_the_sync(stage: Stage) -> None:
    helper = stage.helper("/nonexistent/python")
    helper.sync_then(stage.file(), stage.outcomes.append)
    assert stage.run_until_outcomes(1) == [errno.ENOENT]
    assert helper.statistics().starts == 0


# Ending.


def test_closing_tells_whoever_still_waits_and_leaves_no_process(stage: Stage) -> None:
    helper = stage.helper()
    assert stage.sync(helper, stage.file()) is None
    pid = started(helper)
    os.kill(pid, signal.SIGSTOP)
    files = stage.files(IN_FLIGHT_MAX + 5)
    for file in files:
        helper.sync_then(file, stage.outcomes.append)
    os.kill(pid, signal.SIGCONT)
    helper.close()
    helper.close()
    assert has_been_reaped(pid)
    expected = [errno.EIO] * IN_FLIGHT_MAX + [errno.ECANCELED] * 5
    assert stage.run_until_outcomes(len(files)) == expected
    assert isinstance(stage.sync(helper, stage.file()), OSError)
    assert helper.pid is None


def test_a_helper_that_does_not_end_is_killed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_helper, "STOP_TIMEOUT_S", 0.1)
    helper = stage.helper(sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)")
    helper.sync_then(stage.file(), stage.outcomes.append)
    pid = started(helper)
    helper.close()
    assert has_been_reaped(pid)
    assert stage.run_until_outcomes(1) == [errno.EIO]


def test_signals_meant_for_the_node_do_not_take_its_helper_away(stage: Stage) -> None:
    helper = stage.helper()
    assert stage.sync(helper, stage.file()) is None
    pid = started(helper)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    assert os.getsid(pid) != os.getsid(0)
    assert stage.sync(helper, stage.file()) is None
    assert helper.pid == pid


NODE_THAT_IS_KILLED = """
import asyncio, os, signal, sys
from headrace.server.disk import SystemDisk
from headrace.server.disk_helper import DiskHelper

async def main():
    helper = DiskHelper(asyncio.get_running_loop())
    file = SystemDisk(sys.argv[1], helper=helper, descriptors_max=10).open("log", create=True)
    synced = asyncio.get_running_loop().create_future()
    file.sync_then(synced.set_result)
    assert await synced is None
    print(helper.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_the_helper_ends_when_its_node_is_killed(tmp_path: Path) -> None:
    """It shares the node's standard error, which therefore ends only with the last of the two."""
    run = subprocess.run(
        [sys.executable, "-c", NODE_THAT_IS_KILLED, str(tmp_path)],
        check=False,
        capture_output=True,
        timeout=WAIT_S,
        text=True,
    )
    assert run.returncode == -signal.SIGKILL
    assert run.stderr == ""
    assert int(run.stdout) > 0


def test_the_helper_imports_nothing_heavy_and_nothing_of_ours() -> None:
    loaded = "import sys; exec(open(sys.argv[1]).read(), {'__name__': 'helper'}); print(*sys.modules)"
    run = subprocess.run(
        [*COMMAND[:-1], "-c", loaded, COMMAND[-1]], check=True, capture_output=True, timeout=WAIT_S, text=True
    )
    heavy = {"headrace", "asyncio", "typing", "re", "subprocess", "ctypes", "logging"}
    assert heavy & set(run.stdout.split()) == set()
