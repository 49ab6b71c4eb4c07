"""Synchronous writes on a real disk, briefly; and what is not one."""

from pathlib import Path

import pytest

from headrace.lab.host import disk_write
from headrace.lab.host.disk_write import BULK_BYTES, DiskWrite, measure_disk_write, parse_mounts

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
25 24 0:23 / /dev/shm rw,relatime shared:3 master:1 - tmpfs tmpfs rw,size=24682416k
27 1 254:0 / / rw,relatime - ext4 /dev/root rw
"""


def test_kinds_are_found_behind_any_number_of_optional_fields() -> None:
    assert parse_mounts(MOUNTS) == {"0:21": "proc", "0:23": "tmpfs", "254:0": "ext4"}


def test_it_writes_measures_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_write, "file_system", lambda directory: "ext4")  # Tests may be run in memory.
    found = measure_disk_write(tmp_path, duration_s=0.1)
    assert isinstance(found, DiskWrite)
    assert found.commits.count >= 1
    assert found.bulk.count >= 1
    assert found.bulk_mb_per_s == pytest.approx(found.bulk.count * BULK_BYTES / 1e6 / (found.bulk.sum_ns / 1e9))
    assert found.to_json()["commit_ms"]["max"] >= found.to_json()["commit_ms"]["p50"] > 0
    assert list(tmp_path.iterdir()) == []


def test_the_file_does_not_grow_beyond_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(disk_write, "file_system", lambda directory: "ext4")
    monkeypatch.setattr(disk_write, "_FILE_BYTES_MAX", 2 * BULK_BYTES)
    monkeypatch.setattr(disk_write.os, "close", _closing(tmp_path, sizes))
    found = measure_disk_write(tmp_path, duration_s=0.2)
    assert isinstance(found, DiskWrite)
    assert max(sizes) <= 2 * BULK_BYTES


def _closing(directory: Path, sizes: list[int]) -> object:
    close = disk_write.os.close

    def noting(file: int) -> None:
        sizes.extend(each.stat().st_size for each in directory.iterdir())
        close(file)

    return noting


def test_memory_is_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_write, "file_system", lambda directory: "tmpfs")
    assert measure_disk_write(tmp_path, duration_s=5.0) == f"{tmp_path} is a tmpfs, in memory"
