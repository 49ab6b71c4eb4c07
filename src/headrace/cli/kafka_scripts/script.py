"""What the scripts have in common: a name, a table, a connection, and one way to end."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import typer

from headrace import __version__
from headrace.cli.connection import Connection, connect
from headrace.cli.failures import told_in_one_line
from headrace.cli.kafka_scripts.flags import COMMON, Flag, Misused, Words, help_text, parse_words
from headrace.cli.output import note
from headrace.wire.dialects import translate_java

_TIMEOUT_S: Final = 30.0


class Script(NamedTuple):
    name: str
    about: str
    flags: tuple[Flag, ...]
    run: Callable[[Words], None]
    common: tuple[Flag, ...] = COMMON
    # What the arguments mean, where they may be written in a way without flags.
    spell_out: Callable[[Sequence[str]], Sequence[str]] = tuple


def status_of(script: Script, arguments: Sequence[str]) -> int:
    """Run it. Kafka's scripts exit with 1 whether they failed or were mistyped."""
    flags = (*script.common, *script.flags)
    try:
        with told_in_one_line(script.name):
            words = parse_words(flags, script.spell_out(arguments), note=lambda text: note(f"{script.name}: {text}"))
            if "help" in words or not arguments:
                print(help_text(script.name, script.about, flags))
            elif "version" in words:
                print(f"headrace {__version__}")
            else:
                script.run(words)
    except typer.Exit as ending:
        return ending.exit_code
    except typer.BadParameter as mistake:
        print(f"{script.name}: {mistake.message}", file=sys.stderr)
        return 1
    return 0


def cluster_of(
    words: Words,
    *,
    files: Sequence[str] = ("command-config",),
    java: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> Connection:
    """The cluster meant. `files` are the flags that may name the file of settings, `java` what wins over it."""
    said = [name for name in files if name in words]
    if len(said) > 1:
        raise Misused(f"--{said[0]} and --{said[1]} mean the same: say one")
    file = Path(words.required(said[0])) if said else None
    cluster = connect(
        bootstrap=words.required("bootstrap-server"), command_config=file, properties=[], timeout_s=timeout_s
    )
    settings, left_out = translate_java(java or {})
    if left_out:
        note(f"not used here: {', '.join(left_out)}")
    # The address was said on the command line, whatever a file has.
    cluster.settings |= {**settings, "bootstrap.servers": words.required("bootstrap-server")}
    return cluster


def left_aligned(rows: Sequence[Sequence[object]], widths: Sequence[int]) -> list[str]:
    """Rows as Java's %-15s writes them: no column narrower than its width, one space between, the last as it is."""
    cells = [[str(cell) for cell in row] for row in rows]
    wide = [max([width, *(len(row[number]) for row in cells)]) for number, width in enumerate(widths)]
    return [
        " ".join([*(cell.ljust(width) for cell, width in zip(row, wide, strict=False)), *row[len(wide) :]])
        for row in cells
    ]
