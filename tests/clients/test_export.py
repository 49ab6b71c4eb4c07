"""`headrace export`: the file is the topic, in every format, also after kills at any moment."""

import itertools
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import columnar
from headrace.cli import bookmarks
from headrace.cli.tables import growing
from headrace.testing import Broker
from tests.clients.command_line import Headrace, command
from tests.clients.exported import BEGAN_MS, rows_of_file, rows_of_topic, strange_rows

SUFFIXES = (".parquet", ".csv", ".jsonl", ".arrow", ".arrows")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"fetch.max.bytes": 100_000}) as broker:
        broker.create_topic("strange", partitions=3)
        columnar.write(broker.bootstrap, "strange", strange_rows(1000, seed=1), compression="lz4", batch_bytes=2000)
        yield broker


@pytest.fixture
def headrace(broker: Broker) -> Headrace:
    return Headrace(broker.bootstrap)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_file_is_the_topic(headrace: Headrace, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"strange{suffix}"
    told = headrace.json("export", "strange", out, "--group-bytes", "5000")
    assert rows_of_file(out) == rows_of_topic(headrace.bootstrap, "strange")
    assert (told["rows"], told["resumed_rows"], told["file_bytes"]) == (1000, None, out.stat().st_size)
    assert sum(one["end"] - one["start"] for one in told["partitions"]) == 1000
    assert list(tmp_path.iterdir()) == [out]


def test_lines_of_json_are_those_of_consume(headrace: Headrace, tmp_path: Path) -> None:
    headrace("export", "strange", tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert sorted(lines) == sorted(headrace("consume", "strange", "--json").stdout_bytes.splitlines())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_range_is_a_file_without_rows(headrace: Headrace, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    assert headrace.json("export", "strange", out, "--start", "latest")["rows"] == 0
    assert rows_of_file(out) == []


def test_a_range_and_some_columns(headrace: Headrace, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    start, end = f"@{BEGAN_MS + 200_000}", f"@{BEGAN_MS + 400_000}"
    headrace("export", "strange", out, "--start", start, "--end", end, "-p", "1", "--columns", "offset,partition")
    rows = rows_of_topic(headrace.bootstrap, {"strange": [1]})
    within = [row for row in rows if 200 <= row["timestamp"].timestamp() - BEGAN_MS / 1000 < 400]
    assert 0 < len(within) < len(rows)
    assert rows_of_file(out) == [{"offset": row["offset"], "partition": 1} for row in within]


def test_the_compression_is_the_one_that_was_asked_for(headrace: Headrace, tmp_path: Path) -> None:
    for asked, found in (("gzip", "GZIP"), ("none", "UNCOMPRESSED"), ("zstd", "ZSTD")):
        out = tmp_path / f"{asked}.parquet"
        headrace("export", "strange", out, "-z", asked)
        assert pq.read_metadata(out).row_group(0).column(0).compression == found


# --- Kills -------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """As good as SIGKILL to whoever does not look behind it."""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_kill_at_every_step(headrace: Headrace, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before, and after, each thing that it does to the disk: at the first, and then at the second, ..."""
    out = tmp_path / f"out{suffix}"
    arguments = ("export", "strange", out, "--group-bytes", "10000", "--overwrite")
    expected = rows_of_topic(headrace.bootstrap, "strange")
    steps_left = 0

    def step() -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left == 0:
            raise Killed

    def stepwise(function):  # type: ignore[no-untyped-def]
        def run(*arguments, **named):  # type: ignore[no-untyped-def]
            step()
            done = function(*arguments, **named)
            step()
            return done

        return run

    monkeypatch.setattr(growing.os, "fsync", stepwise(os.fsync))
    monkeypatch.setattr(Path, "replace", stepwise(Path.replace))
    monkeypatch.setattr(Path, "unlink", stepwise(Path.unlink))
    assert bookmarks.os is growing.os
    kills = 0
    for moment in itertools.count(1):
        steps_left = moment
        try:
            headrace(*arguments, status=0)
        except Killed:
            kills += 1
            if kills % 3:
                continue  # Killed again before it is let through.
            steps_left = 0
            headrace(*arguments)
        assert rows_of_file(out) == expected
        assert list(tmp_path.iterdir()) == [out]
        if steps_left > 0:
            break
    assert kills > 15


def test_sigkill_at_random_moments(broker: Broker, tmp_path: Path) -> None:
    """Fetches are small and slow, so that there is something to be killed in."""
    rows = 60_000
    random_ = random.Random(7)
    broker.create_topic("long", partitions=4)
    values = [random_.randbytes(100) for _ in range(rows)]
    columnar.write(broker.bootstrap, "long", table_of(values), batch_bytes=20_000)
    out = tmp_path / "long.parquet"
    arguments = ("export", "long", str(out), "--group-bytes", "100000", "--json")
    with broker.faults.delay(seconds=0.05, api="Fetch", times=None):
        for _ in range(4):
            export = command(broker.bootstrap, *arguments)
            wait_for_another_group(tmp_path / "long.parquet.part.json", export)
            time.sleep(random_.random() * 0.1)
            export.send_signal(signal.SIGKILL)
            export.communicate()
            assert not out.exists()
    columnar.write(broker.bootstrap, "long", table_of(values[:10]))  # Too late to be meant.
    told, _ = command(broker.bootstrap, *arguments).communicate(timeout=60)
    resumed = json.loads(told)["resumed_rows"]
    assert 0 < resumed < rows
    ends = {place["partition"]: place["end"] for place in json.loads(told)["partitions"]}
    exported, topic = pq.read_table(out), columnar.read(broker.bootstrap, "long", end=ends).read_all()
    assert exported.num_rows == rows
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert exported.sort_by(order).equals(topic.sort_by(order))


def table_of(values: list[bytes]) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.binary())})


def wait_for_another_group(bookmark: Path, export: "subprocess.Popen[bytes]") -> None:
    before = rows_kept(bookmark)
    deadline_s = time.monotonic() + 30
    while rows_kept(bookmark) <= before:
        assert export.poll() is None, export.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def rows_kept(bookmark: Path) -> int:
    return int(json.loads(bookmark.read_text())["rows"]) if bookmark.exists() else 0


def kill_at_the_end(headrace: Headrace, monkeypatch: pytest.MonkeyPatch, topic: str, out: Path) -> None:
    """All rows are written, and the file is not whole yet."""

    def kill(file: growing.GrowingFile) -> Path:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(growing.GrowingFile, "complete", kill)
        with pytest.raises(Killed):
            headrace("export", topic, out)


# --- Bad input ---------------------------------------------------------------------------------------------------


def failure(headrace: Headrace, *arguments: str | Path, status: int = 1) -> str:
    lines = headrace(*arguments, status=status).stderr.strip().splitlines()
    if status == 1:
        assert len(lines) == 1
    return lines[-1]


def test_what_cannot_be_exported_is_told_in_one_line(headrace: Headrace, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert "no topic 'nowhere'" in failure(headrace, "export", "nowhere", out)
    assert "--format" in failure(headrace, "export", "strange", tmp_path / "out.xls")
    assert "no column 'size'" in failure(headrace, "export", "strange", out, "--columns", "size")
    assert "csv has none" in failure(headrace, "export", "strange", tmp_path / "out.csv", "-z", "zstd")
    assert "9 is none" in failure(headrace, "export", "strange", out, "-p", "9")
    assert "ends at offset" in failure(headrace, "export", "strange", out, "--end", "999999")
    assert "No such file" in failure(headrace, "export", "strange", tmp_path / "no" / "out.parquet")
    assert "is a directory" in failure(headrace, "export", "strange", tmp_path, "--format", "csv")
    assert list(tmp_path.glob("*.parquet")) == []


def test_a_file_that_is_there_is_not_replaced_unasked(headrace: Headrace, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    assert "--overwrite" in failure(headrace, "export", "strange", out)
    assert out.read_text() == "mine"
    headrace("export", "strange", out, "--overwrite")
    assert len(rows_of_file(out)) == 1000


def test_another_export_does_not_go_on_with_this_ones_file(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.csv"
    kill_at_the_end(headrace, monkeypatch, "strange", out)
    assert "another columns" in failure(headrace, "export", "strange", out, "--columns", "value")
    (tmp_path / "out.csv.part").write_bytes(b"")
    assert "--restart" in failure(headrace, "export", "strange", out)
    headrace("export", "strange", out, "--restart")
    assert rows_of_file(out) == rows_of_topic(headrace.bootstrap, "strange")


def test_a_topic_made_anew_is_another_topic(
    broker: Broker, headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.csv"
    broker.create_topic("again")
    kill_at_the_end(headrace, monkeypatch, "again", out)
    headrace("topics", "delete", "again")
    broker.create_topic("again")
    assert "made anew" in failure(headrace, "export", "again", out)


def test_two_at_once_do_not_write_the_same_file(headrace: Headrace, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with bookmarks.open_alone(tmp_path / "out.csv.part", create=True):
        assert "another process" in failure(headrace, "export", "strange", out)


def test_without_arrow_it_says_what_to_install(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert "pip install 'headrace[arrow]'" in failure(headrace, "export", "strange", tmp_path / "out.parquet")
