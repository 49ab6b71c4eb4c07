"""What a run leaves: a directory with `results.jsonl`, a line of JSON for each thing that became known, in order.

    scenario   what was to be measured, on what, with which versions, on which machine
    second     one second of one repeat of one cell
    repeat     what a repeat came to: metrics, histograms, whether it was steady and what the quality gate says
    end        the run was done; a file without it is of one that was cut short

A cell is one combination of the values that a workload sweeps over; a run without a sweep has one, `{}`. Lines are
written whole and at once, so that whatever ends a run leaves what was known by then. Lines of kinds that are not listed
here are left to those who wrote them.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, Final, Self

from headrace.lab.errors import LabError
from headrace.lab.rates import steadiness_text

FILE_NAME: Final = "results.jsonl"
PASSED: Final = "passed"
NOT_MEASURABLE: Final = "not measurable here"
CUT_SHORT: Final = "the run ended before its time"

# Metrics of messages that did not come through. Lines have those of which there are any.
LOSSES: Final = ("failed", "never_sent", "not_answered")

Cell = Mapping[str, Any]
Buckets = Sequence[Sequence[float]]  # [upper bound in microseconds, count], ascending.

_QUANTILES: Final = ("p50", "p95", "p99", "p999")
UNITS: Final[Mapping[str, str]] = {
    "rate_per_s": "messages/s",
    "max_rate_per_s": "messages/s",
    "mb_per_s": "MB/s (2^20 bytes of values)",
    "failed": "messages (of the measured seconds)",
    "never_sent": "messages",
    "not_answered": "messages",
    **{f"planned_latency_{name}_ms": "ms" for name in _QUANTILES},
    **{f"send_latency_{name}_ms": "ms" for name in _QUANTILES},
    "lateness_p99_ms": "ms",
    "consumed_per_s": "messages/s",
    "consumed_mb_per_s": "MB/s (2^20 bytes of values)",
    **{f"end_to_end_{name}_ms": "ms" for name in _QUANTILES},
    "broker_cpu_percent": "% of one core",
    "client_cpu_percent": "% of one core",
    "load": "threads (that run, want to or wait for a disk)",
    "received_packets_per_s": "packets/s",
    **{
        f"{phase}_{name}": unit
        for phase in ("sending", "consuming")
        for name, unit in {
            "cpu_s_per_gb": "s/GB (10^9 bytes of values)",
            "memory_mb_peak": "MB (10^6 bytes)",
            "cpu_second_half_ratio": "",
            "memory_mb_growth": "MB (10^6 bytes)",
        }.items()
    },
    "start_s": "s",
    "restart_s": "s",
    "idle_memory_mb": "MB (10^6 bytes)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioLine:
    kind: ClassVar[str] = "scenario"

    name: str
    workload: Mapping[str, Any]
    target: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]
    host: Mapping[str, Any]
    units: Mapping[str, str] = field(default_factory=lambda: dict(UNITS))
    started: str  # UTC.


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLine:
    kind: ClassVar[str] = "second"

    cell: Cell
    repeat: int
    at: str  # UTC, of its beginning.
    planned: int = 0
    sent: int = 0
    acknowledged: int = 0  # With acks=0: given to the network.
    failed: int = 0
    consumed: int = 0
    bytes: int = 0  # Of the values that were sent.
    lateness_ms: float | None = None  # p99; None where nothing was sent, or nothing planned.
    more: Mapping[str, Any] = field(default_factory=dict)  # Beside the others in the line.


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    is_steady: bool | None  # None where it was too short to tell.
    variation: float | None  # None where nothing came through at all.
    slope_per_minute: float
    # Of its confidence interval; None where that is not known, as of results of older versions.
    slope_low_per_minute: float | None = None
    slope_high_per_minute: float | None = None

    def __str__(self) -> str:
        low, high = self.slope_low_per_minute, self.slope_high_per_minute
        return steadiness_text(
            self.is_steady,
            variation=math.inf if self.variation is None else self.variation,
            slope_per_min=self.slope_per_minute,
            low=-math.inf if low is None else low,
            high=math.inf if high is None else high,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    verdict: str
    evidence: Sequence[str] = ()
    # Whether anything was in its way, named or not; None where nobody knows, as in results of earlier versions.
    is_held_up: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatLine:
    kind: ClassVar[str] = "repeat"

    cell: Cell
    repeat: int
    metrics: Mapping[str, float]
    histograms: Mapping[str, Buckets] = field(default_factory=dict)
    steady: Steady | None = None
    gate: Mapping[str, str] = field(default_factory=dict)  # By metric: PASSED, or why it is not measurable here.
    bottleneck: Bottleneck | None = None  # Of sending.
    consumer_bottleneck: Bottleneck | None = None
    events: Sequence[str] = ()  # Faults that were done meanwhile, and when; why messages failed, and how many.
    clocks: str | None = None  # How far those of senders and consumers were off, or that all had one.
    partial: str | None = None
    attempt: int = 0  # Of several, where others had the machine; the calmest counts.
    disturbance: float | None = None  # What others took of the machine, in multiples of what the gate lets pass.

    def is_measured(self, metric: str) -> bool:
        """Whether the gate let it pass; a metric that it was not asked about has passed."""
        return metric in self.metrics and self.gate.get(metric, PASSED) == PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLine:
    kind: ClassVar[str] = "end"

    partial: str | None = None


Line = ScenarioLine | SecondLine | RepeatLine | EndLine


# --- A line and its JSON -----------------------------------------------------------------------------------------


def line_json(line: Line) -> dict[str, Any]:
    value: dict[str, Any] = {"kind": line.kind, **asdict(line)}
    more = value.pop("more", {})
    assert not more.keys() & value.keys(), more.keys() & value.keys()
    return {**value, **more}


_PARTS: Final[Mapping[str, Any]] = {"steady": Steady, "bottleneck": Bottleneck, "consumer_bottleneck": Bottleneck}


def parse_line(value: Mapping[str, Any]) -> Line | None:
    """None for a kind of somebody else's."""
    try:
        match value.get("kind"):
            case "scenario":
                return ScenarioLine(**_known(ScenarioLine, value))
            case "second":
                named = _known(SecondLine, value)
                more = {name: each for name, each in value.items() if name not in named and name != "kind"}
                return SecondLine(**named, more=more)
            case "repeat":
                named = _known(RepeatLine, value)
                for name, made in _PARTS.items():
                    if named.get(name) is not None:
                        named[name] = made(**_known(made, named[name]))
                return RepeatLine(**named)
            case "end":
                return EndLine(**_known(EndLine, value))
            case _:
                return None
    except (TypeError, AttributeError) as error:
        raise LabError(f"a line of kind {value.get('kind')!r} is not as it should be: {error}") from error


def _known(kind: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """What later versions may add is left out."""
    return {each.name: value[each.name] for each in fields(kind) if each.name in value}


# --- Writing -----------------------------------------------------------------------------------------------------


def run_name(*, started: datetime, workload: str, target: str) -> str:
    """Names sort by time. A run that begins in the same second as another has its microseconds, too."""
    stamp = started.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return "-".join(
        [stamp, *(re.sub(r"[^A-Za-z0-9._]+", "_", text).strip("_") or "unnamed" for text in (workload, target))]
    )


class ResultsWriter:
    """To be used in a `with`. Where that ends with an error, the end that is written is partial and says so."""

    def __init__(self, out: Path, scenario: ScenarioLine, *, workload: str, target: str) -> None:
        started = datetime.fromisoformat(scenario.started)
        self.directory = out / run_name(started=started, workload=workload, target=target)
        self.path = self.directory / FILE_NAME
        self._scenario = scenario
        self._goes_on = False
        self._file: IO[str] | None = None
        self._is_ended = False

    @classmethod
    def into(cls, directory: Path, scenario: ScenarioLine) -> Self:
        """A directory that has its name already: what is there is gone on from, if it is of the same."""
        writer = cls(directory, scenario, workload="", target="")
        writer.directory, writer.path = directory, directory / FILE_NAME
        writer._goes_on = writer.path.exists()
        if writer._goes_on:
            found = read_results(writer.path).scenario
            for name in ("name", "workload", "target", "versions"):
                if getattr(found, name) != json.loads(json.dumps(getattr(scenario, name))):
                    raise LabError(f"{directory} has results of another {name}: name another directory")
            whole, newline, _ = writer.path.read_bytes().rpartition(b"\n")
            writer.path.write_bytes(whole + newline)  # Without the line that was being written when its writer died.
        return writer

    def __enter__(self) -> Self:
        try:
            self.directory.mkdir(parents=True, exist_ok=self._goes_on)
            self._file = self.path.open("a" if self._goes_on else "x", encoding="utf-8")
        except OSError as error:
            raise LabError(f"cannot write results to {self.directory}: {error.strerror}") from error
        if not self._goes_on:
            self.write(self._scenario)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        if not self._is_ended:
            self.end(partial=None if kind is None else str(error) or CUT_SHORT)
        self._file.close()

    def write(self, line: Line) -> None:
        self.write_json(line_json(line))

    def write_json(self, value: Mapping[str, Any]) -> None:
        """A line of any kind."""
        assert self._file is not None
        assert not self._is_ended, "the end is the last line"
        # NaN and infinity are not JSON: whoever has none has to say what it is instead.
        self._file.write(json.dumps(value, allow_nan=False, ensure_ascii=False) + "\n")
        self._file.flush()

    def end(self, *, partial: str | None) -> None:
        self.write(EndLine(partial=partial))
        self._is_ended = True


# --- Reading -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    path: Path
    scenario: ScenarioLine
    seconds: Sequence[SecondLine]
    repeats: Sequence[RepeatLine]  # Of several attempts at one the calmest, whatever it measured.
    others: Sequence[Mapping[str, Any]]  # Lines of other kinds, as they are.
    partial: str | None  # Why there is less than was to be.
    attempts: Sequence[RepeatLine] = ()  # All of them.

    @property
    def cells(self) -> list[Cell]:
        """In the order in which they first appear."""
        found: dict[str, Cell] = {}
        for cell in (*(line.cell for line in self.repeats), *(line.cell for line in self.seconds)):
            found.setdefault(cell_key(cell), cell)
        return list(found.values())

    def repeats_of(self, cell: Cell) -> list[RepeatLine]:
        return [line for line in self.repeats if cell_key(line.cell) == cell_key(cell)]

    def seconds_of(self, cell: Cell, *, repeat: int) -> list[SecondLine]:
        wanted = cell_key(cell)
        return [line for line in self.seconds if line.repeat == repeat and cell_key(line.cell) == wanted]

    def values(self, cell: Cell, metric: str) -> list[float]:
        """One of each whole repeat that has the metric, whatever the gate says of it. Of messages that did not come
        through, one that measured anything and does not tell of them had none."""
        whole = [line.metrics for line in self.repeats_of(cell) if line.partial is None and line.metrics]
        if metric in LOSSES:
            return [metrics.get(metric, 0) for metrics in whole]
        return [metrics[metric] for metrics in whole if metric in metrics]


def calmest(attempts: Sequence[RepeatLine]) -> list[RepeatLine]:
    """Of each repeat of each cell the attempt that was disturbed least, and a whole one before one that was cut short.

    What it measured is not looked at: that would be choosing one's results.
    """
    chosen: dict[tuple[str, int], RepeatLine] = {}
    for line in attempts:
        best = chosen.setdefault((cell_key(line.cell), line.repeat), line)
        if _unrest(line) < _unrest(best):
            chosen[cell_key(line.cell), line.repeat] = line
    return list(chosen.values())


def _unrest(line: RepeatLine) -> tuple[bool, float]:
    return line.partial is not None, line.disturbance or 0.0


def cell_key(cell: Cell) -> str:
    """The same for the same values, in whatever order."""
    return json.dumps(cell, sort_keys=True)


def cell_text(cell: Cell) -> str:
    return ", ".join(f"{name}={value}" for name, value in cell.items()) or "-"


def read_results(path: Path) -> Results:
    """Of a run's directory or of the file itself; LabError where there is none, or none that can be read."""
    file = path / FILE_NAME if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise LabError(f"no results in {file}: {why}") from error
    scenario, seconds, attempts, others = None, [], [], []
    end: EndLine | None = None
    for value in _objects(file, text):
        try:
            line = parse_line(value)
        except LabError as error:
            raise LabError(f"{file}: {error}") from error
        match line:
            case ScenarioLine():
                scenario = line
            case SecondLine():
                seconds.append(line)
            case RepeatLine():
                attempts.append(line)
                end = None  # Somebody has gone on after it.
            case EndLine():
                end = line
            case None:
                others.append(value)
    if scenario is None:
        raise LabError(f"{file} is no run's results: it has no line that says what was measured")
    return Results(
        path=file,
        scenario=scenario,
        seconds=seconds,
        repeats=calmest(attempts),
        attempts=attempts,
        others=others,
        partial=CUT_SHORT if end is None else end.partial,
    )


def _objects(file: Path, text: str) -> Iterator[dict[str, Any]]:
    *whole, rest = text.split("\n")  # A last line without an end was being written when its writer died.
    del rest
    for number, line in enumerate(whole, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise LabError(f"{file}: line {number} is not JSON: {error.msg}") from error
        if not isinstance(value, dict):
            raise LabError(f"{file}: line {number} is not a JSON object")
        yield value


def find_runs(out: Path) -> list[Path]:
    """The directories of runs in one, oldest first; none where there is no such directory."""
    return sorted(each.parent for each in out.glob(f"*/{FILE_NAME}"))


# --- Histograms --------------------------------------------------------------------------------------------------


def buckets_quantile_us(buckets: Buckets, share: float) -> float | None:
    """The upper bound that this share of all values does not exceed; None where there are none."""
    total = sum(count for _, count in buckets)
    rank = max(1, math.ceil(share * total))
    below = 0.0
    for upper_us, count in buckets:
        below += count
        if count and below >= rank:
            return upper_us
    return None


def merged_buckets(several: Sequence[Buckets]) -> list[list[float]]:
    """Of histograms whose buckets are the same ones, such as all of one version's."""
    total: dict[float, float] = {}
    for buckets in several:
        for upper_us, count in buckets:
            total[upper_us] = total.get(upper_us, 0) + count
    return [[upper_us, count] for upper_us, count in sorted(total.items())]
