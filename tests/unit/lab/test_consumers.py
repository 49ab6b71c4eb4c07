"""Groups of consumers: what each got, and how long they are waited for."""

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import pytest

from headrace.lab.child import Lines
from headrace.lab.consumed import Consumed
from headrace.lab.consumers import Consumers

READY = {"ready": True}


class Told(Lines):
    """A member that is ready at once, and says its lines when it is told to start."""

    def __init__(self, lines: Sequence[Mapping[str, Any]]) -> None:
        here, there = os.pipe()
        super().__init__(open(here, "rb", buffering=0), io.BytesIO())  # noqa: SIM115
        self._voice = open(there, "wb", buffering=0)  # noqa: SIM115
        self._left = lines
        self._utter([READY])
        self.pid = None

    def say(self, message: Mapping[str, Any]) -> None:
        told, self._left = self._left, ()
        self._utter(told)

    def _utter(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if lines:
            self._voice.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def last_words(self) -> str:
        return "a bad dream"

    def end(self) -> None:
        self._voice.close()
        self.close()


class Tellers:
    """A crew, and its only squad."""

    where = "paper"

    def __init__(self, *lines: Sequence[Mapping[str, Any]]) -> None:
        self.members = [Told(told) for told in lines]

    def begin(self, module: str, orders: Sequence[Mapping[str, Any]]) -> Self:
        assert module == "headrace.lab.consumer_process"
        assert len(orders) == len(self.members)
        return self

    def end(self) -> None:
        for member in self.members:
            member.end()


def second(number: int, messages: int, *, total: int, throttled_ns: int = 0) -> dict[str, Any]:
    row = Consumed(messages=messages, throttled_ns=Counter({0: throttled_ns}))
    return {"second": number, "row": row.to_json(), "total": total}


@contextmanager
def consuming(*lines: Sequence[Mapping[str, Any]], groups: int, behind_s: float = 0.0) -> Iterator[Consumers]:
    names = [f"group{number}" for number in range(groups)]
    with Consumers(
        {}, "t", groups=names, members=len(lines) // groups, behind_s=behind_s, crew=Tellers(*lines)
    ) as made:
        made.join(start_utc_ns=0)
        made.start(0)
        while made.told_seconds == 0:  # What they have said is there, and is heard by and by.
            made.listen(1.0)
        yield made


def looks(most: int) -> tuple[list[int], Callable[[], bool]]:
    """Ends the wait after so many looks; how many there were."""
    seen: list[int] = []

    def is_stopped() -> bool:
        seen.append(len(seen))
        return len(seen) > most

    return seen, is_stopped


def test_what_each_group_got() -> None:
    lines = [[second(0, each, total=each)] for each in (30, 12, 20, 0)]
    with consuming(*lines, groups=2) as consumers:
        assert consumers.totals == {"group0": 42, "group1": 20}
        assert consumers.told_seconds == 1


def test_how_long_each_was_held_back_is_its_own() -> None:
    lines = [[second(0, 1, total=1, throttled_ns=each)] for each in (30, 12, 20)]
    with consuming(*lines, groups=1) as consumers:
        [(_, row)] = consumers.rows()
        assert row.throttled_ns == {0: 30, 1: 12, 2: 20}


def test_a_group_that_got_more_is_no_reason_not_to_wait_for_another() -> None:
    with consuming([second(0, 70, total=70)], [second(0, 30, total=30)], groups=2) as consumers:
        seen, is_stopped = looks(2)
        consumers.drain(expected=50, is_stopped=is_stopped)
        assert len(seen) == 3
        seen, is_stopped = looks(2)
        consumers.drain(expected=30, is_stopped=is_stopped)
        assert seen == []


def test_those_of_whom_nothing_comes_are_not_waited_for_any_more() -> None:
    with consuming([second(0, 30, total=30)], groups=1) as consumers:
        seen, is_stopped = looks(100)
        consumers.drain(expected=50, is_stopped=is_stopped, idle_s=0.0)
        assert len(seen) == 1


@pytest.mark.parametrize("got", [0, 30])
def test_a_group_that_is_behind_is_waited_for_until_it_begins_and_then_until_it_has_joined(got: int) -> None:
    """It begins in a century, or has begun in 1970."""
    lines = [[second(0, 50, total=50)], [second(0, got, total=got)]]
    with consuming(*lines, groups=2, behind_s=3600.0) as consumers:
        seen, is_stopped = looks(3)
        consumers.start(2**62)
        consumers.drain(expected=50, is_stopped=is_stopped, idle_s=0.0)
        assert len(seen) == 4
        seen, is_stopped = looks(3)
        consumers.start(0)
        consumers.drain(expected=50, is_stopped=is_stopped, idle_s=0.0)
        assert len(seen) == (1 if got else 4)


def test_one_that_died_is_waited_for_by_nobody() -> None:
    with consuming([second(0, 30, total=30), {"trouble": "a bad dream"}], groups=1) as consumers:
        consumers.drain(expected=50)
        assert consumers.troubles == ["consumer 0: a bad dream"]
        assert consumers.totals == {"group0": 30}
