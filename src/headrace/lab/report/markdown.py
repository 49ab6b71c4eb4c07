"""The report in short, as Markdown: for a repository or a ticket, where a page of HTML is only a file."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from headrace.lab.findings import judge, preset_of
from headrace.lab.metrics import in_order, metric_text
from headrace.lab.published import published_for
from headrace.lab.readings.recorder import RECORDED
from headrace.lab.report.facts import host_facts
from headrace.lab.report.page import by_reason, source_text, title_of
from headrace.lab.report.scales import figures, margin_text
from headrace.lab.report.subjects import Subject, unit_text
from headrace.lab.results import NOT_MEASURABLE, Results

# What a table of it has room for.
_SHOWN: Final = (
    "max_rate_per_s",
    "rate_per_s",
    "mb_per_s",
    "failed",
    "never_sent",
    "not_answered",
    "planned_latency_p50_ms",
    "planned_latency_p99_ms",
    "send_latency_p50_ms",
    "send_latency_p99_ms",
    "end_to_end_p50_ms",
    "consumed_per_s",
    "consumed_mb_per_s",
)


def markdown(runs: Sequence[Results], subjects: Sequence[Subject], figure_paths: Sequence[str]) -> str:
    return "\n".join(
        (
            f"# {_text(title_of(runs))}",
            "",
            *_about(runs),
            *(f"\n**Partial:** {_text(run.partial)}." for run in runs if run.partial),
            *(f"\n**Recorded:** {RECORDED}." for run in runs if any(RECORDED in each.events for each in run.repeats)),
            *_findings(runs),
            *_metrics(subjects),
            *_events(subjects),
            *_bottlenecks(subjects),
            *_figures(figure_paths),
            "",
        )
    )


def _about(runs: Sequence[Results]) -> Iterator[str]:
    for run in runs:
        host, when = host_facts(run.scenario.host), datetime.fromisoformat(run.scenario.started)
        machine = ", ".join(host[name] + after for name, after in _MACHINE.items() if name in host)
        version = run.scenario.versions.get("headrace", "")
        yield f"{when:%d %B %Y, %H:%M} UTC, headrace {_text(version)}: {_text(machine)}. {len(run.repeats)} repeats."


_MACHINE: Final = {"cpu": "", "cores": " cores", "memory": " of memory", "synchronous write": " written synchronously"}


def _findings(runs: Sequence[Results]) -> Iterator[str]:
    preset = preset_of(runs)
    if preset is None:
        return
    yield from ("", "## What the paper found", "")
    judged = judge(preset, runs)
    rows = [
        (f"**{each.answer.verdict.value}**", each.finding.text, each.answer.why, f"“{each.finding.source.quote}”")
        for each in judged
    ]
    yield from _table(("here", "finding", "why", judged[0].finding.source.paper), rows)
    if stated := published_for(preset):
        yield from ("", "Published values, beside ours in the figures:", "")
        yield from (f"- {_text(source_text(each))}" for each in stated)


def _metrics(subjects: Sequence[Subject]) -> Iterator[str]:
    measured = {metric for subject in subjects for metric in subject.metrics()}
    names = [name for name in in_order(measured) if name in _SHOWN]
    if not names:
        return
    units = {name: next((unit for each in subjects if (unit := unit_text(each, name))), "") for name in names}
    yield from ("", "## Measured", "")
    heads = [f"{metric_text(name)}, {units[name]}" if units[name] else metric_text(name) for name in names]
    yield from _table(("", *heads), ([each.name, *(_value(each, name) for name in names)] for each in subjects))
    reasons: dict[str, list[str]] = {}
    for subject in subjects:
        for why, metrics in by_reason(subject.doubts, subject.metrics()).items():
            reasons.setdefault(why, []).append(f"{_joined(metrics)} ({subject.name})")
    if reasons:
        yield from ("", f"† {NOT_MEASURABLE}:", "")
        yield from (f"- {_text('; '.join(about))}: {_text(why)}" for why, about in reasons.items())


def _joined(metrics: Sequence[str]) -> str:
    """What several have in common, once: "planned to answered, p50, p95, p99"."""
    stems = [metric.rpartition(", ")[0] for metric in metrics]
    return ", ".join(
        metric.removeprefix(f"{stem}, ") if stem and stem == before else metric
        for metric, stem, before in zip(metrics, stems, ["", *stems], strict=False)
    )


def _value(subject: Subject, metric: str) -> str:
    found = subject.interval(metric)
    if found is None:
        return "-"
    sure = f" {margin_text(found.low, found.high)}" if found.is_known else ""
    return f"{figures(found.value)}{sure}{' †' if subject.doubt(metric) else ''}"


def _events(subjects: Sequence[Subject]) -> Iterator[str]:
    """What happened meanwhile, each with the repeats in which it did."""
    found: dict[str, list[str]] = {}
    for subject in subjects:
        for line in subject.repeats:
            for event in line.events:
                found.setdefault(event, []).append(f"{subject.name}, repeat {line.repeat + 1}")
    if found:
        yield from ("", "## Meanwhile", "")
        yield from (f"- {_text(event)} ({_text('; '.join(where))})" for event, where in found.items())


def _bottlenecks(subjects: Sequence[Subject]) -> Iterator[str]:
    rows = []
    for subject in subjects:
        of_sending = [line.bottleneck for line in subject.repeats]
        of_consuming = [line.consumer_bottleneck for line in subject.repeats]
        for what, told in (("", of_sending), (" (consuming)", of_consuming)):
            if found := [each for each in told if each is not None]:
                verdicts = dict.fromkeys(each.verdict for each in found)
                rows.append((f"{subject.name}{what}", ", ".join(verdicts), "; ".join(found[0].evidence)))
    if rows:
        yield from ("", "## Bottlenecks", "")
        yield from _table(("", "verdict", "evidence, of the first repeat"), rows)


def _figures(paths: Sequence[str]) -> Iterator[str]:
    if paths:
        yield from ("", "## Figures", "")
        for path in paths:
            name = path.rpartition("/")[2].removesuffix(".png").replace("-", " ").replace("_", " ")
            yield f"![{name}]({path})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(_text, head))} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_text, row))} |"


def _text(value: str | None) -> str:
    """Nobody's words end a cell or begin markup."""
    return (value or "").replace("\n", " ").replace("|", "\\|").replace("<", "&lt;")
