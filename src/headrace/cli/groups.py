"""`headrace groups`: list, describe, reset, delete, delete-offsets."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from headrace.cli.connection import Connection, connected
from headrace.cli.group_changes import commit_offsets, delete_groups, forget_offsets, plan_reset
from headrace.cli.group_facts import STATES, describe_groups, list_groups
from headrace.cli.group_reset import (
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
    parse_scope,
)
from headrace.cli.moments import duration_text, parse_moment
from headrace.cli.output import AsJson, CommandError, note, print_json, print_table
from headrace.errors import ErrorCode
from headrace.ids import TopicPartition

app = typer.Typer(help="Look at consumer groups, and change where they go on.", no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)]
Groups = Annotated[list[str], typer.Argument(metavar="GROUP", help="One group or more.", show_default=False)]
Topics = Annotated[
    list[str],
    typer.Option("--topic", "-t", metavar="TOPIC[:N,N]", help="A topic, or only these partitions. May be repeated."),
]


@app.command("list")
@connected
def list_(
    cluster: Connection,
    state: Annotated[
        list[str],
        typer.Option("--state", metavar="STATE", help=f"Only groups that are {', '.join(STATES.values())}."),
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """List groups with their states."""
    states = parse_states(state)
    groups = list_groups(cluster, cluster.admin(), states=states)
    if as_json:
        print_json(groups)
    elif groups:
        print_table(("group", "state", "type"), (list(group.values()) for group in groups))
    else:
        note(f"no {'such ' * bool(state)}groups on {cluster.bootstrap}")


@app.command()
@connected
def describe(cluster: Connection, names: Groups, as_json: AsJson = False) -> None:
    """Show members with what each reads, and how far the group is in every partition.

    Lag counts messages. Behind tells how old the next message is that the group has to read.
    """
    groups = describe_groups(cluster, cluster.admin(), names)
    if as_json:
        print_json(groups)
        return
    for group in groups:
        _show_group(group)


def _show_group(group: Mapping[str, Any]) -> None:
    node = group["coordinator"]
    facts = {
        "state": Text(group["state"], style="" if group["state"] in {"Stable", "Empty"} else "yellow"),
        "assignor": group["assignor"],
        "coordinator": None if node is None else f"{node['id']} ({node['host']}:{node['port']})",
        "lag": group["lag"],
        "behind": duration_text(group["lag_s"]),
    }
    print_table(tuple(facts), [tuple(facts.values())], title=group["name"])
    members = group["members"]
    if members:
        print_table(("client", "host", "instance", "partitions", "member"), map(_member_row, members))
    if group["partitions"]:
        numbers = ("partition", "committed", "end", "lag", "behind")
        print_table(("topic", *numbers, "client"), map(_partition_row, group["partitions"]), right=numbers)
    if idle := sum(member["idle"] for member in members):
        note(f"{idle} of {len(members)} members idle: {len(members) - idle} are enough for the partitions there are")


def _member_row(member: Mapping[str, Any]) -> Sequence[object]:
    reads = Text("idle", style="yellow") if member["idle"] else _assignment_text(member["assignment"])
    return (member["client_id"], member["host"], member["instance_id"], reads, member["member_id"])


def _partition_row(one: Mapping[str, Any]) -> Sequence[object]:
    counts = (one["partition"], one["committed"], one["end"], one["lag"])
    return (one["topic"], *counts, duration_text(one["lag_s"]), one["client_id"])


@app.command()
@connected
def reset(
    cluster: Connection,
    group: Group,
    topic: Topics = [],  # noqa: B006
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Every partition that it has committed.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="This offset.")] = None,
    to_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The first message from then on: ISO time, 10m ago, or milliseconds."),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The beginning.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The end.")] = False,
    shift_by: Annotated[int | None, typer.Option(metavar="N", help="So many further, or back if negative.")] = None,
    to_current: Annotated[bool, typer.Option("--to-current", help="Where it is; the end where it is nowhere.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and do nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change where a group goes on. It must have no members; offsets outside the log move to its nearest end."""
    said: tuple[Target | None, ...] = (
        None if to_offset is None else ToOffset(to_offset),
        None if to_time is None else ToTime(parse_time(to_time)),
        None if shift_by is None else ShiftBy(shift_by),
        ToEarliest() if to_earliest else None,
        ToLatest() if to_latest else None,
        ToCurrent() if to_current else None,
    )
    targets = [target for target in said if target is not None]
    if len(targets) != 1:
        raise typer.BadParameter(
            "say exactly one of --to-offset, --to-time, --to-earliest, --to-latest, --shift-by, --to-current"
        )
    if bool(topic) == all_topics:
        raise typer.BadParameter("say which partitions: --topic, or --all-topics")
    scopes = [parse_scope(text) for text in topic]
    plan = plan_reset(cluster, group, scopes, targets[0])
    if not dry_run:
        commit_offsets(cluster, group, plan.new)
    changes = [{**place._asdict(), "old": plan.old.get(place), "new": offset} for place, offset in plan.new.items()]
    if as_json:
        print_json(changes)
        return
    columns = ("topic", "partition", "old", "new", "change")
    rows = [(*change.values(), _change_text(change["old"], change["new"])) for change in changes]
    print_table(columns, rows, right=columns[1:])
    if dry_run:
        note("nothing was changed")


@app.command()
@connected
def delete(cluster: Connection, names: Groups, as_json: AsJson = False) -> None:
    """Delete groups and their offsets. They must have no members."""
    failures = delete_groups(cluster, names)
    deleted = [name for name in dict.fromkeys(names) if name not in failures]
    if as_json:
        print_json([{"name": name, "outcome": "deleted"} for name in deleted])
    else:
        for name in deleted:
            print(f"{name}: deleted")
    if failures:
        raise CommandError("\n".join(map(str, failures.values())))


@app.command("delete-offsets")
@connected
def delete_offsets(cluster: Connection, group: Group, topic: Topics, as_json: AsJson = False) -> None:
    """Let a group forget how far it has read topics that it does not subscribe to any more."""
    outcomes = forget_offsets(cluster, group, [parse_scope(text) for text in topic])
    failed = {place: code for place, code in outcomes.items() if code is not ErrorCode.NONE}
    if as_json:
        print_json(
            [
                {"topic": topic, "partition": partition, "outcome": _outcome_text(code)}
                for (topic, partition), code in outcomes.items()
            ]
        )
    else:
        for (topic_name, partition), code in outcomes.items():
            place = topic_name if partition is None else TopicPartition(topic_name, partition)
            print(f"{place}: {_outcome_text(code)}")
    if failed:
        raise CommandError(f"{len(failed)} of {len(outcomes)} offsets not deleted")


def parse_states(texts: Iterable[str]) -> list[str]:
    """States in Kafka's words, whatever their case; several in one word with commas between, as Kafka has it."""
    known = {word.lower(): word for word in STATES.values()}
    said = [text.strip() for one in texts for text in one.split(",") if text.strip()]
    for text in said:
        if text.lower() not in known:
            raise typer.BadParameter(f"{text!r} is no state of a group: {', '.join(known.values())}")
    return [known[text.lower()] for text in said]


def parse_time(text: str) -> int:
    if text.isdecimal():
        return int(text)
    moment_ms = parse_moment(text, now_ms=time.time_ns() // 1_000_000)
    if moment_ms is None:
        raise typer.BadParameter(f"--to-time {text!r}: 2026-01-31T12:00, 10m for ten minutes ago, or milliseconds")
    return moment_ms


def _assignment_text(assignment: Sequence[Mapping[str, Any]]) -> str:
    return " ".join(f"{one['topic']}:{','.join(map(str, one['partitions']))}" for one in assignment) or "-"


def _change_text(old: int | None, new: int) -> str:
    return "new" if old is None else f"{new - old:+,}" if new != old else "none"


def _outcome_text(code: ErrorCode) -> str:
    return "deleted" if code is ErrorCode.NONE else code.name
