"""`headrace lab producer-perf`, `consumer-perf` and `e2e-latency`: Kafka's perf tests, flags and all.

They are the scripts of `headrace.cli.kafka_scripts` under names of our own, which no other program on the PATH can
have; the arguments go to the scripts as they are.
"""

from importlib import import_module
from typing import Final

import typer

from headrace.cli.kafka_scripts.script import Script, status_of

# The module of the script, and the line in the list of commands.
_COMMANDS: Final = {
    "producer-perf": ("producer_perf", "How fast records can be sent: kafka-producer-perf-test, with its flags."),
    "consumer-perf": ("consumer_perf", "How fast records can be consumed: kafka-consumer-perf-test, with its flags."),
    "e2e-latency": ("e2e_latency", "How long a record takes end to end: kafka-e2e-latency, with its flags."),
}


def add_to(app: typer.Typer) -> None:
    for name, (module, help_line) in _COMMANDS.items():
        _add(app, name, module, help_line)


def _add(app: typer.Typer, name: str, module: str, help_line: str) -> None:
    @app.command(
        name,
        help=help_line,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def run(ctx: typer.Context) -> None:
        script: Script = import_module(f"headrace.cli.kafka_scripts.{module}").SCRIPT
        raise typer.Exit(status_of(script._replace(name=f"headrace lab {name}"), ctx.args))
