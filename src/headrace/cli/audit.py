"""`headrace audit`: did every message of a topic arrive, at every tier, exactly once? Status 0 says yes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from headrace.audit.messages import AUDIT_TOPIC
from headrace.cli.connection import Connection, connected
from headrace.cli.extras import require
from headrace.cli.moments import parse_duration_ms
from headrace.cli.output import AsJson, CommandError, note, print_json, print_table
from headrace.cli.pairs import parse_pairs
from headrace.spark.master import MASTER

if TYPE_CHECKING:
    from headrace.audit.lake_tier import CountRows
    from headrace.audit.reconcile import Audit, Row

_BAR_CELLS: Final = 24
_MARKS: Final = {"arrived": "█", "late": "▒", "missing": "░", "uncertain": "?", "unjudged": "~", "expired": "·"}
_STYLES: Final = {
    "arrived": "green",
    "complete": "green",
    "late": "yellow",
    "missing": "red",
    "duplicated": "red",
    "uncertain": "magenta",
    "unjudged": "magenta",
    "expired": "dim",
}


@connected
def audit(
    cluster: Connection,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to audit.", show_default=False)],
    lake: Annotated[
        str | None,
        typer.Option(
            metavar="PATH_OR_URL", help="A Delta table, or a directory of Parquet files, that the topic goes to."
        ),
    ] = None,
    lake_options: Annotated[
        list[str],
        typer.Option("--lake-option", metavar="KEY=VALUE", help="For an object store: region, keys. May be repeated."),
    ] = [],  # noqa: B006
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"Count the lake with Spark: {MASTER}, or where a cluster's master is."),
    ] = None,
    spark_options: Annotated[
        list[str], typer.Option("--spark-option", metavar="KEY=VALUE", help="One of Spark's own. May be repeated.")
    ] = [],  # noqa: B006
    grace: Annotated[
        str,
        typer.Option(metavar="TIME", help="How long after the end of a window all should have arrived: 30s, 5m, 1h."),
    ] = "1m",
    audit_topic: Annotated[
        str, typer.Option(metavar="TOPIC", help="Where senders and consumers publish their counts.")
    ] = AUDIT_TOPIC,
    problems: Annotated[
        bool, typer.Option("--problems", help="Show only the windows in which something is not complete.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare what was sent to a topic with what each tier has seen, by window of event time."""
    if (grace_ms := parse_duration_ms(grace)) is None:
        raise typer.BadParameter(f"--grace {grace!r} is not a time such as 500ms, 90s, 5m, 2h or 1d")
    require("pyarrow", extra="arrow")
    if lake is not None:
        require("deltalake", extra="spark")
    elif master is not None:
        raise typer.BadParameter("--master counts a lake: say --lake too")
    if spark_options and master is None:
        raise typer.BadParameter("--spark-option is for Spark: say --master too")
    settings = parse_pairs(spark_options, option="--spark-option")
    options = parse_pairs(lake_options, option="--lake-option")
    from headrace.audit.auditing import audit as run
    from headrace.audit.reconcile import COMPLETE
    from headrace.audit.report import report_fields
    from headrace.wire.errors import UnknownTopic

    try:
        found = run(
            cluster.wire_settings(),
            topic,
            lake=lake,
            lake_options=options,
            count_rows=None if master is None else _count_with_spark(master, settings, options),
            audit_topic=audit_topic,
            grace_ms=grace_ms,
        )
    except UnknownTopic as error:
        if error.topic != audit_topic:
            raise
        raise CommandError(f"there is no audit topic {audit_topic!r} at {cluster.bootstrap}") from None
    if not found.rows:
        raise CommandError(f"{audit_topic!r} has no counts of {topic!r}: no audited sender has written to it")
    if problems:  # What is well of these is well of all.
        found = replace(found, rows=tuple(row for row in found.rows if row.finding.statuses != (COMPLETE,)))
    if as_json:
        print_json(report_fields(found))
    else:
        print_audit(found)
    if not found.is_well:
        raise typer.Exit(1)


def _count_with_spark(master: str, settings: Mapping[str, str], options: Mapping[str, str]) -> "CountRows":
    require("pyspark", extra="spark")
    from headrace.pipeline.audit_job import count_with
    from headrace.pipeline.session import spark_session

    return count_with(spark_session(master=master, app="headrace audit", settings=settings), options)


def print_audit(found: "Audit") -> None:
    """As a table, with a word on how it stands."""
    from headrace.audit.report import full_bar, gone_notes, stranger_notes, verdict

    full = full_bar(found)
    columns = ("window (UTC)", "tier", "expected", "arrived", "status", "")
    print_table(columns, [_cells(row, full) for row in found.rows], title=found.topic, right=("expected", "arrived"))
    for text in (*gone_notes(found), *stranger_notes(found)):
        note(text)
    note(verdict(found))


def _cells(row: "Row", full: int) -> tuple[object, ...]:
    from headrace.audit.report import bar, status_text

    finding = row.finding
    drawn = Text()
    for part in bar(finding, full=full, width=_BAR_CELLS):
        drawn.append(_MARKS[part.kind] * part.cells, style=_STYLES[part.kind])
    status = Text(status_text(finding), style=_STYLES[finding.statuses[0]])
    return str(row.window), row.tier, f"{finding.expected:,}", f"{finding.arrived:,}", status, drawn
