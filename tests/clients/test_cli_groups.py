"""`headrace groups` and `headrace consume --group` against a real node, with members of real groups beside them.

HEADRACE_TEST_BOOTSTRAP names another Kafka to run the same against, as a control.
"""

import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from headrace.testing import Broker
from headrace.testing.node_process import NodeProcess
from tests import waiting
from tests.clients.command_line import Headrace, command

DEADLINE_S = 60.0
wait_until = partial(waiting.wait_until, timeout_s=DEADLINE_S)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node whose groups form at once."""
    other = os.environ.get("HEADRACE_TEST_BOOTSTRAP")
    if other:
        yield other
        return
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with NodeProcess(tmp_path_factory.mktemp("groups") / "data", settings=settings) as node:
        yield node.bootstrap
        node.stop()


@pytest.fixture
def headrace(bootstrap: str) -> Headrace:
    return Headrace(bootstrap)


@pytest.fixture
def group() -> str:
    return f"group-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(headrace: Headrace, group: str) -> str:
    """Two partitions with ten messages each, a second between one and the next."""
    name = f"topic-of-{group}"
    headrace("topics", "create", name, "--partitions", "2")
    for partition in ("0", "1"):
        lines = "".join(
            json.dumps({"value": f"{partition}.{n}", "timestamp_ms": 1_700_000_000_000 + n * 1_000}) + "\n"
            for n in range(10)
        )
        headrace("produce", name, "-p", partition, "--input", "json", stdin=lines)
    return name


class Member:
    """A stock client in the group."""

    def __init__(self, bootstrap: str, group: str, topic: str, name: str, **more: Any) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 300,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **more,
            }
        )
        self.consumer.subscribe([topic])

    def poll(self) -> None:
        self.consumer.poll(0.02)

    def close(self) -> None:
        self.consumer.close()


@pytest.fixture
def members(bootstrap: str, group: str, topic: str) -> Iterator[Callable[..., list[Member]]]:
    """Makes members that have shared out the partitions; closes them in the end."""
    joined: list[Member] = []

    def join(*names: str, **more: Any) -> list[Member]:
        joined.extend(Member(bootstrap, group, topic, name, **more) for name in names)
        headrace = Headrace(bootstrap)

        def is_settled() -> bool:
            for member in joined:
                member.poll()
            found = [one for one in headrace.json("groups", "list") if one["name"] == group]
            if not found or found[0]["state"] != "Stable":
                return False
            (described,) = headrace.json("groups", "describe", group)
            owned = sum(len(one["partitions"]) for member in described["members"] for one in member["assignment"])
            return len(described["members"]) == len(joined) and owned == 2

        wait_until(is_settled)
        return joined

    yield join
    for member in joined:
        member.close()


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """In the name of a group without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    wanted = [ClientPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def committed(headrace: Headrace, group: str) -> dict[int, int]:
    (described,) = headrace.json("groups", "describe", group)
    return {one["partition"]: one["committed"] for one in described["partitions"]}


def test_groups_are_listed_by_state(headrace: Headrace, group: str, topic: str) -> None:
    commit(headrace.bootstrap, group, topic, {0: 1})
    found = {one["name"]: one for one in headrace.json("groups", "list")}
    assert found[group] == {"name": group, "state": "Empty", "type": "Classic"}
    assert group in [one["name"] for one in headrace.json("groups", "list", "--state", "stable,empty")]
    assert group not in [one["name"] for one in headrace.json("groups", "list", "--state", "Stable")]
    assert group in headrace("groups", "list").stdout


def test_a_group_is_described_with_its_lag_in_messages_and_seconds(headrace: Headrace, group: str, topic: str) -> None:
    commit(headrace.bootstrap, group, topic, {0: 4, 1: 10})
    (described,) = headrace.json("groups", "describe", group)
    assert (described["state"], described["members"], described["lag"]) == ("Empty", [], 6)
    assert described["coordinator"]["port"] == int(headrace.bootstrap.rpartition(":")[2])
    behind, level = described["partitions"]
    assert (behind["committed"], behind["end"], behind["lag"]) == (4, 10, 6)
    # The message at offset 4 was written so long ago; nobody has read it yet.
    age_s = time.time() - 1_700_000_004
    assert age_s - 60 < behind["lag_s"] <= age_s
    assert (level["committed"], level["lag"], level["lag_s"]) == (10, 0, 0.0)
    assert described["lag_s"] == behind["lag_s"]

    shown = headrace("groups", "describe", group).stdout.splitlines()
    header = next(line.split() for line in shown if line.startswith("topic"))
    assert header == ["topic", "partition", "committed", "end", "lag", "behind", "client"]
    (row,) = [line.split() for line in shown if line.startswith(topic) and line.split()[1] == "1"]
    assert row[1:] == ["1", "10", "10", "0", "0.0", "s", "-"]


def test_members_with_what_each_reads_and_who_is_idle(
    headrace: Headrace, group: str, topic: str, members: Callable[..., list[Member]]
) -> None:
    members("one", "two", "three")
    (described,) = headrace.json("groups", "describe", group)
    assert (described["state"], described["assignor"]) == ("Stable", "range")
    by_client = {member["client_id"]: member for member in described["members"]}
    assert by_client.keys() == {"one", "two", "three"}
    assert sum(member["idle"] for member in by_client.values()) == 1
    owned = [
        (one["topic"], number)
        for member in by_client.values()
        for one in member["assignment"]
        for number in one["partitions"]
    ]
    assert sorted(owned) == [(topic, 0), (topic, 1)]
    for one in described["partitions"]:
        assert (one["committed"], one["lag"], one["lag_s"]) == (None, None, None)
        assert one["partition"] in by_client[one["client_id"]]["assignment"][0]["partitions"]
        assert one["member_id"].startswith(one["client_id"])
        assert one["host"].endswith("127.0.0.1")
    shown = headrace("groups", "describe", group)
    assert "1 of 3 members idle" in shown.stderr
    assert "idle" in shown.stdout


def test_a_static_member_is_shown_with_its_instance(
    headrace: Headrace, group: str, members: Callable[..., list[Member]]
) -> None:
    members("one", **{"group.instance.id": "the-first"})
    (described,) = headrace.json("groups", "describe", group)
    assert [member["instance_id"] for member in described["members"]] == ["the-first"]


@pytest.mark.parametrize(
    ("words", "new"),
    [
        ("--to-offset 7", {0: 7, 1: 7}),
        ("--to-offset 99", {0: 10, 1: 10}),
        ("--to-earliest", {0: 0, 1: 0}),
        ("--to-latest", {0: 10, 1: 10}),
        ("--shift-by 2", {0: 6, 1: 8}),
        ("--shift-by -5", {0: 0, 1: 1}),
        ("--to-current", {0: 4, 1: 6}),
        ("--to-time 1700000002500", {0: 3, 1: 3}),
        ("--to-time 2023-11-14T22:13:29+00:00", {0: 9, 1: 9}),
        ("--to-time 1h", {0: 10, 1: 10}),
    ],
)
def test_offsets_are_reset(headrace: Headrace, group: str, topic: str, words: str, new: dict[int, int]) -> None:
    commit(headrace.bootstrap, group, topic, {0: 4, 1: 6})
    planned = headrace.json("groups", "reset", group, "--all-topics", *words.split(), "--dry-run")
    assert [(one["topic"], one["partition"], one["old"], one["new"]) for one in planned] == [
        (topic, 0, 4, new[0]),
        (topic, 1, 6, new[1]),
    ]
    assert committed(headrace, group) == {0: 4, 1: 6}
    assert headrace.json("groups", "reset", group, "--topic", topic, *words.split()) == planned
    assert committed(headrace, group) == new


def test_some_partitions_are_reset_and_a_new_group_is_given_offsets(headrace: Headrace, group: str, topic: str) -> None:
    shown = headrace("groups", "reset", group, "--topic", f"{topic}:1", "--to-offset", "3").stdout.splitlines()
    assert [line.split() for line in shown if line.startswith(topic)] == [[topic, "1", "-", "3", "new"]]
    assert committed(headrace, group) == {1: 3}
    failed = headrace("groups", "reset", group, "--topic", topic, "--shift-by", "1", status=1)
    assert f"{topic}-0 has no committed offset" in failed.stderr
    assert committed(headrace, group) == {1: 3}
    missing = headrace("groups", "reset", group, "--topic", f"{topic}:0,7", "--to-latest", status=1)
    assert "has partitions 0 to 1, not 7" in missing.stderr


def test_a_group_with_members_is_left_alone(
    headrace: Headrace, group: str, topic: str, members: Callable[..., list[Member]]
) -> None:
    members("one")
    refused = headrace("groups", "reset", group, "--topic", topic, "--to-latest", status=1)
    assert f"group '{group}' is Stable with 1 member" in refused.stderr
    assert "Stop its consumers" in refused.stderr
    refused = headrace("groups", "delete", group, status=1)
    assert "is Stable with 1 member: it can be deleted only while it has none" in refused.stderr
    outcome = headrace("groups", "delete-offsets", group, "--topic", topic, status=1)
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in outcome.stdout


def test_groups_and_offsets_are_deleted(headrace: Headrace, group: str, topic: str) -> None:
    commit(headrace.bootstrap, group, topic, {0: 4, 1: 6})
    assert headrace("groups", "delete-offsets", group, "--topic", f"{topic}:1").stdout == f"{topic}-1: deleted\n"
    assert committed(headrace, group) == {0: 4}
    outcome = headrace("groups", "delete-offsets", group, "--topic", "nowhere", "--topic", f"{topic}:0", status=1)
    assert outcome.stdout == f"nowhere: UNKNOWN_TOPIC_OR_PARTITION\n{topic}-0: deleted\n"
    commit(headrace.bootstrap, group, topic, {0: 4})
    assert headrace.json("groups", "delete", group) == [{"name": group, "outcome": "deleted"}]
    assert group not in [one["name"] for one in headrace.json("groups", "list")]
    for words in (["describe", group], ["delete", group], ["delete-offsets", group, "--topic", topic]):
        assert f"group '{group}' does not exist" in headrace("groups", *words, status=1).stderr
    assert "does not exist" in headrace("groups", "reset", group, "--all-topics", "--to-latest", status=1).stderr


def test_several_groups_are_deleted_and_those_that_cannot_be_are_told(
    headrace: Headrace, group: str, topic: str
) -> None:
    commit(headrace.bootstrap, group, topic, {0: 1})
    failed = headrace("groups", "delete", group, f"{group}-missing", status=1)
    assert failed.stdout == f"{group}: deleted\n"
    assert f"group '{group}-missing' does not exist" in failed.stderr


def test_a_topic_that_is_gone_is_still_described(headrace: Headrace, group: str, topic: str) -> None:
    other = f"{topic}-gone"
    headrace("topics", "create", other, "-p", "1")
    commit(headrace.bootstrap, group, topic, {0: 1})
    commit(headrace.bootstrap, group, other, {0: 0})
    headrace("topics", "delete", other)
    (described,) = headrace.json("groups", "describe", group)
    kept = {(one["topic"], one["partition"]): one["end"] for one in described["partitions"]}
    assert kept[topic, 0] == 10
    assert kept.get((other, 0)) is None


# --- consume --group ---------------------------------------------------------------------------------------------


def both(first: int = 0, last: int = 10) -> list[str]:
    return [f"{partition}.{n}" for partition in (0, 1) for n in range(first, last)]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_a_member_reads_to_the_end_commits_and_leaves(
    headrace: Headrace, group: str, topic: str, assignor: str
) -> None:
    read = headrace("consume", topic, "--group", group, "--assignor", assignor).stdout.split()
    assert sorted(read) == both()
    assert committed(headrace, group) == {0: 10, 1: 10}
    (described,) = headrace.json("groups", "describe", group)
    assert (described["state"], described["members"]) == ("Empty", [])  # It did not let anybody wait for it.
    headrace("produce", topic, "-p", "1", stdin="more\n")
    assert headrace("consume", topic, "--group", group).stdout == "more\n"
    assert headrace("consume", topic, "--group", group).stdout == ""


def test_where_a_new_group_begins(headrace: Headrace, group: str, topic: str) -> None:
    assert headrace("consume", topic, "--group", group, "--from", "latest").stdout == ""
    headrace("produce", topic, "-p", "0", stdin="late\n")
    earliest = headrace("consume", topic, "--group", f"{group}-other", "--from", "earliest").stdout.split()
    assert sorted(earliest) == [*both(), "late"]


def test_no_more_is_committed_than_was_printed(headrace: Headrace, group: str, topic: str) -> None:
    seen: list[str] = []
    for count in (1, 4, 7, 8, 5):
        read = headrace("consume", topic, "--group", group, "--count", str(count)).stdout.split()
        assert len(read) == min(count, 20 - len(seen))
        seen += read
        assert sum(committed(headrace, group).values()) == len(seen)
    assert sorted(seen) == both()  # All of them, and none twice.


def test_several_topics_at_once(headrace: Headrace, group: str, topic: str) -> None:
    other = f"{topic}-too"
    headrace("topics", "create", other, "-p", "1")
    headrace("produce", other, stdin="x\n")
    lines = headrace("consume", topic, other, "--group", group, "--format", "%T %v").stdout.splitlines()
    assert sorted(lines) == sorted([*(f"{topic} {value}" for value in both()), f"{other} x"])
    alone = headrace("consume", topic, other, "--format", "%T %v").stdout.splitlines()
    assert sorted(alone) == sorted(lines)


def test_a_missing_topic_is_an_error_and_is_not_created(headrace: Headrace, group: str, topic: str) -> None:
    missing = f"{topic}-missing"
    assert missing in headrace("consume", missing, "--group", group, status=1).stderr
    assert missing not in [one["name"] for one in headrace.json("topics", "list")]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_follower_that_is_told_to_stop_commits_and_leaves(
    headrace: Headrace, group: str, topic: str, how: signal.Signals
) -> None:
    with command(headrace.bootstrap, "consume", topic, "--group", group, "--follow") as follower:
        assert follower.stdout is not None
        read = [follower.stdout.readline().decode().strip() for _ in range(20)]
        headrace("produce", topic, "-p", "0", stdin="after\n")
        assert follower.stdout.readline() == b"after\n"
        follower.send_signal(how)
        out, err = follower.communicate(timeout=30)
    assert sorted(read) == both()
    assert (follower.returncode, out, err) == (128 + how, b"", b"")
    assert committed(headrace, group) == {0: 11, 1: 10}
    (described,) = headrace.json("groups", "describe", group)
    assert described["members"] == []


def test_what_a_killed_reader_printed_last_comes_again_and_nothing_is_missing(
    headrace: Headrace, group: str, topic: str
) -> None:
    # Short sessions, so that nobody waits long for the one who was killed.
    words = ("consume", topic, "--group", group, "-X", "session.timeout.ms=6000", "--follow")
    with command(headrace.bootstrap, *words) as reader:
        assert reader.stdout is not None
        first = [reader.stdout.readline().decode().strip() for _ in range(20)]
        reader.kill()
        reader.communicate(timeout=30)
    headrace("produce", topic, "-p", "0", stdin="later\n")
    wait_until(lambda: headrace.json("groups", "describe", group)[0]["members"] == [])
    again = headrace("consume", topic, "--group", group).stdout.split()
    assert set(first) | set(again) == {*both(), "later"}


def test_two_readers_share_the_topic(headrace: Headrace, group: str, topic: str) -> None:
    words = ("consume", topic, "--group", group, "--follow", "--format", "%p")
    with command(headrace.bootstrap, *words) as one, command(headrace.bootstrap, *words) as two:

        def is_shared() -> bool:
            (described,) = headrace.json("groups", "describe", group)
            return described["state"] == "Stable" and len(described["members"]) == 2

        wait_until(lambda: any(found["name"] == group for found in headrace.json("groups", "list")))
        wait_until(is_shared)
        for partition in ("0", "1"):
            headrace("produce", topic, "-p", partition, stdin="x\n" * 50)
        wait_until(lambda: headrace.json("groups", "describe", group)[0]["lag"] == 0)
        outs = []
        for reader in (one, two):
            reader.send_signal(signal.SIGINT)
            outs.append(reader.communicate(timeout=30)[0].decode().split())
    # The last fifty of each partition came after the two had shared them.
    assert sorted({out[-1] for out in outs}) == ["0", "1"]
    assert sum(out.count("0") for out in outs) >= 60
    assert sum(out.count("1") for out in outs) >= 60


@pytest.mark.parametrize("code", ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"])
def test_a_coordinator_that_has_yet_to_settle_is_asked_again(headrace_broker: Broker, code: str) -> None:
    headrace = Headrace(headrace_broker.bootstrap)
    with headrace_broker.faults.error(code, api="DescribeGroups", times=2) as fault:
        done = headrace("groups", "describe", "nobody", status=1)
    assert "nobody" in done.stderr
    assert code not in done.stderr
    assert fault.hits == 2
