"""`headrace consume`: what topics hold, from anywhere in them, in any form; alone or as a member of a group.

Alone it reads partitions directly: nothing is committed, nobody is disturbed. By default it shows what was there
when it was started, and stops. With `--group` it takes its share of the partitions, begins where the group has
committed, and commits what it has printed.
"""

import re
import time
from contextlib import closing
from typing import Annotated

import typer

from headrace.cli.column_printing import Layout, print_by_columns
from headrace.cli.connection import Connection, connected
from headrace.cli.group_member import Assignor, print_as_member
from headrace.cli.message_text import Encoding, parse_template, render_json, template_renderer, unescape
from headrace.cli.moments import parse_moment
from headrace.cli.output import AsJson
from headrace.cli.reading import (
    AtOffset,
    AtTime,
    BeforeEnd,
    Earliest,
    Latest,
    Printer,
    Start,
    find_bounds,
    print_all,
    read_between,
)
from headrace.cli.topic_facts import find_partitions, find_topics


def parse_start(text: str, *, now_ms: int) -> Start:
    """Where to begin: a word, an offset, a count from the end, how long ago, or a time."""
    if text == "earliest":
        return Earliest()
    if text == "latest":
        return Latest()
    if re.fullmatch(r"-?\d+", text):
        number = int(text)
        return AtOffset(number) if number >= 0 else BeforeEnd(-number)
    if (moment_ms := parse_moment(text, now_ms=now_ms)) is not None:
        return AtTime(moment_ms)
    raise typer.BadParameter(
        f"--from {text!r}: earliest, latest, an offset, -N for the last N, 10m for ten minutes ago, "
        "2026-01-31T12:00 or @MILLISECONDS"
    )


@connected
def consume(
    cluster: Connection,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="What to read; several if you like.", show_default=False)
    ],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="earliest, latest (waits for what comes), an offset, -N for the last N of each partition, "
            "10m for ten minutes ago, an ISO time, or @MILLISECONDS. With --group only earliest or latest, "
            "where the group has committed nothing.",
        ),
    ] = "earliest",
    count: Annotated[int | None, typer.Option("--count", "-n", min=0, help="Stop after so many messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until interrupted.")] = False,
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", min=0, help="Only this one. May be repeated.")
    ] = [],  # noqa: B006
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Join this group, begin where it is, and commit what was printed."),
    ] = None,
    assignor: Annotated[
        Assignor | None, typer.Option(help="How the group shares partitions (range if not said).")
    ] = None,
    template: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="TEMPLATE",
            help="%k key, %v value, %o offset, %p partition, %T topic, %t time in ms, %h headers; \\n \\t \\xNN.",
        ),
    ] = "%v",
    encoding: Annotated[
        Encoding, typer.Option("--encoding", "-e", help="For bytes that are not text.")
    ] = Encoding.TEXT,
    delimiter: Annotated[str, typer.Option(help="After each message.")] = "\\n",
    null: Annotated[str, typer.Option(help="Shown for a null key or value.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print messages; stops at the end of the topics unless told to follow."""
    begin = parse_start(start, now_ms=time.time_ns() // 1_000_000)
    render = render_json if as_json else template_renderer(template, encoding=encoding, null=null)
    printer = Printer(render, ending=b"\n" if as_json else unescape(delimiter), count=count)
    if group is None:
        if assignor is not None:
            raise typer.BadParameter("--assignor is for a --group")
        places = find_partitions(cluster, cluster.admin(), [(topic, partition) for topic in topics])
        bounds = find_bounds(cluster, cluster.admin(), places, begin)
        follow = follow or isinstance(begin, Latest)
        if not follow and not as_json and encoding is Encoding.TEXT:
            layout = Layout(parse_template(template), null=null.encode(), ending=unescape(delimiter))
            if print_by_columns(cluster, bounds, layout, count=count):
                return
        with closing(read_between(cluster, bounds, follow=follow)) as brought:
            print_all(brought, printer)
        return
    if partition:
        raise typer.BadParameter("--partition is not yours to choose in a --group")
    if not isinstance(begin, Earliest | Latest):
        raise typer.BadParameter("with --group, --from is earliest or latest; headrace groups reset goes elsewhere")
    find_topics(cluster, cluster.admin(), topics)  # Fails for one that is not there, and creates none.
    settings = {"auto.offset.reset": start, **({"partition.assignment.strategy": assignor.value} if assignor else {})}
    print_as_member(cluster, group, topics, printer, follow=follow, settings=settings)
