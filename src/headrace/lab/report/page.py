"""The report: one page of HTML with everything in it, drawn from results and from nothing else.

It asks for nothing over the network and runs no script, so that it can be sent, kept and printed.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from typing import Final

from headrace import __version__
from headrace.lab.comparison import Row, compare
from headrace.lab.errors import LabError
from headrace.lab.findings import Judgement, Verdict, judge, preset_of
from headrace.lab.metrics import in_order, metric_text
from headrace.lab.published import MACHINES, Published, published_for
from headrace.lab.readings.recorder import RECORDED
from headrace.lab.report import markup
from headrace.lab.report.drawings import published_charts
from headrace.lab.report.facts import host_facts
from headrace.lab.report.scales import figures
from headrace.lab.report.sections import SECTIONS
from headrace.lab.report.subjects import Subject, run_names, subjects_of, target_name, unit_text
from headrace.lab.report.svg import figure
from headrace.lab.results import NOT_MEASURABLE, PASSED, Bottleneck, Results, Steady, cell_text

_TILES: Final = (
    "max_rate_per_s",
    "rate_per_s",
    "mb_per_s",
    "failed",
    "planned_latency_p50_ms",
    "planned_latency_p99_ms",
    "planned_latency_p999_ms",
    "end_to_end_p99_ms",
    "consumed_mb_per_s",
    "lateness_p99_ms",
)
_VERDICT_KINDS: Final = {Verdict.HOLDS: "good", Verdict.DOES_NOT_HOLD: "bad", Verdict.NOT_MEASURABLE: ""}
_STEADY: Final = {True: ("steady", "good"), False: ("not steady", "bad"), None: ("too short to call steady", "")}


def page(runs: Sequence[Results]) -> str:
    subjects = subjects_of(runs)
    title = title_of(runs)
    body = "".join(
        (
            _header(title, runs, subjects),
            "<main>",
            *(_partial_notice(run) for run in runs if run.partial),
            *(_recorded_notice(run) for run in runs if any(RECORDED in line.events for line in run.repeats)),
            _headline(subjects),
            _findings(runs, subjects),
            markup.section("Results", _metrics_table(subjects), _doubts(subjects)),
            _comparisons(runs),
            *(
                markup.section(title, markup.charts_grid(map(figure, charts(subjects))))
                for title, charts in SECTIONS.items()
            ),
            markup.section("Verdicts", _verdicts(subjects)),
            markup.section(
                "The machine and the run", *(_facts(name, run) for name, run in _named(runs)), _theirs(runs)
            ),
            "</main>",
            _footer(),
        )
    )
    style = files("headrace.lab.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # A page without an icon of its own has the browser ask for one.
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style></head>\n<body>{body}</body></html>\n"
    )


def title_of(runs: Sequence[Results]) -> str:
    workloads = dict.fromkeys(run.scenario.name for run in runs)
    targets = dict.fromkeys(target_name(run.scenario.target) for run in runs)
    return f"{', '.join(workloads)} on {' and '.join(targets)}"


# --- The top ---------------------------------------------------------------------------------------------------------


def _header(title: str, runs: Sequence[Results], subjects: Sequence[Subject]) -> str:
    began = min(datetime.fromisoformat(run.scenario.started) for run in runs)
    repeats = sum(len(run.repeats) for run in runs)
    lead = " · ".join(
        (
            f"{began:%d %B %Y, %H:%M} UTC",
            _plural(len(runs), "run"),
            _plural(len(subjects), "cell"),
            _plural(repeats, "repeat"),
        )
    )
    chips = "".join(_chips(runs, subjects))
    return f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p><ul class="chips">{chips}</ul></header>'


def _chips(runs: Sequence[Results], subjects: Sequence[Subject]) -> Iterator[str]:
    partial = sum(run.partial is not None for run in runs)
    yield markup.chip("partial", "bad") if partial else markup.chip("complete", "good")
    steady = {line.steady.is_steady for run in runs for line in run.repeats if line.steady is not None}
    if steady:
        worst = False if False in steady else None if None in steady else True
        yield markup.chip(*_STEADY[worst])
    doubtful = sum(subject.doubt(metric) is not None for subject in subjects for metric in subject.metrics())
    if doubtful:
        yield markup.chip(f"{_plural(doubtful, 'value')} {NOT_MEASURABLE}", "bad")
    elif any(line.gate for run in runs for line in run.repeats):
        yield markup.chip("gate passed", "good")
    verdicts = dict.fromkeys(line.bottleneck.verdict for run in runs for line in run.repeats if line.bottleneck)
    if verdicts:
        yield markup.chip("bottleneck: " + ", ".join(verdicts))


def _partial_notice(run: Results) -> str:
    return (
        f'<p class="notice" data-partial><b>Partial.</b> {escape(title_of([run]))} was cut short: '
        f"{escape(run.partial or '')}. What is shown is what was known by then.</p>"
    )


def _recorded_notice(run: Results) -> str:
    return (
        f'<p class="notice" data-recorded><b>Recorded.</b> {escape(title_of([run]))}: {escape(RECORDED)}. '
        "Compare it with runs that were recorded, too.</p>"
    )


def _headline(subjects: Sequence[Subject]) -> str:
    """Of one subject alone its numbers, large; of several the tables and bars tell more."""
    if len(subjects) != 1:
        return ""
    [subject] = subjects
    tiles = "".join(_tile(subject, metric) for metric in _TILES if subject.interval(metric) is not None)
    return f'<div class="tiles">{tiles}</div>' if tiles else ""


def _tile(subject: Subject, metric: str) -> str:
    found = subject.interval(metric)
    assert found is not None
    doubt = subject.doubt(metric)
    unit = escape(f"{unit_text(subject, metric)} {markup.sure_text(found)}")
    sure = f'<span class="doubt">{NOT_MEASURABLE}</span>' if doubt else ""
    exact = markup.data_attributes(metric=metric, value=repr(found.value))
    return (
        f'<div class="tile"{exact}><div class="name">{escape(metric_text(metric))}</div>'
        f'<div class="value">{figures(found.value)}</div>'
        f'<div class="sure">{unit} {sure}</div></div>'
    )


# --- Tables ----------------------------------------------------------------------------------------------------------


def _metrics_table(subjects: Sequence[Subject]) -> str:
    names = in_order({metric for subject in subjects for metric in subject.metrics()})
    if not names:
        return ""
    if len(subjects) <= 2:  # Long rather than wide: a phone shows all of it.
        head = [markup.head_cell("metric"), markup.head_cell("unit")]
        head += [markup.head_cell(subject.name, is_number=True) for subject in subjects]
        rows = [
            [markup.row_head(metric_text(name)), markup.cell(_unit(subjects, name))]
            + [_metric_cell(subject, name) for subject in subjects]
            for name in names
        ]
        return markup.table(head, rows, key="metrics")
    head = [markup.head_cell("")]
    head += [markup.head_cell(metric_text(name), unit=_unit(subjects, name), is_number=True) for name in names]
    rows = [[markup.row_head(each.name), *(_metric_cell(each, name) for name in names)] for each in subjects]
    return markup.table(head, rows, key="metrics")


def _metric_cell(subject: Subject, metric: str) -> str:
    found = subject.interval(metric)
    return markup.value_cell(found, doubt=subject.doubt(metric), metric=metric, subject=subject.name)


def _unit(subjects: Sequence[Subject], metric: str) -> str:
    return next((unit for subject in subjects if (unit := unit_text(subject, metric))), "")


def _doubts(subjects: Sequence[Subject]) -> str:
    """Why values are marked, each reason once."""
    about: dict[str, dict[str, list[str]]] = {}
    for subject in subjects:
        for doubt, metrics in by_reason(subject.doubts, subject.metrics()).items():
            for metric in metrics:
                about.setdefault(doubt, {}).setdefault(metric, []).append(subject.name)
    items = "".join(
        f"<li><b>† {escape('; '.join(_about(metric, names, len(subjects)) for metric, names in metrics.items()))}</b> "
        f"{NOT_MEASURABLE}: {escape(doubt)}.</li>"
        for doubt, metrics in about.items()
    )
    return f'<ul class="doubts" data-doubts>{items}</ul>' if items else ""


def by_reason(reasons: Mapping[str, str], of: Sequence[str]) -> dict[str, list[str]]:
    """What each reason is about: names of metrics for people, or everything where it is about all that there is."""
    found: dict[str, list[str]] = {}
    for metric in in_order({*reasons}):
        found.setdefault(reasons[metric], []).append(metric_text(metric))
    return {reason: ["everything"] if len(metrics) == len(of) > 1 else metrics for reason, metrics in found.items()}


def _about(metric: str, names: Sequence[str], subjects: int) -> str:
    if subjects == 1:
        return metric
    return f"{metric} (everywhere)" if len(names) == subjects else f"{metric} ({'; '.join(names)})"


def _comparisons(runs: Sequence[Results]) -> str:
    """Each further run against the first."""
    names = run_names(runs)
    tables = []
    for name, run in zip(names[1:], runs[1:], strict=True):
        try:
            found = compare(runs[0], run)
        except LabError:
            continue  # They have nothing in common that could be compared.
        has_cells = any(row.cell for row in found.rows)
        head = [
            *([markup.head_cell("cell")] if has_cells else []),
            markup.head_cell("metric"),
            *(markup.head_cell(text, is_number=True) for text in (names[0], name, f"{name} / {names[0]}")),
            markup.head_cell(f"{name} is"),
        ]
        rows = [_comparison_row(row, has_cells=has_cells) for row in found.rows]
        tables.append(markup.table(head, rows, key=f"comparison-{name}"))
    return markup.section("Ratios", *tables)


def _comparison_row(row: Row, *, has_cells: bool) -> list[str]:
    return [
        *([markup.cell(cell_text(row.cell))] if has_cells else []),
        markup.row_head(metric_text(row.metric)),
        markup.value_cell(row.first, doubt=row.doubt),
        markup.value_cell(row.second, doubt=row.doubt),
        _ratio_cell(row),
        markup.cell(row.verdict.value),
    ]


def _ratio_cell(row: Row) -> str:
    if row.ratio is None:
        return markup.cell("-", kind="number")
    reach = f" <small>[{row.ratio.low:.3f}, {row.ratio.high:.3f}]</small>" if row.ratio.is_known else ""
    exact = markup.data_attributes(ratio=row.metric, value=repr(row.ratio.value))
    return f'<td class="number"{exact}>{row.ratio.value:.3f}{reach}</td>'


# --- Verdicts --------------------------------------------------------------------------------------------------------


def _verdicts(subjects: Sequence[Subject]) -> str:
    has_consumers = any(line.consumer_bottleneck for subject in subjects for line in subject.repeats)
    consuming = ("bottleneck of consuming",) if has_consumers else ()
    meanwhile = ("meanwhile",) if any(line.events for subject in subjects for line in subject.repeats) else ()
    titles = ("cell", "repeat", *meanwhile, "bottleneck", *consuming, "steady", "quality gate")
    head = [markup.head_cell(text) for text in titles]
    rows = [
        [
            markup.row_head(subject.name),
            markup.cell(f"{line.repeat + 1}" + (f", partial: {line.partial}" if line.partial else "")),
            *(markup.cell("; ".join(line.events) or "-") for _ in meanwhile),
            _bottleneck_cell(line.bottleneck),
            *(_bottleneck_cell(line.consumer_bottleneck) for _ in consuming),
            markup.cell(_steady_text(line.steady)),
            markup.cell(_gate_text(line.gate)),
        ]
        for subject in subjects
        for line in subject.repeats
    ]
    return markup.table(head, rows, key="verdicts")


def _steady_text(steady: Steady | None) -> str:
    return "-" if steady is None else str(steady)


def _gate_text(gate: Mapping[str, str]) -> str:
    if not gate:
        return "not asked"
    stopped = {metric: why for metric, why in gate.items() if why != PASSED}
    if not stopped:
        return f"passed for {_plural(len(gate), 'metric')}"
    reasons = by_reason({metric: why.removeprefix(f"{NOT_MEASURABLE}: ") for metric, why in stopped.items()}, [*gate])
    return f"{NOT_MEASURABLE}: " + "; ".join(f"{', '.join(metrics)}: {why}" for why, metrics in reasons.items())


def _bottleneck_cell(found: Bottleneck | None) -> str:
    if found is None:
        return markup.cell("none told")
    items = "".join(f"<li>{escape(each)}</li>" for each in found.evidence)
    listed = f'<ul class="evidence">{items}</ul>' if items else ""
    return f"<td data-bottleneck><b>{escape(found.verdict)}</b>{listed}</td>"


def _findings(runs: Sequence[Results], subjects: Sequence[Subject]) -> str:
    """Of runs that reproduce a published experiment."""
    preset = preset_of(runs)
    if preset is None:
        return ""
    judged = "".join(_finding(judgement) for judgement in judge(preset, runs))
    found = markup.section("What the paper found", f'<div class="findings">{judged}</div>')
    if not published_for(preset):
        return found + '<p class="lead">The paper states no values of this experiment in its text and tables.</p>'
    drawn = markup.charts_grid(map(figure, published_charts(preset, subjects)))
    sources = dict.fromkeys(map(source_text, published_for(preset)))
    listed = "".join(f"<li>{escape(source)}</li>" for source in sources)
    return found + markup.section("Published beside measured", drawn, f'<ul class="sources">{listed}</ul>')


def source_text(each: Published) -> str:
    """The paper's words, and what is ours told apart from them."""
    ours = "" if each.remark is None else f". Our remark: {each.remark}."
    return f"{each.text}: “{each.source.quote}” ({each.source.section}){ours}"


def _finding(judgement: Judgement) -> str:
    answer, source = judgement.answer, judgement.finding.source
    kind = _VERDICT_KINDS[answer.verdict]
    exact = markup.data_attributes(finding=judgement.finding.text, verdict=answer.verdict.value)
    return (
        f'<div class="finding {kind}"{exact}><div class="head"><span class="chip {kind}">{answer.verdict.value}</span>'
        f'<span class="says">{escape(judgement.finding.text)}</span></div><p>{escape(answer.why)}.</p>'
        f"<blockquote>“{escape(source.quote)}” {escape(str(source))}</blockquote></div>"
    )


# --- Facts -----------------------------------------------------------------------------------------------------------


def _facts(name: str, run: Results) -> str:
    scenario = run.scenario
    told = dict.fromkeys(line.clocks for line in run.repeats if line.clocks is not None)
    clocks = {"clocks": "; ".join(told)} if told else {}
    return (
        f'<div class="card"><h3>{escape(name)}</h3>'
        + markup.facts({**host_facts(scenario.host), **clocks, **scenario.versions, "seed": str(scenario.seed)})
        + markup.folded_json("Workload", scenario.workload)
        + markup.folded_json("Target", scenario.target)
        + "</div>"
    )


def _theirs(runs: Sequence[Results]) -> str:
    """The machine that a paper's values are of."""
    preset = preset_of(runs)
    if preset is None:
        return ""
    papers = dict.fromkeys(judgement.finding.source.paper for judgement in judge(preset, runs))
    return "".join(
        f'<div class="card" data-paper><h3>{escape(paper)}</h3>{markup.facts(MACHINES[paper])}</div>'
        for paper in papers
    )


def _named(runs: Sequence[Results]) -> Iterator[tuple[str, Results]]:
    yield from zip(run_names(runs), runs, strict=True)


def _footer() -> str:
    return (
        f"<footer><p>Made by headrace {escape(__version__)} from results.jsonl. ± and bands: 95% confidence over "
        "repeats in tables and bars, from the lowest to the highest repeat over time. Latency counts from when a "
        "message was planned, so that a stall shows in all the messages that it has held up. MB are 2^20 bytes.</p>"
        "</footer>"
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
