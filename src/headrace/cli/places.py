"""Where to begin and to end in topics, as commands over whole ranges are told it: a word, an offset or a moment."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.moments import parse_moment

if TYPE_CHECKING:
    from headrace.columnar.positions import Position

_WAYS: Final = "earliest, latest, an offset, 10m for ten minutes ago, 2026-01-31T12:00 or @MILLISECONDS"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

StartText = Annotated[str, typer.Option("--start", metavar="WHERE", help=f"The first to read: {_WAYS}.")]
EndText = Annotated[
    str, typer.Option("--end", metavar="WHERE", help="Where to stop, itself not read: as --start. latest is now.")
]
Partitions = Annotated[list[int], typer.Option("--partition", "-p", min=0, help="Only this one. May be repeated.")]


def parse_position(text: str, *, option: str, now_ms: int) -> "Position":
    if text in ("earliest", "latest"):
        return text
    if re.fullmatch(r"\d+", text):
        return int(text)
    if (moment_ms := parse_moment(text, now_ms=now_ms)) is not None:
        return _EPOCH + timedelta(milliseconds=moment_ms)
    raise typer.BadParameter(f"{option} {text!r}: {_WAYS}")
