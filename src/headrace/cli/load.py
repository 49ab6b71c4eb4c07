"""`headrace load`: topics into a Delta table, each record once, whatever is killed meanwhile."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from headrace.cli.connection import Connection, connected
from headrace.cli.extras import require
from headrace.cli.output import AsJson, note, print_json, progress, size_text
from headrace.cli.pairs import parse_pairs
from headrace.cli.stopping import StopRequest
from headrace.spark.master import MASTER

if TYPE_CHECKING:
    from headrace.pipeline.load import Load, Loaded

_EVERY: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LOOK_S: Final = 0.1


class Format(Enum):
    RAW = "raw"
    JSON = "json"


class Missing(Enum):
    ERROR = "error"
    SKIP = "skip"


@connected
def load(
    cluster: Connection,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="What to load; several if you like.", show_default=False)
    ],
    lake: Annotated[
        str,
        typer.Option("--lake", metavar="PATH_OR_URL", help="The Delta table; made if not there.", show_default=False),
    ] = "",
    format_: Annotated[
        Format, typer.Option("--format", help="raw: the value as it is. json: the columns that --schema declares.")
    ] = Format.RAW,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help='For json, the columns: {"page": "string", "count": "long"}.',
        ),
    ] = None,
    suggest_schema: Annotated[
        bool, typer.Option("--suggest-schema", help="Print a schema for the JSON of a sample of records; load nothing.")
    ] = False,
    transform: Annotated[
        str | None,
        typer.Option(
            "--transform",
            metavar="MODULE:FUNCTION",
            help="Send the rows through a function of yours: a pyarrow.Table to another with as many rows.",
        ),
    ] = None,
    replay: Annotated[
        list[str],
        typer.Option(
            "--replay",
            metavar="TOPIC/PARTITION:FIRST-END",
            help="Load these offsets once more, in place of their rows. May be repeated. Or dead-letters: decode those "
            "that the table keeps once more, also where the topic has them no longer.",
        ),
    ] = [],  # noqa: B006
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="How often to look for more: 10s, 500ms, 5m.")
    ] = "10s",
    once: Annotated[bool, typer.Option("--once", help="Load what is there now, then stop.")] = False,
    master: Annotated[
        str,
        typer.Option(
            "--master",
            metavar="URL",
            help="Where Spark runs; local[N,3] is here, with N tasks at a time, each tried up to three times.",
        ),
    ] = MASTER,
    missing: Annotated[
        Missing, typer.Option("--missing", help="What to do about records that were deleted before they were loaded.")
    ] = Missing.ERROR,
    accept_new_topic: Annotated[
        bool,
        typer.Option(
            "--accept-new-topic", help="Load a topic that was deleted and made anew beside the rows of the old one."
        ),
    ] = False,
    loader: Annotated[
        str, typer.Option("--loader", metavar="NAME", help="Who loads: a table belongs to one loader.")
    ] = "headrace",
    offsets_per_commit: Annotated[
        int, typer.Option("--commit-offsets", min=1, help="A backlog is committed in steps of about so many records.")
    ] = 5_000_000,
    lake_options: Annotated[
        list[str],
        typer.Option("--lake-option", metavar="KEY=VALUE", help="For an object store: region, keys. May be repeated."),
    ] = [],  # noqa: B006
    spark_options: Annotated[
        list[str], typer.Option("--spark-option", metavar="KEY=VALUE", help="One of Spark's own. May be repeated.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Load topics into a Delta table, exactly once. Killed and run again, it goes on where it was."""
    every_s = parse_every(every)
    if not lake and not suggest_schema:
        raise typer.BadParameter("--lake PATH_OR_URL is missing: where to?")
    if (format_ is Format.JSON) != (schema is not None) and not suggest_schema:
        raise typer.BadParameter("--format json and --schema FILE go together; --suggest-schema proposes one")
    for package in ("pyarrow", "deltalake", "pyspark"):
        require(package, extra="spark")
    if suggest_schema:
        _suggest(cluster, topics)
        return
    from headrace.pipeline.decoding import Decoder, RawDecoder
    from headrace.pipeline.json_decoding import JsonDecoder
    from headrace.pipeline.load import Load, LoadRequest
    from headrace.pipeline.location import parse_location
    from headrace.pipeline.replacing import DEAD_LETTERS_WORD, parse_replay
    from headrace.pipeline.session import spark_session
    from headrace.pipeline.spark_tasks import SparkTasks

    decoder: Decoder = RawDecoder() if schema is None else JsonDecoder(schema.read_text())
    kind = format_.value
    if transform is not None:
        from headrace.pipeline.transforming import transformed

        sys.path.insert(0, str(Path.cwd()))  # Where people have their own.
        decoder, kind = transformed(decoder, transform), f"{kind} --transform {transform}"
    retries = replay == [DEAD_LETTERS_WORD]
    ranges = [] if retries else [parse_replay(text, topics) for text in replay]
    settings = parse_pairs(spark_options, option="--spark-option")
    request = LoadRequest(
        topics=topics,
        lake=parse_location(lake, parse_pairs(lake_options, option="--lake-option")),
        settings=cluster.wire_settings(),
        kind=kind,
        decoder=decoder,
        loader=loader,
        skips_missing=missing is Missing.SKIP,
        accepts_new_topic=accept_new_topic,
        offsets_per_commit=offsets_per_commit,
    )
    run = SparkTasks(lambda: spark_session(master=master, app="headrace load", settings=settings))
    name = ", ".join(topics)
    with _shown(name, has_end=once or bool(replay)) as tell, Load(request, run=run, tell=tell) as work:
        try:
            if retries:
                _tell_result(work.retry(), lake, as_json=as_json)
            elif ranges:
                _tell_result(work.replay(ranges), lake, as_json=as_json)
            elif once:
                _tell_result(work.once(), lake, as_json=as_json)
            else:
                _go_on(work, every_s, lake, as_json=as_json)
        except KeyboardInterrupt:
            note("interrupted: what was committed stays, and the same command goes on from there")
            raise


def _suggest(cluster: Connection, topics: list[str]) -> None:
    """A schema for the last records of each partition."""
    from headrace.pipeline.suggesting import Suggestion, declaration_text, sample

    suggestion = Suggestion()
    suggestion.show(sample(cluster.wire_settings(), topics))
    print(declaration_text(suggestion.declaration()))
    for remark in suggestion.remarks:
        note(remark)
    note(f"of {suggestion.records:,} records; save it, correct it, and say --format json --schema FILE")


def parse_every(text: str) -> float:
    match = _EVERY.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"--every {text!r} is not like 10s, 500ms or 5m")
    return float(match[1]) * _UNIT_S[match[2]]


def _go_on(work: "Load", every_s: float, lake: str, *, as_json: bool) -> None:
    """A load, a pause, a load. A cluster that is away is waited for; whatever else is wrong ends it."""
    from headrace.wire.errors import Unavailable

    with StopRequest() as stop:
        while not stop:
            began_s = time.monotonic()
            try:
                loaded = work.once()
            except Unavailable as error:
                note(f"{error}; trying again in {every_s:g} s")
            else:
                if loaded.commits:
                    _tell_result(loaded, lake, as_json=as_json)
            while not stop and time.monotonic() < began_s + every_s:
                time.sleep(_LOOK_S)
        note("stopped: what was committed stays, and the same command goes on from there")
        stop.check()


def _tell_result(loaded: "Loaded", lake: str, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "lake": lake,
                "rows": loaded.rows,
                "dead_letters": loaded.dead_letters,
                "missing_offsets": loaded.missing,
                "commits": loaded.commits,
                "files": loaded.files,
                "file_bytes": loaded.file_bytes,
                "elapsed_s": round(loaded.elapsed_s, 3),
            }
        )
        return
    dead = f", {loaded.dead_letters:,} dead letters" if loaded.dead_letters else ""
    gone = f", {loaded.missing:,} offsets were gone already" if loaded.missing else ""
    note(
        f"{lake}: {loaded.rows:,} rows in {loaded.elapsed_s:.2f} s{dead}{gone}; {loaded.files} files, "
        f"{size_text(loaded.file_bytes)}"
    )


@contextmanager
def _shown(name: str, *, has_end: bool) -> "Iterator[Callable[[Loaded], None]]":
    """A bar for a load that ends; for one that goes on, a line that tells how it is getting on."""
    text = TextColumn("{task.description}")
    columns = (text, BarColumn(), TaskProgressColumn(), TimeRemainingColumn()) if has_end else (text,)
    rows_before = commits_before = 0
    last: Loaded | None = None
    with progress(*columns) as bars:
        bar = bars.add_task(name, total=None)

        def tell(loaded: "Loaded") -> None:
            nonlocal rows_before, commits_before, last
            if last is not None and last is not loaded:
                rows_before, commits_before = rows_before + last.rows, commits_before + last.commits
            last = loaded
            left = loaded.offsets_total - loaded.offsets
            described = f"{name}: {rows_before + loaded.rows:,} rows, {commits_before + loaded.commits} commits"
            if not has_end:
                described += f", {left:,} records behind" if left else ", nothing left to load"
            # Of the commit on its way nothing is told but how many of its tasks are done.
            share = loaded.tasks_done / loaded.tasks_total if loaded.tasks_total else 0.0
            bars.update(
                bar,
                description=described,
                total=max(1, loaded.offsets_total),
                completed=loaded.offsets + share * loaded.offsets_on_the_way if left else loaded.offsets_total or 1,
            )

        yield tell
