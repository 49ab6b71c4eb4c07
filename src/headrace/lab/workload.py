"""Workloads: what is sent, by whom and when, who consumes it, and how often it is measured. Never on what.

A workload is a YAML file of known keys, all but `rate` with a default. Those of the sender are the options of
`headrace lab send`. Any of them can be swept over: a cell is one combination of the values, and every cell is measured
`repeats` times.

    rate: 100K
    duration: 30s
    sweep:
      acks: [0, 1, all]

`KEYS` is the one list of them. Whoever holds a `Workload` knows that all of its cells can be run.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from headrace.errors import ConfigError
from headrace.lab.documents import (
    Parse,
    check_keys,
    choice,
    number,
    optional,
    pairs,
    parse_keys,
    read_document,
    text,
    whole,
    yes_or_no,
)
from headrace.lab.engines import ACKS, CODECS, ENGINES, Terms
from headrace.lab.faults import Fault, parse_fault
from headrace.lab.gate import Thresholds
from headrace.lab.quantities import parse_rate_per_s, parse_size_bytes, parse_time_s
from headrace.lab.scenario import GENERATORS, PROFILES, SCHEDULES, Payload, Scenario

UNPACED: Final = "max"
REMOTE: Final = "remote"
CONSUME: Final = ("during", "after")
TARGET_PREFIX: Final = "target."  # Of a key that is swept over and is the target's.
# More than a process has been seen to send by far, to nothing and from memory.
RATE_PER_PROCESS_MAX: Final = 20e6
_WARM_UP_S: Final = 5
_DURATION_S: Final = 30.0


def _rate(value: Any) -> float | str:
    if value == UNPACED:
        return UNPACED
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f"{value!r} is not a rate such as 500, 100K, 1.5M or {UNPACED}")
    return parse_rate_per_s(f"{value:f}" if isinstance(value, float) else str(value))


def _size(value: Any) -> int:
    return parse_size_bytes(text(value))


def _time(value: Any) -> float:
    return parse_time_s(text(value)) if value != 0 else 0.0


def _linger(value: Any) -> float:
    """A number is of milliseconds, as everywhere."""
    return number(least=0)(value) if not isinstance(value, str) else parse_time_s(value) * 1000


def _gate(value: Any) -> Thresholds:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{value!r} is not a mapping of limits")
    names = {each.name: number(least=0) for each in fields(Thresholds)}
    return Thresholds(**parse_keys(value, names))


def _sweep(value: Any) -> dict[str, list[Any]]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{value!r} is not a mapping of keys to lists of values")
    for key, values in value.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"{key}: {values!r} is not a list of values such as [1, 2]")
        if any(values.count(each) > 1 for each in values):
            raise ConfigError(f"{key}: {values!r} has a value twice")
    return {str(key): list(values) for key, values in value.items()}


def _faults(value: Any) -> tuple[Fault, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(parse_fault(text(each)) for each in listed)


KEYS: Final[Mapping[str, Parse]] = {
    "name": text,
    # The topic, made anew for every repeat.
    "topic": text,
    "partitions": whole(least=1),
    "replication": optional(whole(least=1)),
    "broker": optional(text),
    "topic_config": pairs,
    # The senders, as `lab send` has them.
    "engine": choice(*ENGINES),
    "processes": whole(least=1),
    "sender": optional(choice(REMOTE)),
    "partition": optional(whole(least=0)),
    "rate": optional(_rate),
    "schedule": choice(*(each for each in SCHEDULES if each != "unpaced")),
    "burst": whole(least=1),
    "speed": number(least=0.001),
    "duration": optional(_time),
    "messages": optional(whole(least=1)),
    "payload": choice(*GENERATORS),
    "file": optional(text),
    "read_in_ram": yes_or_no,
    "size": text,
    "compressible": number(least=0, most=1),
    "seed": whole(least=0),
    "profile": optional(choice(*PROFILES)),
    "acks": optional(choice(*ACKS)),
    "batch_size": optional(_size),
    "batch_messages": optional(whole(least=1)),
    "linger": optional(_linger),
    "buffer": optional(_size),
    "compression": optional(choice(*CODECS)),
    "stagger": _time,
    "client": pairs,
    # The consumers.
    "groups": whole(least=0),
    "consumers": whole(least=1),
    "consumer_engine": choice(*ENGINES),
    "consume": choice(*CONSUME),
    "consumer_stagger": _time,
    "consumer_client": pairs,
    # The measurement.
    "warm_up": optional(_time),
    "repeats": whole(least=1),
    "interleave": yes_or_no,
    "readings": yes_or_no,
    "gate": _gate,
    "faults": _faults,
    "sweep": _sweep,
}
# Of the measurement as a whole, so that there is no sense in sweeping over them.
_UNSWEPT: Final = frozenset({"name", "repeats", "interleave", "gate", "sweep"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One cell's: every key with a value. The names are those of `KEYS`."""

    topic: str = "lab"
    partitions: int = 1
    replication: int | None = None
    broker: str | None = None  # Its name or id: it alone has the topic, or leads it.
    topic_config: Mapping[str, str] = field(default_factory=dict)
    engine: str = "librdkafka"
    processes: int = 1
    sender: str | None = None  # REMOTE for those on another host, or at the end of a link.
    partition: int | None = None
    rate: float | str | None = None
    schedule: str = "constant"
    burst: int = 1000
    speed: float = 1.0
    duration: float | None = None
    messages: int | None = None
    payload: str = "sensor"
    file: str | None = None
    read_in_ram: bool = True
    size: str = "200"
    compressible: float = 0.0
    seed: int = 1
    profile: str | None = None
    acks: str | None = None
    batch_size: int | None = None
    batch_messages: int | None = None
    linger: float | None = None
    buffer: int | None = None
    compression: str | None = None
    stagger: float = 0.0
    client: Mapping[str, str] = field(default_factory=dict)
    groups: int = 0
    consumers: int = 1  # Of each group.
    consumer_engine: str = "librdkafka"
    consume: str = "during"
    consumer_stagger: float = 0.0
    consumer_client: Mapping[str, str] = field(default_factory=dict)
    warm_up: float | None = None
    readings: bool = True
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if self.rate is None and self.schedule != "replay":
            raise ConfigError(f"rate is missing: how many messages a second? 500, 100K or {UNPACED}")
        if isinstance(self.rate, float) and self.rate > RATE_PER_PROCESS_MAX * self.processes:
            raise ConfigError(
                f"rate: {self.rate:,.0f} messages a second from {self.processes} process(es) is impossible: "
                f"no process sends {RATE_PER_PROCESS_MAX:,.0f}"
            )
        if self.rate == UNPACED and self.schedule != "constant":
            raise ConfigError(f"rate: {UNPACED} has no schedule, so it cannot be {self.schedule}")
        if self.partition is not None and self.partition >= self.partitions:
            raise ConfigError(f"partition: there is no {self.partition} in a topic of {self.partitions}")
        if self.file is not None and not Path(self.file).is_file():
            raise ConfigError(f"file: there is no file {self.file}")
        if self.measured_s is not None and self.measured_s <= 0:
            raise ConfigError(f"duration: of {self.measured_s:g} s nothing can be told")
        for fault in self.faults:
            if self.duration is not None and fault.at_s >= self.send_s:
                raise ConfigError(f"faults: {fault} comes after the end, {self.send_s:g} s after the start")
        self.scenario(topic=self.topic, seed=self.seed)

    @property
    def warm_up_s(self) -> int:
        """Whole seconds, for everything is counted by the second. None for a number of messages, if not said."""
        if self.warm_up is not None:
            return math.ceil(self.warm_up)
        return 0 if self.measured_s is None else _WARM_UP_S

    @property
    def measured_s(self) -> float | None:
        """None for as long as the messages take."""
        return _DURATION_S if self.duration is None and self.messages is None else self.duration

    @property
    def send_s(self) -> float:
        """With the warm-up; a guess where messages are counted."""
        if self.measured_s is not None:
            return self.warm_up_s + self.measured_s
        assert self.messages is not None
        return self.warm_up_s + (self.messages / self.rate if isinstance(self.rate, float) else _DURATION_S)

    @property
    def terms(self) -> Terms:
        return Terms(**(PROFILES[self.profile] if self.profile is not None else {})).with_changes(
            {
                "acks": self.acks,
                "batch_bytes": self.batch_size,
                "batch_messages": self.batch_messages,
                "linger_ms": self.linger,
                "buffer_bytes": self.buffer,
                "compression": self.compression,
            }
        )

    def scenario(self, *, topic: str, seed: int) -> Scenario:
        is_unpaced = self.rate == UNPACED
        return Scenario(
            topic=topic,
            partition=self.partition,
            engine=self.engine,
            processes=self.processes,
            schedule="unpaced" if is_unpaced else self.schedule,
            rate_per_s=self.rate if isinstance(self.rate, float) else None,
            burst_messages=self.burst,
            speed=self.speed,
            stagger_s=self.stagger,
            duration_s=None if self.measured_s is None else self.send_s,
            messages=self.messages,
            seed=seed,
            payload=Payload(
                generator=self.payload,
                file=self.file,
                in_ram=self.read_in_ram,
                size=self.size,
                compressible=self.compressible,
            ),
            terms=self.terms,
        )

    @classmethod
    def from_keys(cls, given: Mapping[str, Any]) -> Self:
        parsed = parse_keys(given, KEYS)
        return cls(**{name: value for name, value in parsed.items() if name not in _UNSWEPT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination of what is swept over: `values` as they were written."""

    values: Mapping[str, Any]
    load: Load
    target: Mapping[str, Any]  # What differs in the target.


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    name: str
    repeats: int
    interleave: bool
    gate: Thresholds
    cells: Sequence[Cell]
    given: Mapping[str, Any]  # As it was written, with what was set beside it.

    @property
    def seed(self) -> int:
        return self.cells[0].load.seed

    def order(self) -> Iterator[tuple[Cell, int]]:
        """Cells and repeats as they are to be run.

        Interleaved, the first repeats of all cells come before the second ones: what changes about the machine in the
        course of an hour then changes all cells alike, and not the last of them.
        """
        if self.interleave:
            for repeat in range(self.repeats):
                yield from ((cell, repeat) for cell in self.cells)
        else:
            for cell in self.cells:
                yield from ((cell, repeat) for repeat in range(self.repeats))


def read_workload(path: Path, changes: Mapping[str, Any] | None = None) -> Workload:
    """`changes` are of keys that are set beside the file, and win."""
    given = read_document(path)
    try:
        return parse_workload(given | dict(changes or {}), name=path.stem)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_workload(given: Mapping[str, Any], *, name: str) -> Workload:
    """Of keys and values as YAML has them; `name` where it has none of its own."""
    parsed = parse_keys(given, KEYS)
    sweep: Mapping[str, Sequence[Any]] = parsed.get("sweep", {})
    for key in sweep:
        if not key.startswith(TARGET_PREFIX):
            _check_swept(key, given)
    cells = []
    for values in itertools.product(*sweep.values()):
        cell = dict(zip(sweep, values, strict=True))
        own = {key: value for key, value in cell.items() if not key.startswith(TARGET_PREFIX)}
        of_target = {
            key.removeprefix(TARGET_PREFIX): value for key, value in cell.items() if key.startswith(TARGET_PREFIX)
        }
        try:
            load = Load.from_keys({**given, **own})
        except ConfigError as error:
            where = ", ".join(f"{key}={value}" for key, value in cell.items())
            raise ConfigError(f"with {where}: {error}" if cell else str(error)) from error
        cells.append(Cell(values=cell, load=load, target=of_target))
    return Workload(
        name=parsed.get("name", name),
        repeats=parsed.get("repeats", 3),
        interleave=parsed.get("interleave", True),
        gate=parsed.get("gate", Thresholds()),
        cells=cells,
        given=dict(given),
    )


def _check_swept(key: str, given: Mapping[str, Any]) -> None:
    try:
        check_keys([key], [name for name in KEYS if name not in _UNSWEPT])
    except ConfigError as error:
        raise ConfigError(f"sweep: {error}") from error
    if given.get(key) is not None:
        raise ConfigError(f"sweep: {key} has a value of its own, too; leave out one of the two")
