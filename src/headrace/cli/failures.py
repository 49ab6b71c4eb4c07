"""How a command ends badly: the one place where a failure becomes a line on standard error and an exit status.

Statuses: 0 done, 1 failed, 2 mistyped, 130 interrupted; 3 where the lab cannot measure on this machine what it was
asked to. An error that has an `exit_status` of its own says so itself.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from headrace.errors import HeadraceError


@contextmanager
def told_in_one_line(program: str) -> Iterator[None]:
    """Failures that are the world's or the user's are told in one line; ours keep their traceback."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # Whoever read the output has seen enough; what is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except Exception as error:
        if not isinstance(error, (HeadraceError, OSError, *_client_errors())):
            raise
        print(f"{program}: {failure_text(error)}", file=sys.stderr)
        raise typer.Exit(getattr(error, "exit_status", 1)) from None


def failure_text(error: Exception) -> str:
    """A KafkaException carries an error object whose words are better than its own."""
    (*_, detail) = error.args or (error,)
    if hasattr(detail, "name") and hasattr(detail, "str"):
        return f"{detail.str()} ({detail.name()})"
    return str(error)


def _client_errors() -> tuple[type[Exception], ...]:
    """The client library's own, if a command has loaded it."""
    library = sys.modules.get("confluent_kafka")
    return (library.KafkaException,) if library else ()
