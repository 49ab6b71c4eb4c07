"""A workload on a target, from the first process to the last line of its results.

Whatever happens, nothing is left running, and what was known by then is in the file.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from headrace.lab.crew import Crew
from headrace.lab.errors import LabError, NotMeasurableHere
from headrace.lab.facts import host_facts, versions
from headrace.lab.fitting import check_brokers, check_load, check_room, lack_of
from headrace.lab.host.measuring import measure_host
from headrace.lab.repeat import STOPPED, run_repeat
from headrace.lab.results import (
    RepeatLine,
    Results,
    ResultsWriter,
    ScenarioLine,
    SecondLine,
    cell_text,
    read_results,
)
from headrace.lab.search import RateSearch, Trial, search_highest
from headrace.lab.sender_places import REMOTE
from headrace.lab.targets.running import Target, running
from headrace.lab.targets.spec import TargetSpec, without_secrets
from headrace.lab.timeline import Second
from headrace.lab.workload import Cell, Workload

_STAMP: Final = "%Y%m%dT%H%M%S"
_SEARCH_START_PER_S: Final = 10_000.0  # Where a workload names no rate.
_HOST_S: Final = 0.3  # Of each measurement of the machine itself.


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Where a run is: what somebody who watches wants to know."""

    cell: Cell
    repeat: int
    number: int  # Of repeats over all cells, from 0.
    repeats: int  # In all.
    second: int
    row: Second


class _Targets:
    """The target of the cell that is measured: the last one, where that is the same."""

    def __init__(self, spec: TargetSpec) -> None:
        self._spec = spec
        self._stack = ExitStack()
        self._key: tuple[Any, ...] | None = None
        self._target: Target | None = None
        self._lacks: dict[tuple[str | None, str | None], str | None] = {}

    def __enter__(self) -> "_Targets":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def spec_of(self, cell: Cell) -> TargetSpec:
        return self._spec.with_changes(cell.target)

    def lack_of(self, cell: Cell) -> str | None:
        """What this machine has not that it takes to measure a cell."""
        spec = self.spec_of(cell)
        key = (cell.load.sender, spec.bootstrap)
        if key not in self._lacks:
            self._lacks[key] = lack_of(cell.load, spec)
        return self._lacks[key]

    def for_cell(self, cell: Cell) -> Target:
        spec = self.spec_of(cell)
        is_cuttable = any(fault.kind == "cut" for fault in cell.load.faults)
        partitions = cell.load.partitions if spec.kind == "null" else 1
        is_remote = cell.load.has_remote
        is_recorded = cell.load.record
        key = (tuple(sorted(map(repr, cell.target.items()))), is_cuttable, is_recorded, partitions, is_remote)
        # What was killed on purpose is not there for the next one.
        if self._target is None or key != self._key or any(not each.is_alive for each in self._target.members):
            self._stack.close()
            self._target = None
            self._target = self._stack.enter_context(
                running(
                    spec,
                    partitions=partitions,
                    is_cuttable=is_cuttable,
                    is_recorded=is_recorded,
                    is_remote=is_remote,
                )
            )
            self._key = key
        return self._target


def run_workload(
    workload: Workload,
    spec: TargetSpec,
    *,
    out: Path,
    watch: Callable[[Moment], None] = lambda moment: None,
    is_stopped: Callable[[], bool] = lambda: False,
    is_search: bool = False,
    tell_trial: Callable[[Trial], None] = lambda trial: None,
    crew: Crew | None = None,
) -> Results:
    """Its results, as they were written to a new directory under `out`. LabError where it cannot be run.

    A cell that takes what this machine has not is in them with the reason; NotMeasurableHere where all are such.

    With `is_search` each repeat is a search for the highest rate that is held, from the workload's own rate on. `crew`
    is who sends and consumes, where that is not for processes on this machine.
    """
    started = datetime.now(UTC)
    with _Targets(spec) as targets:
        for cell in workload.cells:  # All mistakes are told before anything is started.
            if crew is not None and cell.load.has_remote:
                raise LabError(f"sender: {REMOTE} ones are at the end of a link of this host, and not on {crew.where}")
            check_load(cell.load, targets.spec_of(cell), is_search=is_search)
            check_room(cell.load, targets.spec_of(cell))
        host = {**host_facts(), "measured": _measured_host()}
        measurable = [cell for cell in workload.cells if targets.lack_of(cell) is None]
        if not measurable:
            raise NotMeasurableHere(targets.lack_of(workload.cells[0]) or "")
        first = targets.for_cell(measurable[0])
        scenario = ScenarioLine(
            name=workload.name,
            workload=without_secrets(workload.given),
            target=spec.to_json(),
            seed=workload.seed,
            versions={**versions(), **first.versions},
            host=host,
            started=started.isoformat(),
        )
        with ResultsWriter(out, scenario, workload=workload.name, target=spec.name) as writer:
            partial = None
            for number, (cell, repeat) in enumerate(workload.order()):
                if is_stopped():
                    partial = STOPPED
                    break
                if (lack := targets.lack_of(cell)) is not None:
                    writer.write(_unmeasured(cell, repeat, NotMeasurableHere(lack)))
                    continue
                target = targets.for_cell(cell)
                runner = _Runner(workload, target, writer, cell, repeat, number, started, watch, is_stopped, crew)
                try:
                    line = runner.search(tell_trial) if is_search else runner.measure()
                except LabError as error:
                    if partial is None:
                        raise
                    partial = f"{partial}; {error}"  # What was in the way then is in the way of what was to come.
                    break
                writer.write(line)
                partial = partial or line.partial
                # A repeat may be partial for what is its own alone, as where consumers stopped short.
                if line.partial is not None and target.trouble() is not None:
                    break
            writer.end(partial=partial)
    return read_results(writer.path)


def _unmeasured(cell: Cell, repeat: int, lack: NotMeasurableHere) -> RepeatLine:
    told = f"{cell_text(cell.values)}: {lack}"
    return RepeatLine(cell=cell.values, repeat=repeat, metrics={}, gate={"rate_per_s": lack.reason}, events=[told])


def _measured_host() -> dict[str, Any]:
    """What the machine can do, with nothing of ours running yet."""
    measured = measure_host(Path(tempfile.gettempdir()), duration_s=_HOST_S).to_json()
    return {name: value for name, value in measured.items() if name not in ("type", "host")}


class _Runner:
    """One repeat, or the trials of one search."""

    def __init__(
        self,
        workload: Workload,
        target: Target,
        writer: ResultsWriter,
        cell: Cell,
        repeat: int,
        number: int,
        started: datetime,
        watch: Callable[[Moment], None],
        is_stopped: Callable[[], bool],
        crew: Crew | None,
    ) -> None:
        check_brokers(cell.load, target)
        self._workload = workload
        self._target = target
        self._writer = writer
        self._cell = cell
        self._repeat = repeat
        self._number = number
        self._topic = f"{cell.load.topic}-{started.strftime(_STAMP)}-{number}"
        self._watch = watch
        self._is_stopped = is_stopped
        self._crew = crew

    def measure(self) -> RepeatLine:
        readings = self._writer.directory / f"readings-{self._number}.jsonl" if self._cell.load.readings else None
        return self._run(self._cell, self._topic, self._writer.write, readings)

    def search(self, tell_trial: Callable[[Trial], None]) -> RepeatLine:
        """The repeat at the highest rate that was held, with that rate among its metrics. Its seconds are not kept."""
        rate = self._cell.load.rate
        search = RateSearch(rate if isinstance(rate, float) else _SEARCH_START_PER_S)

        def measure(rate_per_s: float, number: int) -> RepeatLine:
            cell = replace(self._cell, load=replace(self._cell.load, rate=rate_per_s))
            return self._run(cell, f"{self._topic}-{number}", lambda second: None)

        def tell(trial: Trial) -> None:
            tell_trial(trial)
            known = {"kind": "trial", "cell": dict(self._cell.values), "repeat": self._repeat}
            self._writer.write_json({**known, **asdict(trial)})

        return search_highest(search, measure, cell=self._cell.values, repeat=self._repeat, tell=tell)

    def _run(
        self, cell: Cell, topic: str, tell: Callable[[SecondLine], None], readings: Path | None = None
    ) -> RepeatLine:
        return run_repeat(
            cell,
            self._repeat,
            self._target,
            topic=topic,
            tell=tell,
            thresholds=self._workload.gate,
            watch=self._watch_second,
            is_stopped=self._is_stopped,
            readings=readings,
            crew=self._crew,
        )

    def _watch_second(self, second: int, row: Second) -> None:
        self._watch(
            Moment(
                cell=self._cell,
                repeat=self._repeat,
                number=self._number,
                repeats=self._workload.repeats * len(self._workload.cells),
                second=second,
                row=row,
            )
        )
