"""The cleaner process: jobs over a socket, descriptors with them, and every way in which it can fail."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from headrace.errors import CorruptBatch, StorageError
from headrace.ports import CleanedSegments, CleanJob, MapJob, MappedKeys
from headrace.protocol.batch import whole_batches
from headrace.protocol.records import Record, decode_records, encode_batch
from headrace.server.cleaner import COMMAND, CleanerProcess
from headrace.server.disk import SystemDisk, SystemFile

WAIT_S = 30
DIRECTORY = "t-0"
NOW_MS = 1_700_000_000_000
NO_LIMIT = 1.7e308


class Stage:
    """A loop, a data directory with one segment, and cleaners."""

    def __init__(self, loop: asyncio.AbstractEventLoop, root: Path) -> None:
        self.loop = loop
        self.root = root
        self.disk = SystemDisk(str(root), helper=None, descriptors_max=64)
        self.disk.make_dir(DIRECTORY)
        self._cleaners: list[CleanerProcess] = []

    def cleaner(self, *command: str) -> CleanerProcess:
        made = CleanerProcess(self.loop, str(self.root), command=command or COMMAND)
        self._cleaners.append(made)
        return made

    def segment(self, *pairs: tuple[bytes, bytes | None], base_offset: int = 0) -> None:
        file = self.disk.open(self.path(base_offset, ".log"), create=True)
        for offset, (key, value) in enumerate(pairs, base_offset):
            file.append([encode_batch([Record(key, value, timestamp_ms=NOW_MS)], base_offset=offset, leader_epoch=0)])

    def path(self, base_offset: int, suffix: str) -> str:
        return f"{DIRECTORY}/{base_offset:020d}{suffix}"

    def targets(self) -> list[SystemFile]:
        return [self.disk.open(self.path(0, f"{s}.cleaned"), create=True) for s in (".log", ".index", ".timeindex")]

    def map(self, cleaner: CleanerProcess, *, end_offset: int, bytes_per_s: float = NO_LIMIT) -> Any:
        job = MapJob(DIRECTORY, [0], 0, end_offset, 1 << 20, bytes_per_s)
        return self.outcome(lambda done: cleaner.map_then(job, done))

    def clean(self, cleaner: CleanerProcess, targets: list[SystemFile], **changes: Any) -> Any:
        job = CleanJob(DIRECTORY, [0], [], NOW_MS, 1000, 4096, NO_LIMIT)._replace(**changes)
        return self.outcome(lambda done: cleaner.clean_then(job, targets, done))

    def outcome(self, ask: Callable[[Callable[[Any], None]], None]) -> Any:
        outcomes: list[Any] = []
        ask(outcomes.append)
        assert not outcomes, "it must not call back from inside the call"
        self.run_until(lambda: bool(outcomes))
        return outcomes[0]

    def run_until(self, condition: Callable[[], bool]) -> None:
        async def turn() -> None:
            async with asyncio.timeout(WAIT_S):
                while not condition():
                    await asyncio.sleep(0.001)

        self.loop.run_until_complete(turn())

    def close(self) -> None:
        for cleaner in self._cleaners:
            cleaner.close()
        self.disk.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    loop = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
    made = Stage(loop, tmp_path)
    yield made
    made.close()
    loop.close()


def test_it_compacts_into_the_files_that_it_is_given(stage: Stage) -> None:
    stage.segment((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"z", b""))
    cleaner = stage.cleaner()
    assert stage.map(cleaner, end_offset=4) == MappedKeys(4, 3, (stage.root / stage.path(0, ".log")).stat().st_size)
    outcome = stage.clean(cleaner, stage.targets())
    assert isinstance(outcome, CleanedSegments)
    data = (stage.root / stage.path(0, ".log.cleaned")).read_bytes()
    assert (outcome.records_read, outcome.records_kept, outcome.bytes_written) == (4, 3, len(data))
    assert [record.offset for at, h in whole_batches(data) for record in decode_records(data[at:])] == [1, 2, 3]
    assert (stage.root / stage.path(0, ".timeindex.cleaned")).stat().st_size == 12
    assert cleaner.statistics()._asdict() == {"starts": 1, "deaths": 0, "jobs": 2}


def test_nothing_runs_before_the_first_job_and_after_the_end(stage: Stage) -> None:
    stage.segment((b"a", b"1"))
    cleaner = stage.cleaner()
    assert cleaner.pid is None
    stage.map(cleaner, end_offset=1)
    pid = cleaner.pid
    assert pid is not None
    assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    with contextlib.suppress(FileNotFoundError):  # Only some kernels schedule by session.
        assert Path(f"/proc/{pid}/autogroup").read_text().split()[-1] == "19"
    cleaner.close()
    assert not Path(f"/proc/{pid}").exists()


def test_it_writes_to_the_files_and_not_to_their_names(stage: Stage) -> None:
    """By the time it writes, a path may be another node's."""
    stage.segment((b"a", b"1"))
    cleaner = stage.cleaner()
    stage.map(cleaner, end_offset=1)
    targets = stage.targets()
    for target in targets:
        os.rename(stage.root / target.path, stage.root / f"{target.path}.moved")
        (stage.root / target.path).write_bytes(b"another node's")
    assert isinstance(stage.clean(cleaner, targets), CleanedSegments)
    for target in targets:
        assert (stage.root / target.path).read_bytes() == b"another node's"


def test_a_large_job_is_sent_in_pieces(stage: Stage) -> None:
    stage.segment((b"a", b"1"), (b"a", b"2"), (b"b", b""))
    cleaner = stage.cleaner()
    stage.map(cleaner, end_offset=3)
    outcome = stage.clean(cleaner, stage.targets(), remembered_offsets=list(range(500_000)))
    assert isinstance(outcome, CleanedSegments)
    assert outcome.records_kept == 2


def test_damage_and_missing_files_are_told_apart(stage: Stage) -> None:
    cleaner = stage.cleaner()
    missing = stage.map(cleaner, end_offset=1)
    assert type(missing) is StorageError
    stage.segment((b"a", b"1"))
    stage.disk.open(stage.path(0, ".log")).append([b"rubbish" * 20])
    damaged = stage.map(cleaner, end_offset=1)
    assert type(damaged) is CorruptBatch
    assert cleaner.statistics().deaths == 0


def test_a_job_fails_with_its_process_and_the_next_one_has_another(stage: Stage) -> None:
    stage.segment((b"a", b"1"))
    cleaner = stage.cleaner()
    stage.map(cleaner, end_offset=1)
    assert cleaner.pid is not None
    os.kill(cleaner.pid, signal.SIGKILL)
    assert isinstance(stage.clean(cleaner, stage.targets()), StorageError)
    # It does not know the keys any more.
    assert isinstance(stage.clean(cleaner, stage.targets()), StorageError)
    assert isinstance(stage.map(cleaner, end_offset=1), MappedKeys)
    assert isinstance(stage.clean(cleaner, stage.targets()), CleanedSegments)
    assert cleaner.statistics().starts == 2


def test_a_process_that_cannot_be_started_is_a_failed_job(stage: Stage) -> None:
    cleaner = stage.cleaner("/nowhere/python")
    assert isinstance(stage.map(cleaner, end_offset=1), StorageError)
    assert isinstance(stage.map(stage.cleaner(sys.executable, "-c", "pass"), end_offset=1), StorageError)


def test_it_takes_its_time_where_it_is_told_to(stage: Stage) -> None:
    stage.segment(*[(b"%d" % number, bytes(100_000)) for number in range(30)])
    began_s = time.monotonic()
    assert isinstance(stage.map(stage.cleaner(), end_offset=30, bytes_per_s=10e6), MappedKeys)
    assert time.monotonic() - began_s > 0.15


def test_it_ends_in_the_middle_of_a_job_when_its_node_does(stage: Stage) -> None:
    stage.segment(*[(b"%d" % number, bytes(100_000)) for number in range(30)])
    cleaner = stage.cleaner()
    outcomes: list[Any] = []
    cleaner.map_then(MapJob(DIRECTORY, [0], 0, 30, 1 << 20, 1000.0), outcomes.append)
    process = cleaner._process
    sock = cleaner._socket
    assert process is not None
    assert sock is not None
    stage.run_until(lambda: Path(f"/proc/{process.pid}/cmdline").exists())
    stage.loop.remove_reader(sock)
    sock.close()  # As the kernel does for a node that was killed.
    assert process.wait(WAIT_S) == 0
    cleaner._socket = None
