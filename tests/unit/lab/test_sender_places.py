"""Where senders are, as workloads say it."""

from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.lab.sender_places import MIXED, parse_sender, places_of


@pytest.mark.parametrize(
    ("sender", "processes", "places"),
    [
        (None, 2, ["local", "local"]),
        ("local", 1, ["local"]),
        ("remote", 3, ["remote"] * 3),
        (MIXED, 2, ["local", "remote"]),
        (MIXED, 4, ["local", "remote"] * 2),
        ("local+remote+remote", 3, ["local", "remote", "remote"]),
    ],
)
def test_each_process_has_a_place(sender: str | None, processes: int, places: list[str]) -> None:
    assert places_of(None if sender is None else parse_sender(sender), processes=processes) == places


@pytest.mark.parametrize("value", ["far", "local+", "", "local + remote", True, 1, ["local", "remote"]])
def test_a_place_that_is_none_is_told(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"is none of local, remote and local\+remote"):
        parse_sender(value)


def test_a_place_needs_a_process() -> None:
    with pytest.raises(ConfigError, match=r"sender: local\+remote are 2 places, for processes: 1"):
        places_of(MIXED, processes=1)
