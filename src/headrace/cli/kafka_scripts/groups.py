"""kafka-consumer-groups: list, describe, reset and delete groups and their offsets.

Where Kafka's own says that something failed and exits with 0, this one exits with 1.
"""

import csv
import io
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from headrace.cli.connection import Connection
from headrace.cli.extras import require
from headrace.cli.failures import failure_text
from headrace.cli.group_changes import commit_offsets, delete_groups, forget_offsets, plan_reset
from headrace.cli.group_facts import (
    TYPES,
    GroupRefusal,
    InhabitedGroup,
    describe_groups,
    find_groups,
    list_groups,
)
from headrace.cli.group_reset import (
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    TopicScope,
    ToTime,
    parse_scope,
)
from headrace.cli.groups import parse_states
from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words
from headrace.cli.kafka_scripts.script import Script, cluster_of, left_aligned
from headrace.cli.output import CommandError, note
from headrace.errors import ErrorCode
from headrace.ids import TopicName, TopicPartition

_Changed = TypeVar("_Changed")

_DEFAULT_TIMEOUT_MS: Final = 5_000
_MISSING: Final = "-"
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_UNIT_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}

FLAGS: Final = (
    Flag("list", help="List groups."),
    Flag("describe", help="Show how far groups have read, or with --members or --state who and how they are."),
    Flag("delete", help="Delete groups."),
    Flag("reset-offsets", help="Change where a group goes on; only shown without --execute."),
    Flag("delete-offsets", help="Let a group forget how far it has read."),
    Flag("group", Takes.VALUE, "A group. May be repeated."),
    Flag("all-groups", help="Every group."),
    Flag("topic", Takes.VALUE, "A topic, or some of its partitions as TOPIC:0,1. May be repeated."),
    Flag("all-topics", help="Every partition that the group has committed."),
    Flag("timeout", Takes.VALUE, "How long to wait for an answer, in milliseconds."),
    Flag("dry-run", help="Show what --reset-offsets would do."),
    Flag("execute", help="Do what --reset-offsets says."),
    Flag("export", help="Print --reset-offsets as CSV."),
    Flag("to-offset", Takes.VALUE, "Reset to this offset."),
    Flag("from-file", Takes.VALUE, "Reset to the offsets of a CSV file: [group,]topic,partition,offset."),
    Flag("to-datetime", Takes.VALUE, "Reset to a time: 2026-01-31T12:00:00.000, UTC unless it says otherwise."),
    Flag("by-duration", Takes.VALUE, "Reset to so long ago: PnDTnHnMnS."),
    Flag("to-earliest", help="Reset to the beginning."),
    Flag("to-latest", help="Reset to the end."),
    Flag("to-current", help="Reset to where the group is."),
    Flag("shift-by", Takes.VALUE, "Reset so many further, or back if negative."),
    Flag("members", help="With --describe, show the members."),
    Flag("offsets", help="With --describe, show the offsets, as it does anyway."),
    Flag("verbose", help="With --describe --members, show what each member reads."),
    Flag("state", Takes.MAYBE, "With --describe, show the state; with --list, only groups in these states."),
    Flag("type", Takes.MAYBE, "With --list, only groups of these types."),
    Flag("validate-regex", Takes.VALUE, "Say whether this is a pattern as groups have it on the broker's side: RE2."),
)
_SCENARIOS: Final = (
    *("to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "from-file"),
)


def run(words: Words) -> None:
    actions: dict[str, Callable[[Connection, Words], None]] = {
        "list": list_all,
        "describe": describe,
        "delete": delete,
        "reset-offsets": reset_offsets,
        "delete-offsets": delete_offsets,
    }
    action = words.only(*actions, "validate-regex")
    words.check(
        action,
        {
            **dict.fromkeys(("members", "offsets", "verbose"), ("describe",)),
            **dict.fromkeys(("dry-run", "execute", "export", "all-topics", *_SCENARIOS), ("reset-offsets",)),
            "state": ("describe", "list"),
            "type": ("list",),
            "topic": ("reset-offsets", "delete-offsets"),
            "group": ("describe", "delete", "reset-offsets", "delete-offsets"),
            "all-groups": ("describe", "delete", "reset-offsets"),
        },
    )
    if action == "validate-regex":
        validate_regex(words.required(action))
        return
    timeout_ms = words.number("timeout") or _DEFAULT_TIMEOUT_MS
    actions[action](cluster_of(words, timeout_s=timeout_ms / 1000), words)


def list_all(cluster: Connection, words: Words) -> None:
    states = parse_states(words.all("state"))
    types = _parse_types(words.all("type"))
    groups = [
        group for group in list_groups(cluster, cluster.admin(), states=states) if not types or group["type"] in types
    ]
    columns = [name for name in ("type", "state") if name in words]
    if not columns:
        for group in groups:
            print(group["name"])
        return
    rows = [["GROUP", *(name.upper() for name in columns)]]
    rows += [[group["name"], *(group[name] for name in columns)] for group in groups]
    for line in left_aligned(rows, [25, *(20 for _ in columns)]):
        print(line)


def describe(cluster: Connection, words: Words) -> None:
    kind = words.at_most_one("members", "offsets", "state")
    if words.one("state") is not None:
        raise Misused("--describe does not take a value for --state")
    is_verbose = "verbose" in words
    lines = {"members": member_lines, "state": state_lines}.get(kind or "offsets", offset_lines)
    missing = []
    for name in sorted(_groups(cluster, words)):
        if find_groups(cluster, cluster.admin(), [name])[name] is None:
            missing.append(name)
            continue
        (group,) = describe_groups(cluster, cluster.admin(), [name], with_seconds=False)
        _tell_state(group)
        print("\n".join(lines(group, is_verbose=is_verbose)))
    if missing:
        raise CommandError("\n".join(f"Error: Consumer group '{name}' does not exist." for name in missing))


def _tell_state(group: Mapping[str, Any]) -> None:
    name, state = group["name"], group["state"]
    if state == "Empty":
        print(f"\nConsumer group '{name}' has no active members.", file=sys.stderr)
    elif state != "Stable":
        print(f"\nWarning: Consumer group '{name}' is rebalancing.", file=sys.stderr)


def offset_lines(group: Mapping[str, Any], *, is_verbose: bool) -> list[str]:
    """What members read, those that read most first, then what nobody does."""
    rows = [
        [
            group["name"],
            one["topic"],
            one["partition"],
            *([_shown(one["leader_epoch"])] if is_verbose else []),
            *(_shown(one[name]) for name in ("committed", "end", "lag", "member_id", "host", "client_id")),
        ]
        for one in _by_member(group)
    ]
    if not rows:
        return []
    header = [
        *("GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if is_verbose else [])),
        *("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"),
    ]
    return ["", *left_aligned([header, *rows], [15, 15, 10, *([15] if is_verbose else []), 15, 15, 15, 15, 15])]


def _shown(value: object) -> object:
    return _MISSING if value is None else value


def _by_member(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    counts: dict[str | None, int] = {}
    for one in group["partitions"]:
        counts[one["member_id"]] = counts.get(one["member_id"], 0) + 1
    return sorted(
        group["partitions"],
        key=lambda one: (one["member_id"] is None, -counts[one["member_id"]], one["member_id"] or "", one["partition"]),
    )


def member_lines(group: Mapping[str, Any], *, is_verbose: bool) -> list[str]:
    """Members of the classic protocol have neither epochs nor a target that differs from what they have."""
    members = group["members"]
    is_static = any(member["instance_id"] for member in members)
    header = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if is_static else []), "HOST", "CLIENT-ID", "#PARTITIONS"]
    widths = [15, 15, *([17] if is_static else []), 15, 15, 15]
    if is_verbose:
        header += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        widths += [15, 20, 15, 20]
    rows = [
        [
            group["name"],
            member["member_id"],
            *([member["instance_id"] or ""] if is_static else []),
            member["host"],
            member["client_id"],
            sum(len(one["partitions"]) for one in member["assignment"]),
            *([_MISSING, _assignment_text(member["assignment"]), _MISSING, _MISSING] if is_verbose else []),
        ]
        for member in members
    ]
    return ["", *left_aligned([header, *rows], widths)]


def _assignment_text(assignment: Sequence[Mapping[str, Any]]) -> str:
    return ";".join(f"{one['topic']}:{','.join(map(str, one['partitions']))}" for one in assignment) or _MISSING


def state_lines(group: Mapping[str, Any], *, is_verbose: bool) -> list[str]:
    node = group["coordinator"]
    coordinator = _MISSING if node is None else f"{node['host']}:{node['port']}  ({node['id']})"
    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row = [group["name"], coordinator, _shown(group["assignor"]), group["state"]]
    widths = [15, 25, 20, 20]
    if is_verbose:
        header += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [_MISSING, _MISSING]
        widths += [15, 25]
    return ["", *left_aligned([[*header, "#MEMBERS"], [*row, len(group["members"])]], widths)]


def delete(cluster: Connection, words: Words) -> None:
    names = _groups(cluster, words)
    failures = delete_groups(cluster, names) if names else {}
    deleted = [name for name in names if name not in failures]
    if not failures:
        print(f"Deletion of requested consumer groups ('{', '.join(deleted)}') was successful.")
        return
    if deleted:
        print(f"These consumer groups were deleted successfully: '{', '.join(deleted)}'")
    reasons = (f"* Group '{name}' could not be deleted due to: {reason}" for name, reason in failures.items())
    raise CommandError("\n".join(["Error: Deletion of some consumer groups failed:", *reasons]))


def reset_offsets(cluster: Connection, words: Words) -> None:
    scenario = words.only(*_SCENARIOS)
    if "dry-run" in words and "execute" in words:
        raise Misused("--reset-offsets is either a --dry-run or to --execute")
    if scenario != "from-file" and ("all-topics" in words) == ("topic" in words):
        raise Misused("say which partitions: --all-topics, or --topic")
    is_dry = "execute" not in words
    if is_dry and "dry-run" not in words:
        note("WARN: No action will be performed as the --execute option is missing.")
    names = _groups(cluster, words)
    plan = _planner(cluster, words, scenario, names)
    refusals: list[str] = []
    plans = dict(_of_each(names, plan, refusals))
    if not is_dry:
        committed = _of_each(plans, lambda name: commit_offsets(cluster, name, plans[name]), refusals)
        plans = {name: plans[name] for name, _ in committed}
    rows = [(name, *place, offset) for name, new in plans.items() for place, offset in new.items()]
    if "export" in words:
        print(csv_text([row[1:] if len(names) == 1 else row for row in rows]), end="")
    else:
        header = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
        print("\n".join(["", *left_aligned([header, *rows], [30, 30, 10])]))
    if refusals:
        raise CommandError("\n".join(refusals))


def _of_each(
    names: Iterable[str], change: Callable[[str], _Changed], refusals: list[str]
) -> Iterator[tuple[str, _Changed]]:
    """What came of it, group by group: one that refuses, or cannot be reached, takes no other with it."""
    from confluent_kafka import KafkaException

    for name in names:
        try:
            yield name, change(name)
        except InhabitedGroup as refusal:
            refusals.append(
                f"Error: Assignments can only be reset if the group '{name}' is inactive, "
                f"but the current state is {refusal.state}."
            )
        except GroupRefusal as refusal:
            refusals.append(f"Error: {refusal}")
        except KafkaException as failure:
            refusals.append(f"Error: group '{name}': {failure_text(failure)}")


def _planner(
    cluster: Connection, words: Words, scenario: str, names: Sequence[str]
) -> Callable[[str], dict[TopicPartition, int]]:
    """Where a group would go on, asked group by group; what is wrong with the words themselves is said before."""
    if scenario == "from-file":
        text = Path(words.required("from-file")).read_text()
        said = parse_csv(text, group=names[0] if len(names) == 1 else None)
        return lambda group: _plan_from(cluster, group, said)
    scopes = [parse_scope(text) for text in words.all("topic")]
    target = _target(words, scenario)

    def plan(group: str) -> dict[TopicPartition, int]:
        planned = plan_reset(cluster, group, scopes, target)
        for topic, partition in planned.without_time:
            note(f"Warn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset.")
        return planned.new

    return plan


def _plan_from(
    cluster: Connection, group: str, said: Mapping[str, Mapping[TopicPartition, int]]
) -> dict[TopicPartition, int]:
    if group not in said:
        raise GroupRefusal(f"No reset plan for group {group} found")
    new: dict[TopicPartition, int] = {}
    for (topic, partition), offset in said[group].items():
        new |= plan_reset(cluster, group, [TopicScope(topic, (partition,))], ToOffset(offset)).new
    return new


def _target(words: Words, scenario: str) -> Target:
    match scenario:
        case "to-offset":
            return ToOffset(words.number("to-offset") or 0)
        case "shift-by":
            return ShiftBy(words.number("shift-by") or 0)
        case "to-datetime":
            return ToTime(parse_datetime(words.required("to-datetime")))
        case "by-duration":
            return ToTime(time.time_ns() // 1_000_000 - parse_duration(words.required("by-duration")))
        case "to-earliest":
            return ToEarliest()
        case "to-latest":
            return ToLatest()
        case _:
            assert scenario == "to-current"
            return ToCurrent()


def delete_offsets(cluster: Connection, words: Words) -> None:
    group = words.required("group")
    topics = words.all("topic")
    if not topics:
        raise Misused("--delete-offsets needs --group and --topic")
    outcomes = forget_offsets(cluster, group, [parse_scope(text) for text in topics])
    failed = [code for code in outcomes.values() if code is not ErrorCode.NONE]
    if not failed:
        print(f"Request succeeded for deleting offsets from group {group}.")
    rows = [
        (topic, _shown(partition), "Successful" if code is ErrorCode.NONE else f"Error: {code.name}")
        for (topic, partition), code in sorted(outcomes.items(), key=lambda one: (one[0][0], one[0][1] or 0))
    ]
    print("\n".join(["", *left_aligned([("TOPIC", "PARTITION", "STATUS"), *rows], [15, 10])]))
    if failed:
        raise CommandError("Error: Encountered some partition-level error, see the details above.")


def validate_regex(text: str) -> None:
    """By RE2 itself, which Arrow has; Kafka's is the same in Java, with words of its own for what is wrong."""
    require("pyarrow", extra="arrow")
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern=text)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise CommandError(f"The regular expression `{text}` is invalid: {reason}.") from None
    print(f"The regular expression `{text}` is valid.")


def _groups(cluster: Connection, words: Words) -> list[str]:
    if "all-groups" in words:
        if "group" in words:
            raise Misused("say --group or --all-groups, not both")
        return [group["name"] for group in list_groups(cluster, cluster.admin())]
    if not words.all("group"):
        raise Misused("say which groups: --group, or --all-groups")
    return list(dict.fromkeys(words.all("group")))


def _parse_types(texts: Iterable[str]) -> set[str]:
    known = {word.lower(): word for word in TYPES.values()}
    said = [text.strip().lower() for one in texts for text in one.split(",") if text.strip()]
    for text in said:
        if text not in known:
            raise Misused(f"--type {text!r} is not one of {', '.join(known.values())}")
    return {known[text] for text in said}


def parse_datetime(text: str) -> int:
    """Kafka reads a time without a zone as UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(f"--to-datetime {text!r} is not a time such as 2026-01-31T12:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO 8601 duration."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise Misused(f"--by-duration {text!r} is not a length of time such as P1DT2H3M4S")
    return round(sum(float(match[unit] or 0) * unit_ms for unit, unit_ms in _UNIT_MS.items()))


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def parse_csv(text: str, *, group: str | None) -> dict[str, dict[TopicPartition, int]]:
    """Offsets by group; lines without a group are meant for the only `group` there is."""
    plans: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        named = [group, *row] if len(row) == 3 and group is not None else row
        try:
            name, topic, partition, offset = named
            assert name is not None
            plans.setdefault(name, {})[TopicPartition(TopicName(topic), int(partition))] = int(offset)
        except ValueError:
            raise CommandError(f"--from-file, line {number}: not [group,]topic,partition,offset") from None
    return plans


SCRIPT: Final = Script("kafka-consumer-groups", "list, describe, reset or delete consumer groups", FLAGS, run)
