"""`headrace lab`: the laboratory's commands, each from a module of its own.

Nothing heavy is imported here: a command fetches what it needs when it runs.
"""

import typer

from headrace.cli import lab_compare, lab_host, lab_perf, lab_report, lab_reproduce, lab_results, lab_run, lab_send

app = typer.Typer(
    help="Measure brokers: workloads on targets, published experiments, a sender with a plan, perf tests, the machine.",
    no_args_is_help=True,
)

app.command("run")(lab_run.run)
app.command("targets")(lab_run.targets)
app.command("ls")(lab_results.ls)
app.command("show")(lab_results.show)
app.command("send")(lab_send.send)
app.command("host")(lab_host.host)
app.command("reproduce")(lab_reproduce.reproduce)
app.command("compare")(lab_compare.compare)
app.command("report")(lab_report.report)
lab_perf.add_to(app)
