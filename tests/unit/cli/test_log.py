"""`headrace log` on segments written here, whole and damaged."""

import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.app import app
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, encode_batch


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def batch(base_offset: int, *values: bytes, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(b"k", value, (("h", b"x"),), timestamp_ms=1_700_000_000_000) for value in values]
    return encode_batch(records, base_offset=base_offset, codec=codec, producer_id=7, producer_epoch=1, base_sequence=0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two partitions: one of two segments, one of one."""
    data = tmp_path / "data"
    first, second = data / "web-0", data / "web-10"
    first.mkdir(parents=True)
    second.mkdir()
    (first / "00000000000000000000.log").write_bytes(batch(0, b"a", b"b") + batch(2, b"c", codec=Codec.LZ4))
    (first / "00000000000000000000.index").write_bytes(struct.pack(">ii", 2, len(batch(0, b"a", b"b"))))
    (first / "00000000000000000000.timeindex").write_bytes(struct.pack(">qi", 1_700_000_000_000, 1))
    (first / "00000000000000000003.log").write_bytes(batch(3, b"d"))
    (second / "00000000000000000000.log").write_bytes(batch(0, b"\xff\0"))
    (data / "meta.properties").write_text("version=1\n")
    return data


@pytest.fixture
def damaged(data: Path) -> Path:
    """The same, with a byte turned over in the middle of the first batch of all."""
    segment = data / "web-0/00000000000000000000.log"
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    return data


def test_dump_shows_batches_of_all_partitions_in_order(data: Path) -> None:
    shown = run("dump", data)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    titles = [line for line in lines if line.endswith(".log")]
    assert [title.removeprefix(str(data.resolve())) for title in titles] == [
        "/web-0/00000000000000000000.log",
        "/web-0/00000000000000000003.log",
        "/web-10/00000000000000000000.log",
    ]
    assert lines[2].split() == [
        *("0", "0..1", "2", str(len(batch(0, b"a", b"b"))), "2023-11-14T22:13:20.000Z", "none", "7/1", "#0")
    ]
    assert lines[3].split()[1:3] == ["2..2", "1"]
    assert "lz4" in lines[3]


def test_dump_opens_batches_when_asked(data: Path) -> None:
    shown = run("dump", "--records", data / "web-0/00000000000000000000.log").stdout
    assert "0: 'k' -> 'a' h='x'" in shown
    assert "2: 'k' -> 'c' h='x'" in shown


def test_dump_for_programs_is_a_line_of_json_for_each_batch(data: Path) -> None:
    lines = [json.loads(line) for line in run("dump", "-r", "--json", data).stdout.splitlines()]
    assert [(line["base_offset"], line["last_offset"], line["codec"]) for line in lines] == [
        (0, 1, "none"),
        (2, 2, "lz4"),
        (3, 3, "none"),
        (0, 0, "none"),
    ]
    assert lines[0]["records"][1]["value"] == "b"
    assert lines[3]["records"][0]["value"] == {"base64": "/wA="}


def test_dump_of_indexes(data: Path) -> None:
    offsets = run("dump", "--json", data / "web-0/00000000000000000000.index").stdout
    times = run("dump", data / "web-0/00000000000000000000.timeindex").stdout
    assert json.loads(offsets) == {"offset": 2, "position": len(batch(0, b"a", b"b"))}
    assert times.split() == ["timestamp_ms", "offset", "1700000000000", "1"]


def test_dump_goes_on_behind_damage_and_fails(damaged: Path) -> None:
    shown = run("dump", damaged / "web-0")
    assert shown.exit_code == 1
    assert "are no batch" in shown.stdout
    assert "2..2" in shown.stdout
    assert "3..3" in shown.stdout


def test_verify_of_what_is_whole(data: Path) -> None:
    shown = run("verify", data)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("good") == 3


def test_verify_says_what_is_wrong_and_where_and_fails(damaged: Path) -> None:
    shown = run("verify", damaged)
    assert shown.exit_code == 1
    assert shown.stdout.count("damaged") == 1
    assert "web-0/00000000000000000000.log at 0: damage of" in shown.stdout
    assert "found wrong in 3 segments" in shown.stderr


def test_verify_for_programs(damaged: Path) -> None:
    reports = json.loads(run("verify", "--json", damaged).stdout)
    assert [len(report["findings"]) for report in reports] == [1, 0, 0]
    assert reports[0]["batches"] == 1


def test_repair_keeps_every_good_batch_and_every_bad_byte(damaged: Path) -> None:
    bad = (damaged / "web-0/00000000000000000000.log").read_bytes()[: len(batch(0, b"a", b"b"))]
    shown = run("repair", "--json", damaged)
    assert shown.exit_code == 0, shown.output
    (moved,) = json.loads(shown.stdout)
    assert (moved["first_offset"], moved["next_offset"]) == (0, 2)
    assert (damaged / moved["kept_in"]).read_bytes() == bad
    assert (damaged / "web-0/00000000000000000000.log").read_bytes() == batch(2, b"c", codec=Codec.LZ4)
    assert run("verify", damaged).exit_code == 0
    assert "nothing to repair" in run("repair", damaged).stderr


def test_a_dry_run_changes_nothing(damaged: Path) -> None:
    before = {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()}
    shown = run("repair", "--dry-run", damaged)
    assert shown.exit_code == 0
    assert "0..1" in shown.stdout
    assert {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()} == before


def test_repair_stays_away_from_a_node_at_work(damaged: Path) -> None:
    from headrace.server.main import lock_data

    lock = lock_data(damaged)
    try:
        shown = run("repair", damaged / "web-0")
    finally:
        import os

        os.close(lock)
    assert shown.exit_code == 1
    assert "in use" in shown.stderr


@pytest.mark.parametrize("command", ["dump", "verify", "repair"])
def test_a_place_without_segments(command: str, tmp_path: Path) -> None:
    shown = run(command, tmp_path)
    assert shown.exit_code == 1
    assert "no segment here" in shown.stderr
    assert run(command, tmp_path / "missing").exit_code == 2


def test_looking_needs_no_right_to_write(data: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    run("dump", data)
    run("verify", data)
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before
