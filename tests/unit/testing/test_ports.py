import socket
from pathlib import Path

import pytest

from headrace.testing import ports
from headrace.testing.ports import lasting_ports


def test_ports_are_free_different_and_not_the_kernels_to_give_away() -> None:
    found = lasting_ports(20)
    assert len(set(found)) == 20
    for port in found:
        with socket.create_server(("127.0.0.1", port)):
            pass
    with socket.create_server(("127.0.0.1", 0)) as ephemeral:
        assert max(found) < ephemeral.getsockname()[1]


def test_where_there_is_no_range_to_read_the_standard_one_is_kept_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ports, "_EPHEMERAL", tmp_path / "missing")
    assert max(lasting_ports(20)) < 49152


def test_where_the_kernel_gives_away_all_of_them_any_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    range_file = tmp_path / "range"
    range_file.write_text("1024\t65535\n")
    monkeypatch.setattr(ports, "_EPHEMERAL", range_file)
    assert len(set(lasting_ports(20))) == 20
