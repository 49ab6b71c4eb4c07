"""SystemDisk on real files: the contract, and what only a kernel can refuse."""

import asyncio
import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop

from headrace.errors import DiskFull, StorageError
from headrace.server import cachestat
from headrace.server.disk import RECENT_TAIL_BYTES, SystemDisk
from headrace.server.disk_helper import DiskHelper
from tests.unit.disk_contract import DiskContract, Stage, whole

WAIT_S = 30


def run_until(loop: asyncio.AbstractEventLoop, condition: Callable[[], bool]) -> None:
    async def turn() -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0)

    loop.run_until_complete(turn())


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = uvloop.new_event_loop()
    yield loop
    loop.close()


class TestContract(DiskContract):
    @pytest.fixture(
        params=[(asyncio.new_event_loop, 3), (uvloop.new_event_loop, 100)],
        ids=["asyncio and few descriptors", "uvloop and many descriptors"],
    )
    def stage(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
        new_event_loop, descriptors_max = request.param
        loop = new_event_loop()
        descriptors_before = len(os.listdir("/dev/fd"))
        helper = DiskHelper(loop)
        disk = SystemDisk(str(tmp_path), helper=helper, descriptors_max=descriptors_max)
        yield Stage(disk, lambda condition: run_until(loop, condition))
        helper.close()
        assert helper.statistics().deaths == 0
        disk.close()
        assert len(os.listdir("/dev/fd")) == descriptors_before
        loop.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    disk = SystemDisk(str(tmp_path), helper=None, descriptors_max=10)
    yield disk
    disk.close()


# Descriptors.


@contextmanager
def limited(which: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(which)
    resource.setrlimit(which, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)


def test_a_file_has_no_descriptor_until_it_is_used(disk: SystemDisk) -> None:
    disk.open("log", create=True).close()
    file = disk.open("log")
    assert disk.statistics().descriptors_open == 0
    file.append((b"x",))
    assert disk.statistics().descriptors_open == 1


def test_three_thousand_files_share_a_few_descriptors(tmp_path: Path) -> None:
    disk = SystemDisk(str(tmp_path), helper=None, descriptors_max=50)
    files = [disk.open(f"log{number}", create=True) for number in range(3000)]
    for turn in range(2):
        for number, file in enumerate(files):
            file.append((b"%d %d\n" % (turn, number),))
            assert disk.statistics().descriptors_open <= 50
    for number, file in enumerate(files):
        assert whole(file) == b"0 %d\n1 %d\n" % (number, number)
    disk.close()


def test_a_file_in_use_keeps_its_descriptor(disk: SystemDisk) -> None:
    busy = disk.open("busy", create=True)
    others = [disk.open(f"other{number}", create=True) for number in range(100)]
    busy.append((b"x",))
    opens = disk.statistics().opens
    for other in others:
        busy.append((b"x",))
        other.append((b"x",))
    assert disk.statistics().opens - opens == len(others)
    assert disk.statistics().evictions > 0


def test_a_log_gives_way_when_the_process_runs_out_of_descriptors(tmp_path: Path) -> None:
    disk = SystemDisk(str(tmp_path), helper=None, descriptors_max=1_000_000)
    files = [disk.open(f"log{number}", create=True) for number in range(100)]
    disk.close()
    free = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
    for descriptor in free:
        os.close(descriptor)
    with limited(resource.RLIMIT_NOFILE, max(free) + 1):
        for number, file in enumerate(files):
            file.append((b"%d" % number,))
        disk.sync_dir("")
        disk.replace_file("small", b"content")
        assert [whole(file) for file in files] == [b"%d" % number for number in range(100)]
        assert disk.statistics().evictions > 0
    disk.close()


def test_without_any_descriptor_to_give_the_failure_is_told(disk: SystemDisk) -> None:
    file = disk.open("log", create=True)
    disk.close()
    with limited(resource.RLIMIT_NOFILE, 0), pytest.raises(StorageError, match=r"log: Too many open files"):
        file.append((b"x",))
    file.append((b"x",))
    assert whole(file) == b"x"


def test_the_descriptor_serves_a_sendfile(disk: SystemDisk) -> None:
    file = disk.open("log", create=True)
    file.append((b"abcdef",))
    file.close()
    assert os.pread(file.descriptor(), 3, 2) == b"cde"
    assert file.descriptor() == file.fileno()
    file.delete()
    with pytest.raises(StorageError, match="log"):
        file.descriptor()


def test_a_file_cut_or_replaced_by_someone_else_is_noticed(disk: SystemDisk, tmp_path: Path) -> None:
    cut, replaced = disk.open("cut", create=True), disk.open("replaced", create=True)
    for file in (cut, replaced):
        file.append((b"abcdef",))
        file.close()
    os.truncate(tmp_path / "cut", 3)
    (tmp_path / "other").write_bytes(b"abcdef")
    os.replace(tmp_path / "other", tmp_path / "replaced")
    for file in (cut, replaced):
        with pytest.raises(StorageError, match="no longer the file that was opened"):
            file.read(0, 1)
    assert disk.statistics().descriptors_open == 0


def test_a_file_cut_under_an_open_descriptor_is_noticed_by_reading(disk: SystemDisk, tmp_path: Path) -> None:
    file = disk.open("log", create=True)
    file.append((b"abcdef",))
    os.truncate(tmp_path / "log", 3)
    assert file.read(0, 2) == b"ab"
    with pytest.raises(StorageError, match="ends at 3, not at 6"):
        file.read(0, 6)


# Room.


@pytest.mark.parametrize("parts", [(b"x" * 600,), (b"x" * 300, b"y" * 300), (b"z",) * 2000], ids=["one", "two", "many"])
def test_a_short_write_is_cut_back(disk: SystemDisk, parts: tuple[bytes, ...]) -> None:
    file = disk.open("log", create=True)
    file.append((b"a" * 500,))
    with limited(resource.RLIMIT_FSIZE, 1000):
        with pytest.raises(StorageError, match="log: File too large") as caught:
            file.append(parts)
        assert not isinstance(caught.value, DiskFull)
        assert caught.value.__cause__.errno == errno.EFBIG  # type: ignore[union-attr]
        assert file.size == 500
        assert os.stat(f"{disk.root}/log").st_size == 500
    assert disk.statistics().append_errors == 1
    file.append(parts)
    assert whole(file) == b"a" * 500 + b"".join(parts)


def test_an_append_that_cannot_be_cut_back_is_no_mere_lack_of_room(disk: SystemDisk) -> None:
    file = disk.open("log", create=True)
    full = os.open("/dev/full", os.O_WRONLY)  # No room to write to, and nothing to truncate.
    os.dup2(full, file.descriptor())
    os.close(full)
    with pytest.raises(StorageError, match="not cut back") as caught:
        file.append((b"x",))
    assert not isinstance(caught.value, DiskFull)


def test_a_failed_sync_fails_the_file_for_good(disk: SystemDisk) -> None:
    """A pipe cannot be synced: the kernel's own refusal stands for any other."""
    file = disk.open("log", create=True)
    reading, writing = os.pipe()
    os.dup2(writing, file.descriptor())
    os.close(writing)
    for _ in range(2):
        with pytest.raises(StorageError, match="log: Invalid argument"):
            file.sync()
        file.close()  # The second time with the real file, which could be synced.
    os.close(reading)


def test_a_failed_replacement_leaves_the_old_file_and_no_other(disk: SystemDisk) -> None:
    disk.replace_file("small", b"old")
    with limited(resource.RLIMIT_FSIZE, 1000), pytest.raises(StorageError, match="small"):
        disk.replace_file("small", b"x" * 2000)
    assert disk.read_file("small") == b"old"
    assert disk.list("") == ["small"]


FULL_DISK = """
import subprocess, sys
from headrace.errors import DiskFull
from headrace.server.disk import SystemDisk

subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", sys.argv[1]], check=True)
disk = SystemDisk(sys.argv[1], helper=None, descriptors_max=10)
disk.replace_file("small", b"old")
first, second = disk.open("first", create=True), disk.open("second", create=True)
first.append((bytes(100_000),))
second.append((bytes(100_000),))
for append in (lambda: second.append((bytes(99_999), b"x")), lambda: second.append((bytes(100_000),))):
    try:
        append()
    except DiskFull as error:
        assert str(error) == "second: No space left on device", error
    else:
        raise AssertionError("there was room")
    assert second.size == 100_000
try:
    disk.replace_file("small", bytes(200_000))
except DiskFull:
    assert disk.read_file("small") == b"old"
else:
    raise AssertionError("there was room")
assert first.read(0, 100_000) == bytes(100_000)
first.delete()
second.append((bytes(99_999), b"x"))
assert second.read(199_999, 10) == b"x"
print("recovered by itself")
"""


def test_a_full_disk_keeps_nothing_of_an_append_and_recovers(tmp_path: Path) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"], check=False).returncode:
        pytest.skip("needs a small file system of its own, so unshare(1) and unprivileged user namespaces")
    run = subprocess.run(
        [*namespace, sys.executable, "-c", FULL_DISK, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.stdout, run.stderr) == ("recovered by itself\n", "")


# The page cache.


def test_what_the_kernel_dropped_is_cold_until_it_is_warmed(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    helper = DiskHelper(loop)
    disk = SystemDisk(str(tmp_path), helper=helper, descriptors_max=10)
    file = disk.open("log", create=True)
    file.append((os.urandom(1 << 20),))
    if cachestat.load_range_cached(file.descriptor()) is None:
        pytest.skip("needs cachestat(2): Linux 6.5 or later, and no sandbox that forbids it")
    assert file.is_warm(0, 1 << 20)
    file.sync()
    os.posix_fadvise(file.descriptor(), 0, 0, os.POSIX_FADV_DONTNEED)
    if file.is_warm(0, 1 << 20):
        pytest.skip("needs a file system with a device below it; this one lives in the page cache")
    assert not file.is_warm(500_000, 1)
    calls: list[str] = []
    file.warm_then(300_000, 300_000, lambda: calls.append("warm"))
    run_until(loop, lambda: calls == ["warm"])
    assert file.is_warm(300_000, 300_000)
    assert helper.statistics().warm_bytes_total == 300_000
    helper.close()
    disk.close()


def test_a_range_is_warm_only_with_all_of_its_pages(disk: SystemDisk) -> None:
    file = disk.open("log", create=True)
    file.append((bytes(1 << 20),))
    range_cached = cachestat.load_range_cached(file.descriptor())
    if range_cached is None:
        pytest.skip("needs cachestat(2): Linux 6.5 or later, and no sandbox that forbids it")
    assert range_cached(file.descriptor(), 0, 1 << 20)
    assert range_cached(file.descriptor(), 4095, 2)
    assert not range_cached(file.descriptor(), 0, (1 << 20) + 1)
    assert not range_cached(-1, 0, 1)


@pytest.fixture
def no_cachestat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cachestat, "load_range_cached", lambda descriptor: None)


@pytest.mark.usefixtures("no_cachestat")
def test_without_cachestat_only_what_we_appended_lately_is_warm(disk: SystemDisk, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(1000))
    file = disk.open("log")
    file.append((b"x" * 1000,))
    assert file.is_warm(1000, 1000)
    assert not file.is_warm(999, 10)
    file.truncate(500)
    file.append((b"x" * 1000,))
    assert file.is_warm(500, 1000)
    assert not file.is_warm(499, 1000)
    os.truncate(tmp_path / "log", RECENT_TAIL_BYTES)  # A sparse file, to be longer than the tail.
    longer = disk.open("log")
    longer.append((b"x" * 1000,))
    assert longer.is_warm(RECENT_TAIL_BYTES, 1000)
    assert not longer.is_warm(0, 1)


@pytest.mark.usefixtures("no_cachestat")
def test_without_cachestat_what_was_warmed_last_is_warm(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    (tmp_path / "log").write_bytes(bytes(10_000))
    helper = DiskHelper(loop)
    disk = SystemDisk(str(tmp_path), helper=helper, descriptors_max=10)
    file = disk.open("log")
    calls: list[str] = []
    file.warm_then(2000, 2000, lambda: calls.append("warm"))
    run_until(loop, lambda: calls == ["warm"])
    assert file.is_warm(2000, 2000)
    assert not file.is_warm(1999, 2000)
    assert not file.is_warm(2001, 2000)
    helper.close()
    disk.close()


def test_a_disk_that_is_not_asked_about_warmth_does_not_import_ctypes() -> None:
    lean = "import headrace.server.disk, sys; sys.exit('ctypes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", lean], check=False, timeout=60).returncode == 0
