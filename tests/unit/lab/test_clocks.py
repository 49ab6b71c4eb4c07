"""How far the clocks of others are from ours."""

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.lab.child import Lines, Pipe
from headrace.lab.clocks import (
    ASK,
    ONE_CLOCK,
    ClockOffset,
    RoundTrip,
    ask_clock,
    ask_clocks,
    clocks_text,
    estimate_offset,
)

MS = 1_000_000


def test_the_shortest_round_trip_tells_best_and_half_of_it_is_the_doubt() -> None:
    trips = [RoundTrip(0, 500 * MS, 100 * MS), RoundTrip(1000 * MS, 1043 * MS, 1006 * MS)]
    assert estimate_offset(trips) == ClockOffset(40 * MS, 3 * MS)
    assert estimate_offset([]) is None


class Other(Lines):
    pid: int | None = None

    def last_words(self) -> str:
        return ""


@pytest.fixture
def ends() -> Iterator[tuple[Other, Pipe]]:
    here, there = os.pipe(), os.pipe()
    other = Other(os.fdopen(here[0], "rb", buffering=0), os.fdopen(there[1], "wb"))
    incoming, outgoing = os.fdopen(there[0], "rb", buffering=0), os.fdopen(here[1], "wb")
    yield other, Pipe(incoming, outgoing)
    other.close()
    incoming.close()
    outgoing.close()


@pytest.mark.parametrize("ahead_s", [-3.0, 0.0, 7.5])
def test_a_clock_that_is_wrong_is_found_out(ends: tuple[Other, Pipe], ahead_s: float) -> None:
    other, pipe = ends

    def answer() -> None:
        heard: Any = pipe.hear()
        while heard == ASK:
            pipe.say({"utc_ns": time.time_ns() + round(ahead_s * 1e9)})
            heard = pipe.hear()

    thread = threading.Thread(target=answer)
    thread.start()
    found = ask_clock(other)
    other.say({"start_utc_ns": 0})
    thread.join()
    assert found is not None
    assert abs(found.offset_ns - ahead_s * 1e9) <= found.error_ns < 1e9


def test_one_that_is_gone_says_nothing(ends: tuple[Other, Pipe]) -> None:
    other, pipe = ends
    pipe._outgoing.close()
    assert ask_clock(other) is None


def test_on_one_host_nobody_is_asked(ends: tuple[Other, Pipe]) -> None:
    other, pipe = ends
    other.pid = os.getpid()
    assert ask_clocks([other]) == []
    assert not pipe.is_spoken_to()


def test_what_is_said_of_them() -> None:
    assert clocks_text([]) == ONE_CLOCK
    some = [ClockOffset(-2 * MS, MS), ClockOffset(5 * MS, 3 * MS)]
    assert clocks_text(some) == "2 others are off by -2.00 to +5.00 ms, each ± 3.00 ms at most"
    assert clocks_text([some[0], None]).endswith("; 1 did not say")
    assert clocks_text([None]) == "how far 1 others are off is not known"
