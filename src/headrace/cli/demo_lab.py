"""`headrace demo-lab`: two rates on a node, what each came to, and a page of it.

About the shortest run of the lab that says something: each rate for two seconds, with what messages took from when they
were due, how late the sender itself was, and what held it up. How sure a throughput is takes repeats, of which there is
no more than one here; the table marks it, and a note says why.
"""

from typing import Any, Final

from headrace.cli.extras import require
from headrace.cli.lab_results import OUT, Out, print_results
from headrace.cli.lab_run import PACKAGES, watching
from headrace.cli.output import AsJson, CommandError, console, print_json
from headrace.cli.stopping import StopRequest

WORKLOAD: Final[dict[str, Any]] = {
    "name": "demo",
    "payload": "weblog",
    "engine": "columnar",
    "duration": "2s",
    "warm_up": "0s",
    "repeats": 1,
    "sweep": {"rate": ["10K", "100K"]},
}


def demo_lab(out: Out = OUT, as_json: AsJson = False) -> None:
    """Send at two rates to a node, and measure what became of every message."""
    for package in PACKAGES:
        require(package, extra="lab")
    from headrace.lab.report.writing import write_report
    from headrace.lab.running import run_workload
    from headrace.lab.summary import results_json
    from headrace.lab.targets.spec import find_target
    from headrace.lab.workload import parse_workload

    workload = parse_workload(WORKLOAD, name="demo")
    with StopRequest() as stop:
        with watching(workload) as watch:
            results = run_workload(workload, find_target("node"), out=out, watch=watch, is_stopped=lambda: bool(stop))
        stop.check()
    written = write_report([results], results.path.parent / "report", with_figures=False)
    if as_json:
        print_json({**results_json(results), "report": str(written.page)})
    else:
        print_results(results)
        console().print(f"[bold green]The same as a page, with its charts: {written.page}[/]")
    if results.partial is not None:
        raise CommandError(f"partial: {results.partial}")
