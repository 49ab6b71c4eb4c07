"""`headrace sql`: a question about topics, asked in SQL and answered by DuckDB.

Topics are tables to it, of the columns that `columnar.read` has. They are read while the question is answered, from
`--start` to `--end` and no further, and of that only what the question needs: its columns, the partitions and offsets
that its WHERE allows, and nothing before the times that it allows.
"""

import csv
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.connection import Connection, connected
from headrace.cli.extras import require
from headrace.cli.output import AsJson, CommandError, note, print_table, size_text
from headrace.cli.places import EndText, Partitions, StartText, parse_position

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from headrace.cli.tables.topic_dataset import TopicDataset

_BATCH_ROWS: Final = 10_000
_SHOWN_ROWS: Final = 1_000
# Texts, names in quotes and remarks: what stands in them is not the name of a table that lacks its quotes.
_QUOTED: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)
# Where a table is named, as in `from a, b as x join c`; and nothing that would make a name longer behind it.
_TABLES: Final = r"\b(?:from|join)\s+(?:[^\s,()]+(?:\s+(?:as\s+)?\w+)?\s*,\s*)*"
_NAME_END: Final = r"(?![\w.-])"
_NO_TABLE: Final = re.compile(r'Table with name "?(.+?)"? does not exist')


@connected
def sql(
    cluster: Connection,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help='select ... from topic; names with dots or dashes in "quotes".', show_default=False
        ),
    ],
    start: StartText = "earliest",
    end: EndText = "latest",
    partition: Partitions = [],  # noqa: B006
    rows_max: Annotated[
        int, typer.Option("--rows", "-n", min=1, help="Show no more rows than this in a table.")
    ] = _SHOWN_ROWS,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, all rows.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Tell how much was fetched, on standard error.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask topics a question in SQL (DuckDB's). Keys and values are bytes: decode(value) makes text of them."""
    if as_csv and as_json:
        raise typer.BadParameter("--csv or --json, not both")
    now_ms = time.time_ns() // 1_000_000
    first = parse_position(start, option="--start", now_ms=now_ms)
    last = parse_position(end, option="--end", now_ms=now_ms)
    require("pyarrow", extra="sql")
    require("duckdb", extra="sql")
    import duckdb
    import pyarrow as pa

    from headrace.cli.tables.topic_dataset import TopicDataset
    from headrace.wire.cluster import Cluster

    settings = cluster.columnar_settings()
    # Without its habit of taking variables of Python's, which would be ours, for tables.
    with duckdb.connect(config={"python_enable_replacements": "false"}) as db:
        datasets: list[TopicDataset] = []
        try:
            with Cluster(settings) as known:
                there = known.all_topics(timeout_s=cluster.timeout_s)
            # Whatever is named somewhere: DuckDB finds out what is meant, and what it does not scan is not read.
            named = [name for name in there if name in query]
            for name in named:
                dataset = TopicDataset(settings, name, start=first, end=last, partitions=sorted(set(partition)))
                db.register(name, dataset)
                datasets.append(dataset)
            rows = _answer(db, query)
            if rows is not None:
                with rows:
                    _print(rows, rows_max=rows_max, as_csv=as_csv, as_json=as_json)
        except (duckdb.Error, pa.ArrowException) as error:
            for failure in (dataset.failure for dataset in datasets if dataset.failure is not None):
                raise failure from None
            raise CommandError(_explain(error, query, named, cluster.bootstrap)) from None
        if stats:
            for dataset in datasets:
                if dataset.scans:
                    note(_stats_text(dataset))


def _answer(db: "duckdb.DuckDBPyConnection", query: str) -> "pa.RecordBatchReader | None":
    """None for a statement that answers nothing."""
    relation = db.sql(query)
    reader: pa.RecordBatchReader | None = None if relation is None else relation.to_arrow_reader(_BATCH_ROWS)
    return reader


def _explain(error: Exception, query: str, named: Sequence[str], where: str) -> str:
    """DuckDB's words, or better ones where it does not know what topics are."""
    bare = _QUOTED.sub('""', query)
    for topic in named:
        if ("." in topic or "-" in topic) and re.search(_TABLES + re.escape(topic) + _NAME_END, bare, re.IGNORECASE):
            return f'the name of a topic with dots or dashes stands in double quotes: "{topic}"'
    if (missing := _NO_TABLE.search(str(error))) is not None:
        return f"there is no topic {missing[1]!r} at {where}"
    return str(error).splitlines()[0]


def _stats_text(dataset: "TopicDataset") -> str:
    fetched = sum(scan.bytes_fetched for scan in dataset.scans)
    offsets = sum(scan.offsets for scan in dataset.scans)
    partitions = max((scan.partitions for scan in dataset.scans), default=0)
    return (
        f"{dataset.topic}: {fetched:,} bytes fetched ({size_text(fetched)}), "
        f"{offsets:,} offsets of {partitions} partitions in {len(dataset.scans)} scans"
    )


# --- The answer ----------------------------------------------------------------------------------------------------


def _print(reader: "pa.RecordBatchReader", *, rows_max: int, as_csv: bool, as_json: bool) -> None:
    names: list[str] = reader.schema.names
    rows = _rows(reader)
    if as_json:
        _print_json(names, rows)
    elif as_csv:
        out = csv.writer(sys.stdout, lineterminator="\n")
        out.writerow(names)
        out.writerows(["" if value is None else text_of(value) for value in row] for row in rows)
    else:
        shown = [[None if value is None else text_of(value) for value in row] for row in islice(rows, rows_max)]
        numbers = [field.name for field in reader.schema if _is_number(field.type)]
        print_table(names, shown, right=numbers)
        if next(rows, None) is not None:
            note(f"the first {rows_max:,} rows; --rows shows more, --csv and --json all")


def _rows(reader: "pa.RecordBatchReader") -> Iterator[Sequence[Any]]:
    for batch in reader:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _print_json(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    """A list of objects, a row on each line, printed as they come."""
    from headrace.cli.tables.row_json import json_value

    separator = "[\n"
    for row in rows:
        fields = {name: json_value(value) for name, value in zip(names, row, strict=True)}
        sys.stdout.write(separator + json.dumps(fields, ensure_ascii=False))
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def _is_number(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def text_of(value: Any) -> str:
    """A value in a table or in CSV. Bytes that are not text are written as DuckDB does."""
    from headrace.cli.tables.row_json import json_text

    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return "".join(f"\\x{byte:02X}" for byte in value)
        case datetime():
            return value.isoformat(sep=" ")
        case list() | dict():
            return json_text(value)
        case _:
            return str(value)
