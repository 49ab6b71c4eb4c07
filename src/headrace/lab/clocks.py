"""How far the clocks of others are from ours, where they are on other hosts: what a moment in UTC is worth there.

Whoever is asked says what time it is. Its answer was made at some moment between the question and its arrival here, so
half of the round trip is as far as the estimate can be wrong; of several the shortest tells best.
"""

import select
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headrace.lab.crew import Member

ASK: Final[dict[str, Any]] = {"clock": True}
ONE_CLOCK: Final = "one host, one clock"
_ROUND_TRIPS: Final = 8
_ANSWER_S: Final = 5.0
_MS: Final = 1e6


class RoundTrip(NamedTuple):
    asked_ns: int
    theirs_ns: int
    answered_ns: int


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Theirs is ahead of ours by so much."""

    offset_ns: int
    error_ns: int


def answer() -> dict[str, Any]:
    return {"utc_ns": time.time_ns()}


def estimate_offset(trips: Iterable[RoundTrip]) -> ClockOffset | None:
    """None where there was no answer."""
    best = min(trips, key=lambda trip: trip.answered_ns - trip.asked_ns, default=None)
    if best is None:
        return None
    took_ns = best.answered_ns - best.asked_ns
    return ClockOffset(best.theirs_ns - (best.asked_ns + took_ns // 2), -(-took_ns // 2))


def ask_clock(member: Member) -> ClockOffset | None:
    """Of one that is ready and has not been told to start: it says nothing else meanwhile."""
    trips = []
    for _ in range(_ROUND_TRIPS):
        asked_ns = time.time_ns()
        member.say(ASK)
        if not select.select([member], [], [], _ANSWER_S)[0]:
            break
        heard = member.hear()
        answered_ns = time.time_ns()
        if not heard or "utc_ns" not in heard[0]:
            break  # It has died: whoever listens next hears its end.
        trips.append(RoundTrip(asked_ns, heard[0]["utc_ns"], answered_ns))
    return estimate_offset(trips)


def ask_clocks(members: Sequence[Member]) -> list[ClockOffset | None]:
    """Of those on other hosts, for whom no process is known here."""
    return [ask_clock(member) for member in members if member.pid is None]


def clocks_text(offsets: Sequence[ClockOffset | None]) -> str:
    """For people; none of them is on another host where there are none."""
    if not offsets:
        return ONE_CLOCK
    known = [each for each in offsets if each is not None]
    if not known:
        return f"how far {len(offsets)} others are off is not known"
    low_ms, high_ms = (of(each.offset_ns for each in known) / _MS for of in (min, max))
    error_ms = max(each.error_ns for each in known) / _MS
    text = f"{len(known)} others are off by {low_ms:+.2f} to {high_ms:+.2f} ms, each ± {error_ms:.2f} ms at most"
    silent = len(offsets) - len(known)
    return f"{text}; {silent} did not say" if silent else text
