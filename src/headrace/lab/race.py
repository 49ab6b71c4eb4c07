"""What a race asks: which workloads, on which targets by turns, and which of them when there is little time.

    targets: [node, kafka]
    warm_up: [warm-up]
    workloads: [start, bulk, java]
    smoke: [start, bulk, java/16384/all]

Workloads are named by their files in the directory `workloads` beside it. The last target is the rival: a workload
whose rate is a share of another's gets that share of the rival's rate, so that all targets meet the same. `smoke` names
rows, a row being a workload or one of its cells. Whoever holds a `Race` knows that all of it can be run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, Self

from headrace.errors import ConfigError
from headrace.lab.documents import Parse, parse_keys, read_document, text
from headrace.lab.load import Share
from headrace.lab.targets.spec import TargetSpec, find_target
from headrace.lab.workload import Cell, Workload, read_workload


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ConfigError(f"{value!r} is not a list")
    return [text(each) for each in value]


_KEYS: Final[Mapping[str, Parse]] = {"targets": _texts, "warm_up": _texts, "workloads": _texts, "smoke": _texts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """All cells of one workload, once, on a target that was started for it."""

    workload: Workload
    repeat: int
    target: TargetSpec

    def __str__(self) -> str:
        return f"{self.workload.name} on {self.target.name}, repeat {self.repeat + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    name: str
    targets: Sequence[TargetSpec]
    warm_up: Sequence[Workload]  # Run and forgotten on every target that was started, unless the workload is cold.
    workloads: Sequence[Workload]
    smoke: Sequence[str]
    given: Mapping[str, Any]  # All workloads as they were written.
    scale: float = 1.0  # Of the work.

    def __post_init__(self) -> None:
        names = [name for name, _, _ in self.rows()]
        for name in (*self.smoke, *(needed for _, _, cell in self.rows() for needed in _needed(cell))):
            if not any(_is_named(row, name) for row in names):
                raise ConfigError(f"there is no row {name!r}; there are {', '.join(names)}")

    @property
    def rival(self) -> TargetSpec:
        return self.targets[-1]

    def rows(self) -> Iterator[tuple[str, Workload, Cell]]:
        for workload in self.workloads:
            for cell in workload.cells:
                yield workload.row_name(cell), workload, cell

    def turns(self) -> Iterator[Turn]:
        """Targets alternate, so that a slow minute of the machine does not fall on one of them alone."""
        for workload in self.workloads:
            for repeat in range(workload.repeats):
                for target in self.targets:
                    yield Turn(workload=workload, repeat=repeat, target=target)

    def chosen(self, patterns: Sequence[str]) -> Self:
        """Rows by name, with those whose rates they need."""
        names = [name for name, _, _ in self.rows()]
        missing = [pattern for pattern in patterns if not any(_is_named(name, pattern) for name in names)]
        if missing:
            raise ConfigError(f"no such row: {', '.join(missing)}; there are {', '.join(names)}")
        kept = {name for name in names if any(_is_named(name, pattern) for pattern in patterns)}
        for name, _, cell in self.rows():
            if name in kept:
                kept |= {row for row in names for needed in _needed(cell) if _is_named(row, needed)}
        workloads = [
            replace(each, cells=[cell for cell in each.cells if each.row_name(cell) in kept]) for each in self.workloads
        ]
        return replace(self, workloads=[each for each in workloads if each.cells], smoke=())

    def only(self, target: str) -> Self:
        return replace(self, targets=[each for each in self.targets if each.name == target])

    def scaled(self, scale: float) -> Self:
        """So much of the work."""
        return replace(
            self,
            scale=scale,
            warm_up=[_scaled(each, scale) for each in self.warm_up],
            workloads=[_scaled(each, scale) for each in self.workloads],
        )

    def repeated(self, *, repeats: int | None, attempts: int | None) -> Self:
        """As often as is said, where it is."""
        changes = {"repeats": repeats, "attempts": attempts}
        said: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
        return replace(self, workloads=[replace(each, **said) for each in self.workloads])

    def to_json(self) -> dict[str, Any]:
        """What results are of. Which rows, and how often, is no part of it: one may go on for longer."""
        return {"scale": self.scale, **self.given}


def _scaled(workload: Workload, scale: float) -> Workload:
    return replace(workload, cells=[replace(cell, load=cell.load.scaled(scale)) for cell in workload.cells])


def _needed(cell: Cell) -> list[str]:
    return [cell.load.rate.row] if isinstance(cell.load.rate, Share) else []


def _is_named(row: str, pattern: str) -> bool:
    """A workload's name is of all its cells."""
    return fnmatch(row, pattern) or fnmatch(row.partition("/")[0], pattern)


def read_race(path: Path) -> Race:
    try:
        parsed = parse_keys(read_document(path), _KEYS)
        for key in ("targets", "workloads"):
            if not parsed.get(key):
                raise ConfigError(f"{key} is missing: which are there to race?")
        directory = path.parent / "workloads"
        warm_up, workloads = (
            [read_workload(directory / f"{name}.yaml") for name in parsed.get(key, [])]
            for key in ("warm_up", "workloads")
        )
        return Race(
            name=path.stem,
            targets=[find_target(name) for name in parsed["targets"]],
            warm_up=warm_up,
            workloads=workloads,
            smoke=parsed.get("smoke", []),
            given={each.name: dict(each.given) for each in (*warm_up, *workloads)},
        )
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith(str(path.parent)) else f"{path}: {error}") from error
