"""What a run of senders shows: a bar with its rate and lateness meanwhile, and a table in the end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from headrace.cli.output import note, print_table, progress
from headrace.lab.bottleneck import Finding
from headrace.lab.crew import HERE
from headrace.lab.scenario import Scenario
from headrace.lab.sent import QUANTILES, Sent, quantiles_ms
from headrace.lab.timeline import Second

_DURATIONS: Final = {
    "latency_planned": "planned to {end}",
    "latency_sent": "sent to {end}",
    "lateness": "planned to sent (lateness)",
}


@contextmanager
def watching(scenario: Scenario) -> Iterator[Callable[[int, Second], None]]:
    """A bar for a person who watches."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[now]}"), TimeRemainingColumn())
    with progress(*columns) as bars:
        bar = bars.add_task(f"{scenario.engine} to {scenario.topic}", total=_steps(scenario), now="connecting")
        done = 0

        def watch(second: int, row: Second) -> None:
            nonlocal done
            done += row.sent
            completed = second + 1 if scenario.duration_s is not None else done
            bars.update(bar, completed=completed, now=_now_text(scenario, row))

        yield watch


def _steps(scenario: Scenario) -> float | None:
    return scenario.duration_s if scenario.duration_s is not None else scenario.messages


def _now_text(scenario: Scenario, row: Second) -> str:
    rate = f"{row.sent:,}/s"
    late = quantiles_ms(row.lateness)
    if late is None or scenario.schedule == "unpaced":
        return rate
    return f"{rate}, late by {late['p50']:g} ms, p99 {late['p99']:g} ms"


def print_sent(sent: Sent) -> None:
    total, outcome, scenario = sent.total, sent.outcome, sent.scenario
    senders = f"{scenario.processes} x {scenario.engine}" + ("" if sent.where == HERE else f" on {sent.where}")
    title = f"{senders} to {sent.target}, topic {scenario.topic}"
    answered = ("given to the network", total.unanswered) if scenario.terms.acks == "0" else None
    counts: list[tuple[str, int]] = [("planned", total.planned), ("sent", total.sent)]
    counts.append(answered or ("acknowledged", total.acknowledged))
    counts.append(("failed", total.failed))
    if outcome.unsent:
        counts.append(("never sent", outcome.unsent))
    if outcome.lost_sight:
        counts.append(("not answered in time", outcome.lost_sight))
    rows = [(name, f"{count:,}", _per_s_text(count, outcome.elapsed_s)) for name, count in counts]
    if scenario.duration_s is not None and not sent.is_partial:
        # Overtime is for sending what was planned before it, and none of the plan's.
        rows[0] = ("planned", f"{total.planned:,}", _per_s_text(total.planned, scenario.duration_s))
    print_table(("messages", "count", "a second"), rows, title=title, right=("count", "a second"))
    print_table(("milliseconds", *QUANTILES), _durations(sent), right=tuple(QUANTILES))
    print_table(("rate", "messages/s"), _rates(sent), right=("messages/s",))
    note(f"{sent.mib_per_s:,.1f} MiB/s of values in {outcome.elapsed_s:.2f} s; {sent.steadiness}")
    if sent.where != HERE:
        note(f"clocks: {sent.clocks}")
    for reason, count in outcome.failures.items():
        note(f"{count:,} failed: {reason}")
    if outcome.unsent:
        note(f"{outcome.unsent:,} were due and never sent: they are as late as at the end, and in no latency")
    if sent.is_partial:
        note("partial: it ended before its time")


def _per_s_text(count: int, elapsed_s: float) -> str:
    return f"{count / elapsed_s:,.0f}" if elapsed_s else "-"


def _durations(sent: Sent) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for name, text in _DURATIONS.items():
        if sent.scenario.schedule == "unpaced" and name != "latency_sent":
            continue  # Nothing was planned.
        found = quantiles_ms(getattr(sent.total, name))
        values = ["-"] * len(QUANTILES) if found is None else [f"{value:.3f}" for value in found.values()]
        rows.append((text.format(end=sent.latency_ends()), *values))
    return rows


def _rates(sent: Sent) -> list[tuple[str, str]]:
    rows = [("mean of the whole run", f"{sent.rate_per_s:,.0f}")]
    if (minute := sent.one_minute_per_s) is not None:
        rows.append(("one-minute rate as Kafka shows it, in the end", f"{minute:,.0f}"))
    if (window := sent.window_per_s) is not None:
        rows.append(("last 60 s", f"{window:,.0f}"))
    return rows


def print_bottleneck(found: Finding) -> None:
    rows = [("" if number else found.verdict.value, one) for number, one in enumerate(found.evidence)]
    print_table(("bottleneck", "evidence"), rows)


def print_ceilings(found: Sequence[Sent]) -> None:
    rows = [
        (sent.scenario.engine, sent.scenario.processes, f"{sent.rate_per_s:,.0f}", f"{sent.mib_per_s:,.1f}")
        for sent in found
    ]
    columns = ("engine", "processes", "messages/s", "MiB/s")
    print_table(columns, rows, title="What each engine reaches against a sink that keeps nothing", right=columns[1:])
