"""`headrace export`: a topic, or a range of it, as a file of rows. Interrupted, it goes on where it was."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from headrace.cli.connection import Connection, connected
from headrace.cli.extras import require
from headrace.cli.output import AsJson, note, print_json, progress, size_text
from headrace.cli.places import EndText, Partitions, StartText, parse_position
from headrace.cli.tables.kinds import Kind, compression_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.tables.exporting import Bookmark

GROUP_BYTES: Final = 64 << 20
_GROUP_BYTES_MIN: Final = 1 << 10


@connected
def export(
    cluster: Connection,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.", show_default=False)],
    out: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Where to: .parquet, .csv, .jsonl, .arrow or .arrows.", show_default=False),
    ],
    kind: Annotated[Kind | None, typer.Option("--format", help="Where the name of the file does not tell.")] = None,
    start: StartText = "earliest",
    end: EndText = "latest",
    partition: Partitions = [],  # noqa: B006
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Of topic, partition, offset, timestamp, timestamp_type, key, value and headers. All if not said.",
        ),
    ] = None,
    compression: Annotated[
        str | None, typer.Option("--compression", "-z", help="zstd, snappy, gzip, lz4 or none. Parquet: zstd.")
    ] = None,
    group_bytes: Annotated[
        int,
        typer.Option(
            min=_GROUP_BYTES_MIN, help="Rows are written, and safe from then on, in groups of about so many bytes."
        ),
    ] = GROUP_BYTES,
    missing: Annotated[
        str, typer.Option(metavar="error|skip", help="What to do about offsets that were deleted meanwhile.")
    ] = "error",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if there is one.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Do not go on with an interrupted export, begin anew.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a topic to a file. Run again after an interruption, it goes on where it was."""
    format_ = kind_of(out, kind)
    packed = compression_of(format_, compression)
    for option, text in (("--start", start), ("--end", end)):
        parse_position(text, option=option, now_ms=0)
    require("pyarrow", extra="arrow")
    from headrace.cli.tables.exporting import Asked, Export
    from headrace.cli.tables.record_texts import JSON_COLUMNS
    from headrace.columnar.schema import COLUMNS, schema_of

    everything = JSON_COLUMNS if format_ is Kind.JSONL else tuple(COLUMNS)
    chosen = everything if columns is None else tuple(name.strip() for name in columns.split(","))
    schema_of(chosen)
    asked = Asked(
        topic=topic,
        kind=format_,
        columns=chosen,
        compression=packed,
        start=start,
        end=end,
        partitions=tuple(sorted(set(partition))),
    )
    began_s = time.monotonic()
    with _bar(topic) as tell:
        work = Export(
            settings=cluster.columnar_settings(),
            asked=asked,
            out=out,
            group_bytes=group_bytes,
            missing=missing,
            timeout_s=cluster.timeout_s,
            tell=tell,
        )
        try:
            exported = work.run(restart=restart, overwrite=overwrite)
        except KeyboardInterrupt:
            note(f"interrupted: {work.part} holds what was read, and the same command goes on with it")
            raise
    elapsed_s = max(time.monotonic() - began_s, 1e-3)
    bookmark, resumed_rows = exported.bookmark, exported.resumed_rows
    if as_json:
        offsets = bookmark.offsets.items()
        print_json(
            {
                "topic": topic,
                "file": str(out),
                "format": format_.value,
                "rows": bookmark.rows,
                "resumed_rows": resumed_rows,
                "file_bytes": exported.file_bytes,
                "bytes_fetched": exported.bytes_fetched,
                "partitions": [{"partition": number, "start": one.first, "end": one.end} for number, one in offsets],
                "elapsed_s": round(elapsed_s, 3),
            }
        )
        return
    rows = bookmark.rows - (resumed_rows or 0)
    before = "" if resumed_rows is None else f", after {resumed_rows:,} before the interruption"
    note(
        f"{out}: {rows:,} rows in {elapsed_s:.2f} s ({rows / elapsed_s:,.0f}/s){before}; "
        f"{size_text(exported.file_bytes)} in all"
    )


@contextmanager
def _bar(topic: str) -> "Iterator[Callable[[Bookmark], None]]":
    """How much of the offsets is done, and how fast rows come."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    began: tuple[float, int] | None = None
    with progress(*columns) as bars:
        bar = bars.add_task(topic, total=None)

        def tell(bookmark: "Bookmark") -> None:
            nonlocal began
            began = began or (time.monotonic(), bookmark.rows)
            rate = (bookmark.rows - began[1]) / max(time.monotonic() - began[0], 1e-3)
            text = f"{topic}: {bookmark.rows:,} rows, {rate:,.0f}/s"
            bars.update(bar, description=text, total=bookmark.total, completed=bookmark.done)

        yield tell
