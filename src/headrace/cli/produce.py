"""`headrace produce`: lines, files or JSON into a topic.

It waits for every acknowledgement, and fails if one is missing.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.connection import Connection, connected
from headrace.cli.message_text import Message, parse_json, unescape
from headrace.cli.output import AsJson, CommandError, note, print_json
from headrace.cli.pairs import parse_pairs
from headrace.cli.sending import deliver
from headrace.errors import ConfigError


class Input(StrEnum):
    """What one message is."""

    LINES = "lines"
    JSON = "json"
    FILES = "files"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


@connected
def produce(
    cluster: Connection,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to.", show_default=False)],
    file: Annotated[
        list[Path],
        typer.Option(
            "--file",
            "-f",
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="Read this, not standard input. May be repeated.",
        ),
    ] = [],  # noqa: B006
    input_as: Annotated[
        Input,
        typer.Option(
            "--input",
            "-i",
            help="A message is a line, a line of JSON as consume --json writes, or a whole --file.",
        ),
    ] = Input.LINES,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help="What stands between key and value on a line (\\t for a tab)."),
    ] = None,
    header: Annotated[list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="For every message.")] = [],  # noqa: B006
    empty_is_null: Annotated[bool, typer.Option("--empty-is-null", help="Send null for an empty value.")] = False,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="By key if not said.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, metavar="PER_SECOND", help="No faster than this.")] = None,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How batches are packed.")
    ] = Compression.NONE,
    acks: Annotated[Acks, typer.Option(help="Who must have a message before it counts.")] = Acks.ALL,
    as_json: AsJson = False,
) -> None:
    """Send messages: lines of standard input, lines or JSON of files, or whole files."""
    if input_as is Input.FILES and not file:
        raise typer.BadParameter("--input files needs --file")
    if key_separator is not None and input_as is not Input.LINES:
        raise typer.BadParameter("--key-separator is for lines")
    if key_separator == "":
        raise typer.BadParameter("--key-separator is empty")
    headers = [(name, value.encode()) for name, value in parse_pairs(header, option="--header").items()]
    parse = _parser(input_as, separator=None if key_separator is None else unescape(key_separator))

    def completed(message: Message) -> Message:
        if headers:
            message = message._replace(headers=[*headers, *message.headers])
        return message._replace(value=None) if empty_is_null and not message.value else message

    messages = _messages(file, parse, whole=input_as is Input.FILES)
    if headers or empty_is_null:
        messages = ((completed(message), size_bytes) for message, size_bytes in messages)
    delivery = deliver(
        cluster,
        topic,
        messages,
        settings={"acks": acks.value, "compression.type": compression.value, "linger.ms": 5},
        partition=partition,
        rate_per_s=rate,
        input_bytes=sum(path.stat().st_size for path in file) if file else None,
    )
    if as_json:
        outcome = {name: getattr(delivery, name) for name in ("acknowledged", "failed", "unanswered")}
        print_json({"topic": topic, **outcome, "elapsed_s": round(delivery.elapsed_s, 3)})
    else:
        count, elapsed_s = delivery.acknowledged, delivery.elapsed_s
        note(f"{topic}: {count:,} acknowledged in {elapsed_s:.2f} s ({count / elapsed_s:,.0f}/s)")
    delivery.check()


def _parser(input_as: Input, *, separator: bytes | None) -> Callable[[bytes], Message]:
    if input_as is Input.JSON:
        return parse_json
    if separator is None:
        return lambda data: Message(None, data)

    def split(line: bytes) -> Message:
        key, found, value = line.partition(separator)
        if not found:
            raise ConfigError(f"no {separator!r} in {line[:60]!r}")
        return Message(key, value)

    return split


def _messages(
    files: Sequence[Path], parse: Callable[[bytes], Message], *, whole: bool
) -> Iterator[tuple[Message, int]]:
    """Each message with the bytes that it took of the input."""
    if whole:
        for path in files:
            data = path.read_bytes()
            yield parse(data), len(data)
    elif files:
        for path in files:
            with path.open("rb") as opened:
                yield from line_messages(opened, str(path), parse)
    else:
        yield from line_messages(sys.stdin.buffer, "standard input", parse)


def line_messages(
    source: Iterable[bytes], name: str, parse: Callable[[bytes], Message]
) -> Iterator[tuple[Message, int]]:
    for number, line in enumerate(source, 1):
        try:
            message = parse(line.removesuffix(b"\n"))
        except ConfigError as error:
            raise CommandError(f"{name}, line {number}: {error}") from error
        yield message, len(line)
