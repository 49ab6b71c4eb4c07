"""The command tree."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headrace import __version__
from headrace.cli import (
    audit,
    consume,
    demo,
    demo_lab,
    demo_lake,
    export,
    groups,
    import_file,
    lab,
    lake,
    load,
    log,
    produce,
    sql,
    topics,
)
from headrace.cli.failures import told_in_one_line


class CommandGroup(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        with told_in_one_line("headrace"):
            return super().invoke(ctx)


app = typer.Typer(
    cls=CommandGroup,
    help="A Kafka you can pip install.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None: ...


@app.command(
    "serve",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def serve(ctx: typer.Context) -> None:
    """Run one node. (headrace serve --help)"""
    # Reached only through this module: the console script goes to the light parser at once.
    from headrace.cli.serve import main

    raise typer.Exit(main(ctx.args))


app.add_typer(topics.app, name="topics")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.command("export")(export.export)
app.command("import")(import_file.import_file)
app.command("sql")(sql.sql)
app.command("audit")(audit.audit)
app.command("load")(load.load)
app.add_typer(lake.app, name="lake")
app.add_typer(groups.app, name="groups")
app.add_typer(log.app, name="log")
app.add_typer(lab.app, name="lab")
app.command("demo")(demo.demo)
app.command("demo-lake")(demo_lake.demo_lake)
app.command("demo-lab")(demo_lab.demo_lab)
