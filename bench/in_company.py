"""`python -m bench.in_company`: what a group at work and a scraped metrics port cost the loads beside them.

The race measures a node in company. Here the rows that have a rate are measured on one node with its company awake and
asleep by turns, seconds apart, since a machine that shares its CPUs with others is half as fast in one minute as in
the next. Each turn gives a ratio of its own, the order changes with each, and what counts is their median with the
interval that holds it in 19 cases of 20. No rate may fall by more than a twentieth.
"""

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.company import company
from bench.errors import LoadError
from bench.host import host_facts
from bench.loads import Site
from bench.metrics import METRICS
from bench.results import Reading, spread_of
from bench.run import FAILURES, measure
from bench.scenarios import WARM_UP, Scenario, blocks, choose
from bench.signals import end_in_order
from bench.systems import HEADRACE, VERSIONS, Broker, fresh_broker
from bench.warm_memory import WarmMemory
from tests.oracle.toolbox import ToolMissing

ALONE: Final = "alone"
IN_COMPANY: Final = "in company"
# A log of 10 GB takes most of the time and is the bulk rows' path; its own question is whether cost grows.
LEFT_OUT: Final = "long"
FALL_MAX: Final = 0.05
REPEATS_MIN: Final = 6  # Of fewer, even the least and the greatest miss the median in more than one case of 20.
HOLDS: Final = "holds"
FELL: Final = "fell"
OPEN: Final = "not decided"

_RATE: Final = METRICS["messages_per_s"]
_HEADS: Final = ("row", ALONE, IN_COMPANY, "ratio", "CPU-s/GB", "host took", "verdict")
_MISSED_MAX: Final = 0.05
_SETTLE_S: Final = 0.5
_MEMORY_MARGIN_BYTES: Final = 1 << 30


def with_a_rate(rows: Sequence[Scenario]) -> tuple[Scenario, ...]:
    """Those that ask for messages per second at full speed."""
    return tuple(row for row in rows if row.block != LEFT_OUT and any(one.metric == _RATE.name for one in row.requires))


def orders(repeats: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """Each repeat with who comes first in it."""
    for repeat in range(repeats):
        yield repeat, (ALONE, IN_COMPANY) if repeat % 2 == 0 else (IN_COMPANY, ALONE)


class Interval(NamedTuple):
    """The median of some values, and between which of them the true one lies, whatever their distribution."""

    median: float
    least: float
    greatest: float

    def verdict(self) -> str:
        if self.least >= 1 - FALL_MAX:
            return HOLDS
        return FELL if self.greatest < 1 - FALL_MAX else OPEN


def interval(values: Sequence[float]) -> Interval:
    """By order statistics: how many of the values lie below the true median is a matter of tossing coins."""
    count, left_out, missed = len(values), 0, 2 / 2 ** len(values)
    while left_out + 1 < count / 2 and missed + (more := 2 * math.comb(count, left_out + 1) / 2**count) <= _MISSED_MAX:
        missed += more
        left_out += 1
    ordered = sorted(values)
    return Interval(statistics.median(values), ordered[left_out], ordered[-1 - left_out])


def ratios(row: Scenario, readings: Sequence[Reading], metric: str) -> list[float]:
    """Of each repeat that was measured both ways, in company to alone."""
    by_how = {
        how: {one.repeat: one.values for one in readings if (one.row, one.system) == (row.name, how)}
        for how in (ALONE, IN_COMPANY)
    }
    both = sorted(by_how[ALONE].keys() & by_how[IN_COMPANY].keys())
    return [by_how[IN_COMPANY][repeat][metric] / by_how[ALONE][repeat][metric] for repeat in both]


def lines(rows: Sequence[Scenario], readings: Sequence[Reading]) -> Iterator[tuple[str, ...]]:
    """Of each row measured both ways, the cells of its line."""
    for row in rows:
        if not (found := ratios(row, readings, _RATE.name)):
            continue
        rate, cpu = interval(found), interval(ratios(row, readings, "cpu_s_per_gb"))
        yield (
            row.title,
            *(_written(row, how, readings) for how in (ALONE, IN_COMPANY)),
            f"{rate.median:.3f} ({rate.least:.3f}..{rate.greatest:.3f})",
            f"{cpu.median:.3f} ({cpu.least:.3f}..{cpu.greatest:.3f})",
            _taken(row, readings),
            rate.verdict(),
        )


def _written(row: Scenario, how: str, readings: Sequence[Reading]) -> str:
    spread = spread_of([one.values[_RATE.name] for one in readings if (one.row, one.system) == (row.name, how)])
    return f"{_RATE.write(spread.median)} ({_RATE.write(spread.least)}..{_RATE.write(spread.greatest)})"


def _taken(row: Scenario, readings: Sequence[Reading]) -> str:
    taken = [one.values.get("steal_share", 0.0) for one in readings if one.row == row.name]
    return f"{statistics.median(taken):.0%}, at most {max(taken):.0%}"


def measure_block(
    block: Sequence[Scenario], *, repeats: int, scale: float, directory: Path, warm: WarmMemory
) -> Iterator[Reading]:
    """On one node: every row of the block both ways, again and again."""
    written_bytes = sum(row.load.written_bytes(scale) for row in block)
    with fresh_broker(HEADRACE, under=directory) as broker:
        site = Site(broker, scale, broker.start(), None)
        with company(broker.bootstrap, metrics_url=broker.metrics_url) as beside:
            for load in WARM_UP:
                load.run(site)
            kept = _topics(broker)
            for repeat, order in orders(repeats):
                for how in order:
                    warm.fill(written_bytes + _MEMORY_MARGIN_BYTES)
                    with warm.feeding(), beside.asleep() if how == ALONE else nullcontext():
                        time.sleep(_SETTLE_S)
                        for row in block:
                            values = measure(row.load, site)
                            yield Reading(row=row.name, system=how, repeat=repeat, values=values)
                    _delete(broker, _topics(broker) - kept)


def _topics(broker: Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics)


def _delete(broker: Broker, topics: set[str]) -> None:
    """So that the next turn makes them anew."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_topics(sorted(topics)).values():
        deleted.result(timeout=60)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.in_company", description="Measure a node alone and in company, by turns."
    )
    parser.add_argument("--rows", help="names of rows, comma-separated, * allowed (default: all with a rate)")
    parser.add_argument("--repeats", type=int, default=12, help="how often each row is measured each way (default 12)")
    parser.add_argument("--scale", type=float, default=0.25, help="share of the race's work (default 0.25)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    options = parser.parse_args(arguments)
    if options.repeats < REPEATS_MIN:
        parser.error(f"fewer than {REPEATS_MIN} repeats decide nothing")
    end_in_order()
    console = Console(width=max(Console().width, 160))
    try:
        rows = with_a_rate(choose(options.rows.split(",") if options.rows else None, quick=False))
        facts = host_facts()
    except (LookupError, ToolMissing, LoadError) as error:
        console.print(str(error), style="red", markup=False)
        return 2
    began_s = time.monotonic()
    try:
        readings = _go(blocks(rows), options.repeats, options.scale, console)
    except FAILURES as error:
        console.print(f"failed: {error}", style="red", markup=False)
        return 1
    table = list(lines(rows, readings))
    notes = [
        f"headrace {VERSIONS[HEADRACE]()}, {options.repeats} repeats by turns, {options.scale:g} of the race's work, "
        f"{(time.monotonic() - began_s) / 60:.1f} min. Rates: median, least..greatest. Ratios: median, and the "
        "interval that holds it in 19 cases of 20.",
        "Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".",
    ]
    shown = Table(*_HEADS)
    for line in table:
        shown.add_row(*line)
    console.print(shown)
    for note in notes:
        console.print(note, markup=False)
    if options.markdown:
        written = [_HEADS, ["---"] * len(_HEADS), *table]
        options.markdown.write_text("\n".join([*notes, "", *(f"| {' | '.join(one)} |" for one in written)]) + "\n")
    return int(any(line[-1] != HOLDS for line in table))


def _go(grouped: Sequence[tuple[Scenario, ...]], repeats: int, scale: float, console: Console) -> list[Reading]:
    readings: list[Reading] = []
    warm = WarmMemory()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        Progress(*columns, console=console, refresh_per_second=1) as progress,
    ):
        task = progress.add_task("", total=2 * repeats * sum(map(len, grouped)))
        try:
            for block in grouped:
                progress.update(task, description=block[0].block)
                for reading in measure_block(block, repeats=repeats, scale=scale, directory=Path(directory), warm=warm):
                    readings.append(reading)
                    progress.advance(task)
        finally:
            warm.close()
    return readings


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
