"""Interfaces as /sys has them."""

from pathlib import Path

from headrace.lab.host.links import Link, find_links


def interface(root: Path, name: str, *, speed: str | None, state: str = "up") -> None:
    (root / name).mkdir()
    (root / name / "operstate").write_text(f"{state}\n")
    if speed is not None:
        (root / name / "speed").write_text(f"{speed}\n")


def test_links_and_what_their_drivers_say(tmp_path: Path) -> None:
    interface(tmp_path, "lo", speed=None, state="unknown")
    interface(tmp_path, "eth0", speed="1000")
    interface(tmp_path, "eth1", speed="-1")
    interface(tmp_path, "ifb0", speed=None, state="down")
    (tmp_path / "bonding_masters").write_text("")
    assert find_links(tmp_path) == [
        Link(interface="eth0", is_up=True, bits_per_s=1_000_000_000),
        Link(interface="eth1", is_up=True, bits_per_s=None),
        Link(interface="ifb0", is_up=False, bits_per_s=None),
    ]
    assert find_links(tmp_path)[0].mb_per_s == 125.0


def test_a_system_that_tells_nothing_has_none(tmp_path: Path) -> None:
    assert find_links(tmp_path / "nowhere") == []
