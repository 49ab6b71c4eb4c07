"""What the machine did meanwhile, as charts: out of the readings that a run leaves beside its results, if it did."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from headrace.lab.report.charts import TOGETHER_MAX, Chart, LineChart, chunks
from headrace.lab.report.courses import TIME, series_over
from headrace.lab.report.subjects import Subject
from headrace.lab.results import RepeatLine, Results

_LOOPBACK: Final = "lo"
_MB: Final = 2**20

Machine = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    key: str
    title: str
    unit: str
    value: Callable[[Machine], float | None]


def _sum(machine: Machine, of: str, name: str, *, among: Callable[[str], bool] = lambda _: True) -> float:
    return math.fsum(each.get(name, 0.0) for key, each in machine.get(of, {}).items() if among(key))


def _percent(machine: Machine, name: str) -> float | None:
    share = machine.get(name)
    return None if share is None else share * 100


QUANTITIES: Final = (
    Quantity(key="load", title="Load, over one minute", unit="processes", value=lambda found: found.get("load_1m")),
    Quantity(key="cpu", title="CPU, of all cores", unit="%", value=lambda found: _percent(found, "busy_share")),
    Quantity(
        key="disk",
        title="Written to disks",
        unit="MB/s",
        value=lambda found: _sum(found, "disks", "written_bytes_per_s") / _MB,
    ),
    Quantity(
        key="loopback",
        title="Through loopback",
        unit="MB/s",
        value=lambda found: _sum(found, "interfaces", "received_bytes_per_s", among=_LOOPBACK.__eq__) / _MB,
    ),
    Quantity(
        key="packets",
        title="Packets received from elsewhere",
        unit="a second",
        value=lambda found: _sum(found, "interfaces", "received_packets_per_s", among=_LOOPBACK.__ne__),
    ),
)


def machine_charts(subjects: Sequence[Subject]) -> Iterator[Chart]:
    read = [(subject, found) for subject in subjects if (found := _readings(subject))]
    for quantity in QUANTITIES:
        for number, some in enumerate(chunks(read, TOGETHER_MAX), 1):
            series = [
                series_over(
                    subject.name if len(read) > 1 else quantity.title,
                    [[(second, quantity.value(machine)) for second, machine in repeat] for repeat in repeats],
                )
                for subject, repeats in some
            ]
            if any(any(one.ys) for one in series):
                yield LineChart(
                    key=f"machine-{quantity.key}-{number}",
                    title=quantity.title,
                    unit=quantity.unit,
                    x_text=TIME,
                    series=tuple(one for one in series if one.xs),
                )


def _readings(subject: Subject) -> list[list[tuple[int, Machine]]]:
    """Of each repeat that has some, the second and what was read of the machine at its end."""
    found = []
    for line in subject.repeats:
        lines = subject.results.seconds_of(subject.cell, repeat=line.repeat)
        measured = [each for each in lines if not each.more.get("is_warm_up")]
        if measured:
            began = datetime.fromisoformat(measured[0].at)
            ended = datetime.fromisoformat(lines[-1].at) + timedelta(seconds=1)
            found.append(
                [
                    (round((at - began).total_seconds() - 1), machine)
                    for at, machine in _read(_path(subject.results, line))
                    if at <= ended
                ]
            )
    return [readings for readings in found if readings]


def _path(results: Results, line: RepeatLine) -> Path:
    """They are numbered as the repeats were run."""
    return results.path.parent / f"readings-{results.repeats.index(line)}.jsonl"


def _read(path: Path) -> Iterator[tuple[datetime, Machine]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return  # A run need not have any, and results may have been moved without them.
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue  # The last one of a run that was killed.
        if isinstance(value, dict) and value.get("type") == "reading":
            yield datetime.fromisoformat(value["utc"]), value.get("machine", {})
