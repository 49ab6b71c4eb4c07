"""Workloads: what is sent, by whom and when, who consumes it, and how often it is measured. Never on what.

A workload is a YAML file of known keys, all but `rate` with a default. Those of the sender are the options of
`headrace lab send`. Any of them can be swept over: a cell is one combination of the values, and every cell is measured
`repeats` times.

    rate: 100K
    duration: 30s
    sweep:
      acks: [0, 1, all]

Cells that are no grid are `cases`, each with a name and the keys that are its own.

`KEYS` is the one list of them. Whoever holds a `Workload` knows that all of its cells can be run.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

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
from headrace.lab.engines import ACKS, CODECS, ENGINES
from headrace.lab.faults import Fault, parse_fault
from headrace.lab.gate import Thresholds
from headrace.lab.load import CONSUME, NOBODY, UNPACED, Load, Share
from headrace.lab.programs import PROGRAMS
from headrace.lab.quantities import parse_rate_per_s, parse_size_bytes, parse_time_s
from headrace.lab.requirements import Requirement, parse_requirement
from headrace.lab.scenario import GENERATORS, PROFILES, SCHEDULES
from headrace.lab.sender_places import parse_sender

TARGET_PREFIX: Final = "target."  # Of a key that is swept over and is the target's.
_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)% of (\S+)")
_CASE: Final = "case"  # What a cell of a case is called by.


def _rate(value: Any) -> float | str | Share:
    if value == UNPACED:
        return UNPACED
    if isinstance(value, str) and (share := _SHARE.fullmatch(value)) is not None:
        return Share(float(share[1]), share[2])
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


def _sender_engine(value: Any) -> str:
    return choice(*ENGINES, *PROGRAMS, NOBODY)(value)


def _consumer_engine(value: Any) -> str:
    return choice(*ENGINES, *PROGRAMS)(value)


def _cases(value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, Mapping) or not value or not all(isinstance(each, Mapping) for each in value.values()):
        raise ConfigError(f"{value!r} is not a mapping of names to the keys of each")
    return {str(name): {str(key): each for key, each in keys.items()} for name, keys in value.items()}


def _require(value: Any) -> dict[str, Requirement]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{value!r} is not a mapping of metrics to bounds")
    return {str(metric): parse_requirement(str(metric), bound) for metric, bound in value.items()}


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
    "engine": _sender_engine,
    "processes": whole(least=1),
    "sender": optional(parse_sender),
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
    "consumer_engine": _consumer_engine,
    "consume": choice(*CONSUME),
    "consumer_stagger": _time,
    "behind": _time,
    "consumer_client": pairs,
    # The target afterwards.
    "restart": yes_or_no,
    # The measurement.
    "warm_up": optional(_time),
    "repeats": whole(least=1),
    "interleave": yes_or_no,
    "readings": yes_or_no,
    "record": yes_or_no,
    "gate": _gate,
    "faults": _faults,
    "sweep": _sweep,
    "cases": _cases,
    # In a race, with other targets.
    "title": text,
    "cold": yes_or_no,
    "attempts": whole(least=1),
    "require": _require,
}
# Of the measurement as a whole, so that there is no sense in sweeping over them.
_OF_THE_WHOLE: Final = frozenset({"name", "repeats", "interleave", "gate", "sweep", "cases", "cold", "attempts"})
_OF_A_CELL: Final = frozenset({"title", "require"})  # Said of it, and no part of its load.
_UNSWEPT: Final = _OF_THE_WHOLE | _OF_A_CELL


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination of what is swept over: `values` as they were written."""

    values: Mapping[str, Any]
    load: Load
    target: Mapping[str, Any]  # What differs in the target.
    title: str = ""
    require: Sequence[Requirement] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    name: str
    repeats: int
    interleave: bool
    gate: Thresholds
    cells: Sequence[Cell]
    given: Mapping[str, Any]  # As it was written, with what was set beside it.
    attempts: int = 1  # At most so many at a repeat, until others left the machine alone.
    is_cold: bool = False  # In a race: on a target that nobody has used, and with nobody beside.

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

    def row_name(self, cell: Cell) -> str:
        """What a cell is called where there are others of other workloads: bulk, java/16384/all."""
        return "/".join([self.name, *map(str, cell.values.values())])


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
    cases: Mapping[str, Mapping[str, Any]] = parsed.get("cases", {})
    for case, keys in cases.items():
        if strangers := _OF_THE_WHOLE.intersection(keys):
            raise ConfigError(f"cases: {case}: {min(strangers)} is of all cases, and of none alone")
    called = parsed.get("name", name)
    cells = []
    named: list[str | None] = [*cases] or [None]
    for case, values in itertools.product(named, itertools.product(*sweep.values())):
        swept = dict(zip(sweep, values, strict=True))
        if case is None:
            cells.append(_cell(given, {}, swept, name=called))
        else:
            cells.append(_cell(given, cases[case], {_CASE: case, **swept}, name=called))
    return Workload(
        name=called,
        repeats=parsed.get("repeats", 3),
        interleave=parsed.get("interleave", True),
        gate=parsed.get("gate", Thresholds()),
        cells=cells,
        given=dict(given),
        attempts=parsed.get("attempts", 1),
        is_cold=parsed.get("cold", False),
    )


def parse_load(given: Mapping[str, Any]) -> Load:
    """Of keys that say all of it."""
    parsed = parse_keys(given, KEYS)
    return Load(**{name: value for name, value in parsed.items() if name not in _UNSWEPT})


def _cell(given: Mapping[str, Any], case: Mapping[str, Any], values: Mapping[str, Any], *, name: str) -> Cell:
    """`values` are what it is called by: of the sweep, and the name of its case."""
    own = {key: value for key, value in values.items() if not key.startswith(TARGET_PREFIX) and key != _CASE}
    of_target = {
        key.removeprefix(TARGET_PREFIX): value for key, value in values.items() if key.startswith(TARGET_PREFIX)
    }
    keys = {**given, **case, **own}
    try:
        load = parse_load(keys)
        require = {**_require(given.get("require", {})), **_require(case.get("require", {}))}
        title = text(keys.get("title", "/".join([name, *map(str, values.values())]))).format_map(keys)
    except ConfigError as error:
        where = ", ".join(f"{key}={value}" for key, value in values.items())
        raise ConfigError(f"with {where}: {error}" if values else str(error)) from error
    except (LookupError, ValueError) as error:
        raise ConfigError(f"title: {error} is no key that is set") from error
    return Cell(values=values, load=load, target=of_target, title=title, require=[*require.values()])


def _check_swept(key: str, given: Mapping[str, Any]) -> None:
    try:
        check_keys([key], [name for name in KEYS if name not in _UNSWEPT])
    except ConfigError as error:
        raise ConfigError(f"sweep: {error}") from error
    if given.get(key) is not None:
        raise ConfigError(f"sweep: {key} has a value of its own, too; leave out one of the two")
