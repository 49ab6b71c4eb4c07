"""A race as it is run: turn by turn, each on a target that was started for it and is gone afterwards.

Never do two targets run at once. Before a turn counts, its target is warmed up; beside it goes on what goes on at a
broker in use (`bystanders`), and the memory that it will write to is there (`warm_memory`). A turn in which others took
much of the machine is made again, as often as its workload says, and of each cell the calmest attempt counts.

All attempts are in the results, one directory for each target, as they become known: a race that was interrupted goes
on where it was.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from confluent_kafka import KafkaException

from headrace.errors import HeadraceError
from headrace.lab.bystanders import bystanders
from headrace.lab.errors import LabError
from headrace.lab.facts import host_facts, versions
from headrace.lab.fitting import check_load, written_bytes
from headrace.lab.gate import Thresholds
from headrace.lab.host.warm_memory import WarmMemory
from headrace.lab.load import Share
from headrace.lab.race import Race, Turn
from headrace.lab.repeat import run_repeat
from headrace.lab.results import RepeatLine, Results, ResultsWriter, ScenarioLine, calmest, cell_key, read_results
from headrace.lab.targets.apache_kafka import KAFKA_VERSION
from headrace.lab.targets.running import Target, running
from headrace.lab.targets.spec import TargetSpec
from headrace.lab.workload import Cell

_DISK_MARGIN_BYTES: Final = 4 << 30
# Beside the logs: the page cache of indexes, a JVM's heap, the clients' queues.
MEMORY_MARGIN_BYTES: Final = 1 << 30
_UNKNOWN_BYTES: Final = 1 << 30  # Of a load that does not know before what it will write.
# How brokers, tools and clients say that they did not do as told. Anything else is our bug, and ends the race.
FAILURES: Final = (HeadraceError, KafkaException, RuntimeError, subprocess.TimeoutExpired)


def run_race(
    race: Race,
    *,
    out: Path,
    node_version: str,
    host: Mapping[str, Any],
    watch: Callable[[Turn], None] = lambda turn: None,
    tell_failure: Callable[[Turn, str], None] = lambda turn, why: None,
) -> dict[str, Results]:
    """By target. `out` gets a directory for each; what is there already is not measured again.

    `node_version` and `host` say more of ours and of the machine than the lab knows. A turn that fails costs its
    figures, not the race.
    """
    with ExitStack() as stack:
        racing = _Racing(race, out, stack, node_version=node_version, host=host)
        for turn in race.turns():
            watch(turn)
            racing.make(turn, tell_failure)
    return {name: read_results(writer.path) for name, writer in racing.writers.items()}


class _Racing:
    def __init__(self, race: Race, out: Path, stack: ExitStack, *, node_version: str, host: Mapping[str, Any]) -> None:
        self._race = race
        self._lines: dict[str, list[RepeatLine]] = {}
        self.writers: dict[str, ResultsWriter] = {}
        self._warm = stack.enter_context(closing(WarmMemory()))
        for spec in race.targets:
            scenario = ScenarioLine(
                name=race.name,
                workload=race.to_json(),
                target=spec.to_json(),
                seed=1,
                versions=versions() | _broker_version(spec, node_version),
                host={**host_facts(), **host},
                started=datetime.now(UTC).isoformat(),
            )
            writer = ResultsWriter.into(out / spec.name, scenario)
            self._lines[spec.name] = [*read_results(writer.path).attempts] if writer.path.exists() else []
            self.writers[spec.name] = stack.enter_context(writer)

    def make(self, turn: Turn, tell_failure: Callable[[Turn, str], None]) -> None:
        cells = [_cell_values(turn, cell) for cell in turn.workload.cells]
        while not suffices(self._attempts(turn), cells, attempts_max=turn.workload.attempts):
            number = 1 + max((line.attempt for line in self._attempts(turn)), default=-1)
            lines = [replace(line, attempt=number) for line in self._attempt(turn)]
            for line in lines:
                self.writers[turn.target.name].write(line)
            self._lines[turn.target.name] += lines
            if failures := [line.partial for line in lines if line.partial is not None]:
                tell_failure(turn, failures[0])
                return

    def _attempts(self, turn: Turn) -> list[RepeatLine]:
        keys = {cell_key(_cell_values(turn, cell)) for cell in turn.workload.cells}
        found = self._lines[turn.target.name]
        return [line for line in found if line.repeat == turn.repeat and cell_key(line.cell) in keys]

    def _attempt(self, turn: Turn) -> list[RepeatLine]:
        """A line for each cell; where something failed, none of them counts."""
        try:
            cells = [self._resolved(turn, cell) for cell in turn.workload.cells]
            self._make_room(turn, cells)
            with self._warm.feeding(), running(turn.target) as target, self._beside(turn, target):
                if not turn.workload.is_cold:
                    warm_up(self._race, target)
                lines = [
                    _run_kept(
                        cell, turn.repeat, target, topic=f"{turn.workload.name}-{number}", gate=turn.workload.gate
                    )
                    for number, cell in enumerate(cells)
                ]
        except FAILURES as error:
            lines = [
                RepeatLine(cell=cell.values, repeat=turn.repeat, metrics={}, partial=str(error))
                for cell in turn.workload.cells
            ]
        return [
            replace(line, cell=_cell_values(turn, cell)) for line, cell in zip(lines, turn.workload.cells, strict=True)
        ]

    def _beside(self, turn: Turn, target: Target) -> AbstractContextManager[object]:
        if turn.workload.is_cold:
            return nullcontext()
        return bystanders(target.settings, metrics_urls=target.metrics)

    def _resolved(self, turn: Turn, cell: Cell) -> Cell:
        """With a rate, where that is a share of one measured before."""
        if not isinstance(cell.load.rate, Share):
            check_load(cell.load, turn.target)
            return cell
        row = cell.load.rate.row
        found = [
            line.metrics["rate_per_s"]
            for name, workload, of in self._race.rows()
            if name == row
            for line in calmest(self._lines[self._race.rival.name])
            if line.partial is None and cell_key(line.cell) == cell_key({"workload": workload.name, **of.values})
        ]
        if not found:
            raise LabError(f"the rate of {row} is not known, and this is to be a share of it")
        rate_per_s = float(round(median(found) * cell.load.rate.percent / 100))
        return replace(cell, load=replace(cell.load, rate=rate_per_s))

    def _make_room(self, turn: Turn, cells: Sequence[Cell]) -> None:
        warm_up = [] if turn.workload.is_cold else [cell for each in self._race.warm_up for cell in each.cells]
        sizes = [written_bytes(cell.load) for cell in (*warm_up, *cells)]
        written = round(sum(_UNKNOWN_BYTES if size is None else size for size in sizes))
        if shutil.disk_usage(tempfile.gettempdir()).free < written + _DISK_MARGIN_BYTES:
            raise LabError(f"needs {written / 1e9:.1f} GB of disk in {tempfile.gettempdir()}, and some to spare")
        self._warm.fill(written + MEMORY_MARGIN_BYTES)


def warm_up(race: Race, target: Target) -> None:
    """A JVM needs its hot code compiled to show what it can do, and what people have has served for a minute."""
    for workload in race.warm_up:
        for number, cell in enumerate(workload.cells):
            _run_kept(cell, 0, target, topic=f"{workload.name}-{number}", gate=workload.gate)


def _run_kept(cell: Cell, repeat: int, target: Target, *, topic: str, gate: Thresholds) -> RepeatLine:
    """On a target that is soon gone, and its topic with it. Of several attempts the seconds are nobody's."""
    return run_repeat(cell, repeat, target, topic=topic, tell=lambda second: None, thresholds=gate, keeps_topic=True)


def suffices(attempts: Sequence[RepeatLine], cells: Sequence[Mapping[str, Any]], *, attempts_max: int) -> bool:
    """Whether every cell was measured undisturbed, or as often as may be."""
    whole = [line for line in attempts if line.partial is None]
    tries = min(sum(cell_key(line.cell) == cell_key(cell) for line in whole) for cell in cells)
    return tries >= attempts_max or (tries > 0 and all((line.disturbance or 0.0) <= 1 for line in calmest(whole)))


def _cell_values(turn: Turn, cell: Cell) -> dict[str, Any]:
    """What it is called by among those of other workloads."""
    return {"workload": turn.workload.name, **cell.values}


def _broker_version(spec: TargetSpec, node_version: str) -> dict[str, str]:
    match spec.kind:
        case "node":
            return {"headrace (node)": node_version}
        case "kafka":
            return {"Apache Kafka": KAFKA_VERSION}
        case _:
            return {}
