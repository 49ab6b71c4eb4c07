"""What is to be sent, by whom and when: everything about a run but where it goes.

A scenario is a value. With its seed it is the same run each time and from however many processes, and it is written
into every result. It knows no addresses and no passwords.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from headrace.errors import ConfigError
from headrace.lab import sensors, weblog
from headrace.lab.driving import PlanLike
from headrace.lab.engines import ENGINES, Terms
from headrace.lab.payloads import (
    DISK_BYTES,
    DISK_MESSAGES,
    Payloads,
    Ring,
    Stream,
    file_lines,
    from_disk,
    looped,
    some_of,
)
from headrace.lab.schedule import (
    SECOND_NS,
    Bursts,
    Constant,
    Plan,
    PlannedCount,
    Poisson,
    Replay,
    Schedule,
    Unpaced,
    every_nth,
    first_messages,
    read_stamps_ns,
    share_of,
    since,
    until,
)
from headrace.lab.sizes import Sizes, messages

Int64s = npt.NDArray[np.int64]

GENERATORS: Final = ("sensor", "weblog", "random")
SCHEDULES: Final = ("constant", "poisson", "bursts", "replay", "unpaced")

# More than a process has been seen to send by far, to nothing and from memory.
RATE_PER_PROCESS_MAX: Final = 20e6

# Named sets of terms, as published experiments used them. S0 is 'How Fast Can We Insert?' (2020), table II.
PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "s0": {"acks": "0", "batch_bytes": 16_384, "linger_ms": 0.0, "buffer_bytes": 33_554_432, "compression": "none"},
}


def check_possible(rate_per_s: float, *, processes: int) -> None:
    if rate_per_s > RATE_PER_PROCESS_MAX * processes:
        raise ConfigError(
            f"rate: {rate_per_s:,.0f} messages a second from {processes} process(es) is impossible: "
            f"no process sends {RATE_PER_PROCESS_MAX:,.0f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The values of messages: the lines of a file, or what a generator makes."""

    generator: str = "sensor"
    file: str | None = None  # Instead.
    in_ram: bool = True
    size: str = "200"  # Of `random`, as `sizes.Sizes` reads it.
    compressible: float = 0.0  # Of `random`.

    def __post_init__(self) -> None:
        if self.generator not in GENERATORS:
            raise ConfigError(f"payload {self.generator!r} is none of {', '.join(GENERATORS)}")
        if not 0 <= self.compressible <= 1:
            raise ConfigError(f"compressible {self.compressible:g} is not a share from 0 to 1")
        Sizes(self.size)

    def endless(self, seed: int) -> Iterator[bytes]:
        match self.generator:
            case "sensor":
                return sensors.records(seed)
            case "weblog":
                return weblog.lines(seed)
            case _:
                return messages(seed, Sizes(self.size), compressible=self.compressible)

    def once(self, seed: int) -> Iterator[bytes]:
        """What a ring loops: the file, or some of what a generator makes."""
        return some_of(self.endless(seed)) if self.file is None else file_lines(Path(self.file))

    def payloads(self, seed: int, *, first: int, step: int, needed: int | None = None) -> Payloads:
        """`needed` is how many will be asked for in all, where that is known: no more are written to disk."""
        if self.in_ram:
            return Ring(self.once(seed), first=first, step=step)
        if self.file is None:
            messages_max = DISK_MESSAGES if needed is None else min(DISK_MESSAGES, needed)
            some = some_of(self.endless(seed), messages_max=messages_max, bytes_max=DISK_BYTES)
            return Stream(from_disk(some), first=first, step=step)
        path = Path(self.file)
        return Stream(looped(lambda: file_lines(path)), first=first, step=step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    topic: str = "lab"
    partition: int | None = None  # None for all of them by turns.
    engine: str = "librdkafka"
    processes: int = 1
    schedule: str = "constant"
    rate_per_s: float | None = None
    burst_messages: int = 1000
    speed: float = 1.0  # Of a replay without a rate.
    stagger_s: float = 0.0  # Between the starts of two processes: each joins in the plan where it is by then.
    duration_s: float | None = None
    messages: int | None = None
    seed: int = 1
    payload: Payload = field(default_factory=Payload)
    terms: Terms = field(default_factory=Terms)

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ConfigError(f"engine {self.engine!r} is none of {', '.join(ENGINES)}")
        if self.schedule not in SCHEDULES:
            raise ConfigError(f"schedule {self.schedule!r} is none of {', '.join(SCHEDULES)}")
        if self.rate_per_s is None and self.schedule not in ("replay", "unpaced"):
            raise ConfigError(f"a {self.schedule} schedule needs a rate, such as 100K messages a second")
        if self.rate_per_s is not None and self.schedule == "unpaced":
            raise ConfigError("an unpaced schedule has no rate")
        if self.rate_per_s is not None and self.rate_per_s <= 0:
            raise ConfigError(f"a rate of {self.rate_per_s:g} messages a second sends nothing")
        if self.rate_per_s is not None and self.processes >= 1:  # Of none it is said below that they send nothing.
            check_possible(self.rate_per_s, processes=self.processes)
        if self.schedule == "replay" and self.payload.file is None and not self.payload.in_ram:
            raise ConfigError("a replay needs a log that ends: a file, or what is read in RAM")
        if self.speed <= 0 or self.burst_messages < 1:
            raise ConfigError(f"speed {self.speed:g} and bursts of {self.burst_messages} must be more than nothing")
        if self.duration_s is None and self.messages is None:
            raise ConfigError("a run needs an end: a duration, a number of messages, or both")
        if (self.duration_s is not None and self.duration_s <= 0) or (self.messages is not None and self.messages < 1):
            raise ConfigError("a run that ends at once sends nothing")
        if self.processes < 1:
            raise ConfigError(f"{self.processes} sender processes send nothing")
        if self.stagger_s < 0 or (self.duration_s is not None and self._begin_s(self.processes - 1) >= self.duration_s):
            raise ConfigError(
                f"a stagger of {self.stagger_s:g} s: the last of {self.processes} processes would start after the end"
            )

    @property
    def end_ns(self) -> int | None:
        return None if self.duration_s is None else round(self.duration_s * SECOND_NS)

    def _begin_s(self, index: int) -> float:
        return index * self.stagger_s

    def payloads(self, index: int) -> Payloads:
        """The share of one process."""
        return self.payload.payloads(self.seed, first=index, step=self.processes, needed=self._messages_max())

    def _messages_max(self) -> int | None:
        """None where only the end of the run will tell; by a plan of chance there may be a few more."""
        if self.messages is not None or self.rate_per_s is None or self.duration_s is None:
            return self.messages
        return math.ceil(self.rate_per_s * self.duration_s)

    def plan(self, index: int) -> tuple[PlanLike, PlannedCount | None]:
        """The share of one process, and the same to count by."""
        if self.schedule == "unpaced":
            share = None if self.messages is None else share_of(self.messages, first=index, step=self.processes)
            begin_ns = round(self._begin_s(index) * SECOND_NS)
            return Unpaced(end_ns=self.end_ns, messages=share, begin_ns=begin_ns), None
        schedule = self._schedule()
        return Plan(self._blocks(schedule, index)), PlannedCount(self._blocks(schedule, index))

    def _blocks(self, schedule: Schedule, index: int) -> Iterator[Int64s]:
        blocks = schedule.blocks()
        if self.messages is not None:
            blocks = first_messages(blocks, self.messages)
        if self.end_ns is not None:
            blocks = until(blocks, self.end_ns)
        share = every_nth(blocks, first=index, step=self.processes)
        return since(share, round(self._begin_s(index) * SECOND_NS)) if self._begin_s(index) else share

    def _schedule(self) -> Schedule:
        rate = self.rate_per_s
        match self.schedule:
            case "replay":
                return Replay(read_stamps_ns(self.payload.once(self.seed)), rate_per_s=rate, speed=self.speed)
            case "poisson":
                assert rate is not None
                return Poisson(rate, self.seed)
            case "bursts":
                assert rate is not None
                return Bursts(rate, self.burst_messages)
            case _:
                assert rate is not None
                return Constant(rate)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        parts = {"payload": Payload(**value["payload"]), "terms": Terms(**value["terms"])}
        return cls(**{**value, **parts})
