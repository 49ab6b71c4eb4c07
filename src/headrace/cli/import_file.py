"""`headrace import`: a file of rows into a topic. Interrupted, it goes on behind the last rows that it knows arrived.

Every two seconds or so it waits until all that was sent is acknowledged, and then notes the count of rows in a small
file beside. Told to stop, it does so once more before it goes, and the next run repeats nothing. Killed, it leaves rows
that arrived and were not noted: those are written again. So nothing is lost, and only a kill or a failure repeats, at
most what was sent after the last note.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from headrace.cli.bookmarks import keep_bookmark, read_bookmark
from headrace.cli.connection import Connection, connected
from headrace.cli.extras import require
from headrace.cli.output import AsJson, CommandError, note, print_json, progress
from headrace.cli.produce import Compression
from headrace.cli.stopping import StopRequest
from headrace.cli.tables.kinds import Kind, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

_NOTE_S: Final = 2.0


@connected
def import_file(
    cluster: Connection,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, readable=True, help="What to read.", show_default=False
        ),
    ],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to. It has to exist.", show_default=False)],
    kind: Annotated[Kind | None, typer.Option("--format", help="Where the name of the file does not tell.")] = None,
    value: Annotated[
        str | None, typer.Option("--value", metavar="COLUMN", help="The value, if it is not the whole row as JSON.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="COLUMN", help="The key, if there shall be one.")] = None,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="Each row to the partition of its column 'partition'.")
    ] = False,
    is_text: Annotated[bool, typer.Option("--text", help="Take all columns of a CSV file for text.")] = False,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How batches are packed.")
    ] = Compression.NONE,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to note how far it is. Beside the file, if not said.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Do not go on with an interrupted import, begin anew.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a file of rows to a topic. Run again after an interruption, it goes on where it was."""
    format_ = kind_of(file, kind)
    if is_text and format_ is not Kind.CSV:
        raise typer.BadParameter(f"--text is for CSV: columns of {format_.value} have their types")
    require("pyarrow", extra="arrow")
    from headrace.cli.tables.loading import TableFile, Wanted
    from headrace.columnar import Writer
    from headrace.ids import topic_id_text
    from headrace.wire.cluster import Cluster

    beside = state or file.with_name(f"{file.name}.{topic}.import.json")
    wanted = Wanted(value=value, key=key, keep_partitions=keep_partitions, is_text=is_text)
    settings = cluster.columnar_settings()
    with Cluster(settings) as known:
        topic_id = topic_id_text(known.topic(topic, timeout_s=cluster.timeout_s).topic_id)
    looked = file.stat()
    identity = {
        "file": {"bytes": looked.st_size, "modified_ns": looked.st_mtime_ns},
        "topic": {"name": topic, "id": topic_id},
        "options": {"format": format_.value, **asdict(wanted)},
    }
    rows_before = 0 if restart else _rows_noted(beside, identity)
    rows, began_s = rows_before, time.monotonic()
    table = TableFile(file, format_, wanted)
    partition = "partition" if keep_partitions else None
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with (
        Writer(settings, topic, partition=partition, compression=compression.value) as writer,
        StopRequest() as stop,
        progress(*columns) as bars,
    ):
        bar = bars.add_task(topic, total=1.0)
        noted_s = began_s

        def note_rows() -> None:
            writer.flush()
            keep_bookmark(beside, {**identity, "rows": rows})

        for batch in _skip(table, rows_before):
            writer.write(batch)
            rows += batch.num_rows
            now_s = time.monotonic()
            if stop or now_s - noted_s >= _NOTE_S:
                note_rows()
                noted_s = time.monotonic()
            if stop:
                note(f"stopped after {rows:,} rows: the same command goes on behind them")
            stop.check()
            rate = (rows - rows_before) / max(now_s - began_s, 1e-3)
            bars.update(bar, description=f"{topic}: {rows:,} rows, {rate:,.0f}/s", completed=table.share)
        written = writer.flush()
    beside.unlink(missing_ok=True)
    elapsed_s = max(time.monotonic() - began_s, 1e-3)
    if as_json:
        parts = [{"partition": number, **one._asdict()} for number, one in written.partitions.items()]
        print_json(
            {
                "topic": topic,
                "file": str(file),
                "format": format_.value,
                "rows": rows,
                "resumed_rows": rows_before or None,
                "acknowledged": written.records,
                "partitions": parts,
                "elapsed_s": round(elapsed_s, 3),
            }
        )
        return
    before = f", after {rows_before:,} before the interruption" if rows_before else ""
    note(
        f"{topic}: {written.records:,} rows acknowledged in {elapsed_s:.2f} s "
        f"({written.records / elapsed_s:,.0f}/s){before}"
    )


def _rows_noted(beside: Path, identity: dict[str, Any]) -> int:
    kept = read_bookmark(beside)
    if kept is None:
        return 0
    for name, value in identity.items():
        if kept.get(name) != value:
            raise CommandError(
                f"{beside} is of an import that was interrupted, and the {name} changed since: say --restart to begin "
                "anew"
            )
    if not isinstance(kept.get("rows"), int):
        raise CommandError(f"{beside} is not what an interrupted import left: say --restart")
    rows: int = kept["rows"]
    return rows


def _skip(batches: "Iterable[pa.RecordBatch]", rows: int) -> "Iterator[pa.RecordBatch]":
    """Without the first so many rows."""
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)
