"""`headrace lab reproduce`: a published experiment, run here, and what became of its findings.

Nothing of the lab is imported before it runs, so that `--help` waits for no numpy.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.extras import require
from headrace.cli.lab_results import OUT, Out, print_results
from headrace.cli.lab_run import PACKAGES, watching
from headrace.cli.output import AsJson, CommandError, note, print_json, print_table
from headrace.cli.stopping import StopRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.lab.findings import Judgement
    from headrace.lab.results import Results
    from headrace.lab.workload import Workload


def reproduce(
    preset: Annotated[str | None, typer.Argument(metavar="[PRESET]", help="Which; all are listed if not said.")] = None,
    scale: Annotated[
        str,
        typer.Option(
            metavar="small|full|NUMBER",
            help="small is for two cores and minutes, full is as published; 0.1 is a tenth of the published rates.",
        ),
    ] = "small",
    duration: Annotated[
        str | None, typer.Option("--duration", "-d", metavar="TIME", help="Of each repeat: 30s, 10m.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Of each cell.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Instead of the preset's own (headrace lab targets).")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Of the workload, instead of what the preset says."),
    ] = None,
    out: Out = OUT,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Also the charts as PNG files.")] = True,
    as_json: AsJson = False,
) -> None:
    """Run a published experiment and judge its findings here: holds, does not hold, not measurable here."""
    for package in (*PACKAGES, *(("matplotlib",) if figures else ())):
        require(package, extra="lab")
    if preset is None:
        _list_presets(as_json=as_json)
        return
    from headrace.lab.documents import parse_assignment
    from headrace.lab.presets import find_preset, workloads_of
    from headrace.lab.targets.spec import find_target

    changes: dict[str, Any] = dict(map(parse_assignment, assignments or []))
    changes |= {} if duration is None else {"duration": duration}
    changes |= {} if repeats is None else {"repeats": repeats}
    asked = find_preset(preset)
    workloads = workloads_of(asked, scale=scale, changes=changes)
    spec = find_target(target or asked.target)
    with StopRequest() as stop:
        runs = [*_run(workloads, spec, out, stop)]
        _report(preset, runs, with_figures=figures, as_json=as_json)
        stop.check()
    for run in runs:
        if run.partial is not None:
            raise CommandError(f"partial: {run.partial}")


def _run(workloads: "Sequence[Workload]", spec: Any, out: Path, stop: StopRequest) -> "list[Results]":
    """Those of them that can be measured here: after one that was cut short there is no sense in another."""
    from headrace.lab.errors import NotMeasurableHere
    from headrace.lab.running import run_workload

    runs: list[Results] = []
    for workload in workloads:
        try:
            with watching(workload) as watch:
                runs.append(run_workload(workload, spec, out=out, watch=watch, is_stopped=lambda: bool(stop)))
        except NotMeasurableHere as error:
            if workload is workloads[-1] and not runs:
                raise
            note(f"{workload.name}: {error}")
            continue
        note(f"results: {runs[-1].path}")
        if runs[-1].partial is not None:
            break
    return runs


def _report(preset: str, runs: "Sequence[Results]", *, with_figures: bool, as_json: bool) -> None:
    from headrace.lab.findings import judge
    from headrace.lab.report.writing import write_report

    judgements = judge(preset, runs)
    written = write_report(runs, runs[0].path.parent / "report", with_figures=with_figures)
    if as_json:
        print_json(
            {
                "preset": preset,
                "findings": [judgement.to_json() for judgement in judgements],
                "results": [str(run.path) for run in runs],
                "report": str(written.page),
            }
        )
        return
    for run in runs:
        print_results(run)
    print_findings(judgements)
    note(f"report: {written.page}")


def print_findings(judgements: "Sequence[Judgement]") -> None:
    rows = [(each.answer.verdict.value, each.finding.text, each.answer.why) for each in judgements]
    print_table(("verdict", "finding", "why"), rows, title="What the paper found")


def _list_presets(*, as_json: bool) -> None:
    from headrace.lab.presets import PRESETS

    if as_json:
        print_json(
            [
                {"preset": each.name, "what": each.text, "target": each.target, "assumed": each.assumed}
                for each in PRESETS.values()
            ]
        )
        return
    print_table(("preset", "what", "on"), [(preset.name, preset.text, preset.target) for preset in PRESETS.values()])
