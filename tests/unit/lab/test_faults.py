"""Faults as they are written, and what is to be done when."""

import pytest

from headrace.errors import ConfigError
from headrace.lab.faults import Fault, parse_fault, steps


@pytest.mark.parametrize("text", ["kill@5s", "kill:broker1@5s", "pause:2@1.5s+2s", "cut:node@5s+1s"])
def test_they_are_written_as_they_are_read(text: str) -> None:
    assert str(parse_fault(text)) == text


def test_their_parts() -> None:
    assert parse_fault("pause:broker2@500ms+1m") == Fault(kind="pause", broker="broker2", at_s=0.5, length_s=60)


@pytest.mark.parametrize("text", ["kill", "kill@", "kill:@5s", "melt@5s", "kill@5s+", "kill@5s@6s", "@5s"])
def test_what_is_none_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a fault such as kill:broker1@5s"):
        parse_fault(text)


def test_a_time_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match="'soon' is not a length of time"):
        parse_fault("kill@soon")


def test_steps_come_in_order_of_time() -> None:
    told = [
        str(step) for step in steps([parse_fault("pause:a@5s+2s"), parse_fault("kill:b@6s"), parse_fault("cut@1s+9s")])
    ]
    assert told == [
        "the broker cut off at 1 s",
        "a paused at 5 s",
        "b killed at 6 s",
        "a resumed at 7 s",
        "the broker joined again at 10 s",
    ]
