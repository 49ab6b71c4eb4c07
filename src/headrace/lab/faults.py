"""Faults that are planned: which broker, what happens to it, and when.

    kill:broker1@5s        killed 5 s after the start, and gone for good
    kill:broker1@5s+3s     and started again 3 s later
    pause:broker2@5s+2s    stopped for 2 s, with all connections open: it neither answers nor goes away
    cut:broker1@5s+1s      cut off for 1 s: every connection broken, and none taken

Times count from when sending starts, warm-up included. Without a length a pause or a cut lasts to the end.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.errors import ConfigError
from headrace.lab.quantities import parse_time_s

KINDS: Final = ("kill", "pause", "cut")
_FORM: Final = re.compile(r"(?P<kind>[^:@+]+)(?::(?P<broker>[^:@+]+))?@(?P<at>[^:@+]+)(?:\+(?P<length>[^:@+]+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: str
    broker: str | None  # Its name or id; None for the only one.
    at_s: float
    length_s: float | None

    def __str__(self) -> str:
        broker = "" if self.broker is None else f":{self.broker}"
        return f"{self.kind}{broker}@{self.at_s:g}s" + ("" if self.length_s is None else f"+{self.length_s:g}s")


def parse_fault(text: str) -> Fault:
    match = _FORM.fullmatch(text)
    if match is None or match["kind"] not in KINDS:
        raise ConfigError(f"{text!r} is not a fault such as kill:broker1@5s, pause:broker1@5s+2s or cut:broker1@5s+1s")
    length = match["length"]
    return Fault(
        kind=match["kind"],
        broker=match["broker"],
        at_s=parse_time_s(match["at"]),
        length_s=None if length is None else parse_time_s(length),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A fault begins, or is over."""

    at_s: float
    fault: Fault
    is_end: bool

    def __str__(self) -> str:
        words = {
            ("kill", False): "killed",
            ("kill", True): "started again",
            ("pause", False): "paused",
            ("pause", True): "resumed",
            ("cut", False): "cut off",
            ("cut", True): "joined again",
        }
        return f"{self.fault.broker or 'the broker'} {words[self.fault.kind, self.is_end]} at {self.at_s:g} s"


def steps(faults: Sequence[Fault]) -> list[Step]:
    """What is to be done when, in order."""

    def each() -> Iterator[Step]:
        for fault in faults:
            yield Step(at_s=fault.at_s, fault=fault, is_end=False)
            if fault.length_s is not None:
                yield Step(at_s=fault.at_s + fault.length_s, fault=fault, is_end=True)

    return sorted(each(), key=lambda step: step.at_s)
