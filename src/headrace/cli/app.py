"""The command tree, and the one place where a failure becomes a line on standard error and an exit status.

Statuses: 0 done, 1 failed, 2 mistyped, 130 interrupted.
"""

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headrace import __version__
from headrace.cli import consume, demo, log, produce, topics
from headrace.errors import HeadraceError


class CommandGroup(TyperGroup):
    """Failures that are the world's or the user's are told in one line; ours keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # Whoever read the output has seen enough; what is still buffered must not raise again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except Exception as error:
            if not isinstance(error, (HeadraceError, OSError, *_client_errors())):
                raise
            print(f"headrace: {failure_text(error)}", file=sys.stderr)
            raise typer.Exit(1) from None


def _client_errors() -> tuple[type[Exception], ...]:
    """The client library's own, if a command has loaded it."""
    library = sys.modules.get("confluent_kafka")
    return (library.KafkaException,) if library else ()


def failure_text(error: Exception) -> str:
    """A KafkaException carries an error object whose words are better than its own."""
    (*_, detail) = error.args or (error,)
    if hasattr(detail, "name") and hasattr(detail, "str"):
        return f"{detail.str()} ({detail.name()})"
    return str(error)


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
app.add_typer(log.app, name="log")
app.command("demo")(demo.demo)
