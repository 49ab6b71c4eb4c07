"""Results of runs that nobody has run: small ones, by hand, for whatever reads results."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headrace.lab.results import (
    UNITS,
    Bottleneck,
    EndLine,
    Line,
    RepeatLine,
    Results,
    ScenarioLine,
    SecondLine,
    Steady,
    line_json,
    read_results,
)

STARTED = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def scenario(name: str = "steady", *, target: str = "node", workload: Mapping[str, Any] | None = None) -> ScenarioLine:
    return ScenarioLine(
        name=name,
        workload={"name": name, "rate": "100K", "acks": "1", **(workload or {})},
        target={"name": target, "kind": "node"},
        seed=1,
        versions={"headrace": "0.1.0", "python": "3.11.2", "librdkafka": "2.6.0"},
        host={"cpu": "a processor", "cores": 2, "memory_bytes": 8 * 2**30, "kernel": "6.1", "load_1m": 0.4},
        units=dict(UNITS),
        started=STARTED.isoformat(),
    )


def repeat(
    metrics: Mapping[str, float],
    *,
    cell: Mapping[str, Any] | None = None,
    number: int = 0,
    gate: Mapping[str, str] | None = None,
    is_steady: bool | None = True,
    bottleneck: Bottleneck | None = None,
    histograms: Mapping[str, Sequence[Sequence[float]]] | None = None,
    partial: str | None = None,
) -> RepeatLine:
    return RepeatLine(
        cell=cell or {},
        repeat=number,
        metrics=metrics,
        histograms=histograms or {},
        steady=Steady(is_steady=is_steady, variation=0.02 if is_steady else 0.3, slope_per_minute=0.001),
        gate=gate or {},
        bottleneck=bottleneck,
        partial=partial,
    )


def seconds(
    rates: Sequence[int], *, cell: Mapping[str, Any] | None = None, number: int = 0, planned: int = 100_000
) -> list[SecondLine]:
    return [
        SecondLine(
            cell=cell or {},
            repeat=number,
            at=(STARTED + timedelta(seconds=second)).isoformat(),
            planned=planned,
            sent=rate,
            acknowledged=rate,
            consumed=rate,
            bytes=rate * 200,
            lateness_ms=round(1 + second / 10, 3),
        )
        for second, rate in enumerate(rates)
    ]


def reading(second: int, *, load: float) -> str:
    """A line of the machine at the end of that second."""
    machine = {
        "busy_share": 0.5,
        "load_1m": load,
        "disks": {"a": {"written_bytes_per_s": 2**20}, "b": {"written_bytes_per_s": 2**21}},
        "interfaces": {
            "lo": {"received_bytes_per_s": 2**22, "received_packets_per_s": 7.0},
            "eth0": {"received_bytes_per_s": 1.0, "received_packets_per_s": 30_000.0},
        },
    }
    at = (STARTED + timedelta(seconds=second + 1)).isoformat()
    return json.dumps({"type": "reading", "utc": at, "machine": machine})


def trial(rate: float, *, held: bool, cell: Mapping[str, Any], number: int = 0) -> dict[str, Any]:
    """Of a search for the highest rate."""
    return {"kind": "trial", "cell": cell, "repeat": number, "rate_per_s": rate, "is_held": held, "why": "because"}


def latencies(median_ms: float, *, count: int = 10_000) -> list[list[float]]:
    """Buckets with a tail: each further nine takes twice as long."""
    found, left = [], count
    for nine in range(1, 6):
        here = left if nine == 5 else math.ceil(left * (0.5 if nine == 1 else 0.9))
        if here:
            found.append([median_ms * 1000 * 2 ** (nine - 1), here])
        left -= here
    return found


def write(directory: Path, lines: Sequence[Line], *, more: Sequence[Mapping[str, Any]] = ()) -> Path:
    """A run's directory."""
    directory.mkdir(parents=True)
    values = [line_json(line) for line in lines]
    values[-1:-1] = map(dict, more)
    (directory / "results.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values))
    return directory


def of_rates(
    directory: Path,
    rates: Mapping[str, Sequence[float]] | Sequence[float],
    *,
    parameter: str = "acks",
    metric: str = "rate_per_s",
) -> Results:
    """One metric in several repeats, by the value of a swept parameter or of a run without a sweep."""
    by_cell = [({}, rates)] if not isinstance(rates, Mapping) else [({parameter: key}, of) for key, of in rates.items()]
    lines = [repeat({metric: value}, cell=cell, number=n) for cell, of in by_cell for n, value in enumerate(of)]
    return read_results(write(directory, [scenario(), *lines, EndLine()]))
