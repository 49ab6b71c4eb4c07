"""`headrace lab host` on this machine, whatever it is."""

from pathlib import Path

import pytest

from tests.clients.command_line import Headrace

NOBODY = "127.0.0.1:1"


def test_the_machine_is_measured(tmp_path: Path) -> None:
    found = Headrace(NOBODY).json("lab", "host", "--duration", "200ms", "--data", tmp_path)
    assert found["loopback"]["mb_per_s"] > 1
    assert found["host"]["cores"] >= 1
    assert 0 <= found["stalls"]["share"] < 1
    assert list(found["disk"]) == ["not measurable here"] or found["disk"]["bulk_mb_per_s"] > 0
    assert list(tmp_path.iterdir()) == []


def test_people_get_a_table(tmp_path: Path) -> None:
    shown = Headrace(NOBODY)("lab", "host", "--duration", "100ms", "--data", tmp_path)
    for what in ("synchronous write", "loopback", "a busy thread is held off"):
        assert what in shown.stdout


@pytest.mark.parametrize("duration", ["0s", "2h", "soon"])
def test_a_duration_that_cannot_be_is_one_line(duration: str) -> None:
    result = Headrace(NOBODY)("lab", "host", "--duration", duration, status=1)
    assert result.stderr.count("\n") == 1
    assert duration in result.stderr
