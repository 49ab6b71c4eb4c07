"""The command line against a real node: what it does to topics and messages, and how it fails.

HEADRACE_TEST_BOOTSTRAP names another Kafka to run the same against, as a control.
"""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from headrace.testing.node_process import NodeProcess
from tests.clients.command_line import Headrace, command


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> str:
    other = os.environ.get("HEADRACE_TEST_BOOTSTRAP")
    if other:
        return other
    node: NodeProcess = request.getfixturevalue("shared_node")
    return node.bootstrap


@pytest.fixture
def headrace(bootstrap: str) -> Headrace:
    return Headrace(bootstrap)


@pytest.fixture
def topic(headrace: Headrace, topic_name: str) -> str:
    """An empty topic of three partitions."""
    headrace("topics", "create", topic_name, "--partitions", "3")
    return topic_name


def test_a_topic_is_created_listed_described_altered_and_deleted(headrace: Headrace, topic_name: str) -> None:
    created = headrace.json("topics", "create", topic_name, "-p", "2", "-c", "segment.ms=60000")
    assert created == [{"name": topic_name, "outcome": "created"}]
    (listed,) = [one for one in headrace.json("topics", "list") if one["name"] == topic_name]
    assert (listed["partitions"], listed["replication_factor"], listed["leaderless"]) == (2, 1, 0)

    headrace("topics", "alter", topic_name, "-p", "3", "--set", "max.message.bytes=2000", "--unset", "segment.ms")
    (described,) = headrace.json("topics", "describe", topic_name)
    assert [one["partition"] for one in described["partitions"]] == [0, 1, 2]
    assert described["configs"]["max.message.bytes"] == "2000"
    assert "segment.ms" not in described["configs"]
    for one in described["partitions"]:
        assert one["replicas"] == one["isr"] == [one["leader"]]
        assert (one["earliest"], one["latest"], one["size_bytes"]) == (0, 0, 0)

    assert headrace.json("topics", "delete", topic_name) == [{"name": topic_name, "outcome": "deleted"}]
    assert topic_name not in [one["name"] for one in headrace.json("topics", "list")]


def test_a_topic_is_created_where_its_replicas_shall_be(headrace: Headrace, topic: str) -> None:
    (leader,) = {one["leader"] for one in headrace.json("topics", "describe", topic)[0]["partitions"]}
    assigned = f"{topic}-assigned"
    headrace("topics", "create", assigned, "--replica-assignment", f"{leader},{leader}")
    (described,) = headrace.json("topics", "describe", assigned)
    assert [one["replicas"] for one in described["partitions"]] == [[leader], [leader]]


def test_settings_are_shown_with_where_they_come_from(headrace: Headrace, topic: str) -> None:
    headrace("topics", "alter", topic, "--set", "segment.bytes=1048576")
    settings = {one["name"]: one for one in headrace.json("topics", "configs", topic)}
    assert (settings["segment.bytes"]["value"], settings["segment.bytes"]["source"]) == ("1048576", "topic")
    assert settings["cleanup.policy"]["source"] == "default"
    own = headrace("topics", "configs", topic, "--overrides").stdout
    assert "segment.bytes" in own
    assert "cleanup.policy" not in own


def test_people_get_tables(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, "-p", "1", stdin="a\nb\n")
    described = headrace("topics", "describe", topic).stdout.splitlines()
    header = next(line.split() for line in described if line.startswith("partition"))
    assert header == ["partition", "leader", "replicas", "in", "sync", "earliest", "latest", "messages", "size"]
    (row,) = [line.split() for line in described if line.strip().startswith("1 ")]
    assert row[4:7] == ["0", "2", "2"]
    assert topic in headrace("topics", "list").stdout


def test_existing_and_missing_topics(headrace: Headrace, topic: str) -> None:
    assert "already exists" in headrace("topics", "create", topic, status=1).stderr
    assert headrace.json("topics", "create", topic, "--if-not-exists")[0]["outcome"] == "exists"
    missing = f"{topic}-missing"
    for words in (["topics", "describe"], ["topics", "delete"], ["consume"]):
        assert missing in headrace(*words, missing, status=1).stderr
    assert headrace.json("topics", "delete", missing, "--if-exists")[0]["outcome"] == "missing"
    assert headrace.json("topics", "create", missing, "--validate-only")[0]["outcome"] == "valid"
    # Neither asking for it nor asking about it has created it.
    assert missing not in [one["name"] for one in headrace.json("topics", "list")]


def test_what_the_broker_refuses_is_told_with_its_words(headrace: Headrace, topic: str) -> None:
    assert "INVALID_PARTITIONS" in headrace("topics", "alter", topic, "-p", "1", status=1).stderr
    assert "INVALID_CONFIG" in headrace("topics", "alter", topic, "--set", "no.such=1", status=1).stderr
    refused = headrace("topics", "create", f"{topic}-3", "-r", "3", status=1)
    assert "INVALID_REPLICATION_FACTOR" in refused.stderr
    assert "Topic name is invalid" in headrace("topics", "create", "no/good", status=1).stderr


@pytest.mark.parametrize(
    "words",
    [
        "topics alter t",
        "topics alter t --set a=1 --unset a",
        "topics alter t --replica-assignment 1",
        "topics create t --replica-assignment 1 --partitions 1",
        "topics create t --replica-assignment x",
        "produce t --input files",
        "produce t --input json --key-separator :",
        "consume t --from nowhere",
        "consume t --group g --partition 0",
        "consume t --group g --from 5",
        "consume t --assignor range",
        "consume",
        "groups reset g --to-latest",
        "groups reset g --all-topics",
        "groups reset g --all-topics --topic t --to-latest",
        "groups reset g --all-topics --to-latest --to-earliest",
        "groups reset g --all-topics --to-time tomorrow",
        "groups reset g --topic t:x --to-latest",
        "groups list --state asleep",
        "groups delete-offsets g",
    ],
)
def test_a_mistyped_command_is_status_2_and_asks_no_broker(words: str) -> None:
    Headrace("127.0.0.1:1")(*words.split(), status=2)


def test_lines_go_in_and_come_out(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, "-p", "0", stdin="one\n\ntwo\n")
    assert headrace("consume", topic).stdout == "one\n\ntwo\n"
    assert headrace("consume", topic, "--format", "%p %o %v", "--delimiter", "|").stdout == "0 0 one|0 1 |0 2 two|"


def test_keys_headers_and_nulls(headrace: Headrace, topic: str) -> None:
    stdin = "a=1\nb=\na=2\n"
    outcome = headrace.json("produce", topic, "-K", "=", "--empty-is-null", "-H", "h=x", "-H", "i=", stdin=stdin)
    assert (outcome["acknowledged"], outcome["failed"]) == (3, 0)
    messages = headrace.consumed(topic)
    assert sorted((one["key"], one["value"]) for one in messages if one["value"]) == [("a", "1"), ("a", "2")]
    assert [one["key"] for one in messages if one["value"] is None] == ["b"]
    assert all(one["headers"] == [["h", "x"], ["i", ""]] for one in messages)
    # One key, one partition.
    assert len({one["partition"] for one in messages if one["key"] == "a"}) == 1


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_codec_and_acknowledgement(
    headrace: Headrace, topic: str, tmp_path: Path, compression: str, acks: str
) -> None:
    lines = "".join(f"line {n} {'x' * (n % 50)}\n" for n in range(500))
    (tmp_path / "input").write_text(lines)
    headrace("produce", topic, "-p", "2", "-f", tmp_path / "input", "-z", compression, "--acks", acks)
    deadline_s = time.monotonic() + 10  # With acks=0 nobody says when it is there.
    while (read := headrace("consume", topic).stdout) != lines and time.monotonic() < deadline_s:
        pass
    assert read == lines


def test_binary_files_are_messages(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    contents = [bytes(range(256)) * 40, b"", b"a\nb"]
    paths = [tmp_path / str(n) for n in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    named = [word for path in paths for word in ("-f", str(path))]
    headrace("produce", topic, "-p", "0", "--input", "files", *named)
    shown = headrace("consume", topic, "--encoding", "hex").stdout.splitlines()
    assert [bytes.fromhex(line) for line in shown] == contents


def test_json_out_is_json_in(headrace: Headrace, topic: str) -> None:
    lines = [
        {
            "key": "k",
            "value": {"base64": "/wA="},
            "headers": [["h", None], ["h", "x"]],
            "timestamp_ms": 1_700_000_000_000,
        },
        {"key": None, "value": None, "headers": [], "timestamp_ms": 1_700_000_000_001},
        {"key": "", "value": "größe", "headers": [], "timestamp_ms": 1_700_000_000_002},
    ]
    stdin = "".join(json.dumps(line) + "\n" for line in lines)
    headrace("produce", topic, "-p", "0", "--input", "json", stdin=stdin)
    first = headrace("consume", topic, "--json").stdout
    copy = f"{topic}-copy"
    headrace("topics", "create", copy, "-p", "1")
    headrace("produce", copy, "--input", "json", stdin=first)
    assert headrace("consume", copy, "--json").stdout == first.replace(f'"{topic}"', f'"{copy}"')
    assert [{name: one[name] for name in lines[0]} for one in headrace.consumed(copy)] == lines


def test_a_bad_line_stops_it_but_not_what_went_before(headrace: Headrace, topic: str) -> None:
    failed = headrace("produce", topic, "-K", ":", stdin="a:1\nb:2\nbad\nc:3\n", status=1)
    assert "standard input, line 3" in failed.stderr
    assert sorted(one["value"] for one in headrace.consumed(topic)) == ["1", "2"]


def test_messages_that_the_broker_refuses_are_told_and_fail_the_command(headrace: Headrace, topic: str) -> None:
    headrace("topics", "alter", topic, "--set", "max.message.bytes=1000")
    failed = headrace("produce", topic, "-p", "0", stdin="x" * 5_000 + "\n", status=1)
    assert "not delivered: b'xxx" in failed.stderr
    assert "1 of 1 messages not acknowledged" in failed.stderr
    assert headrace.consumed(topic) == []


def test_a_rate_is_kept(headrace: Headrace, topic: str) -> None:
    began_s = time.monotonic()
    headrace("produce", topic, "--rate", "40", stdin="x\n" * 20)
    assert 0.5 <= time.monotonic() - began_s < 10


def test_where_to_begin_and_how_much(headrace: Headrace, topic: str) -> None:
    for partition in ("0", "1"):
        lines = "".join(
            json.dumps({"value": f"{partition}.{n}", "timestamp_ms": 1_700_000_000_000 + n * 1_000}) + "\n"
            for n in range(10)
        )
        headrace("produce", topic, "-p", partition, "--input", "json", stdin=lines)

    def values(*words: str) -> list[str]:
        return sorted(headrace("consume", topic, *words).stdout.split())

    both = [f"{partition}.{n}" for partition in (0, 1) for n in range(10)]
    assert values() == both
    assert values("--from", "7") == ["0.7", "0.8", "0.9", "1.7", "1.8", "1.9"]
    assert values("--from", "-1") == ["0.9", "1.9"]
    assert values("--from", "999") == []
    assert values("--from", "@1700000008500") == ["0.9", "1.9"]
    assert values("--from", "2023-11-14T22:13:29+00:00") == ["0.9", "1.9"]
    assert values("--from", "1h") == []
    assert values("-p", "1", "--from", "8") == ["1.8", "1.9"]
    assert values("-p", "0", "--count", "3") == ["0.0", "0.1", "0.2"]
    assert values("-p", "2") == []
    assert "has partitions 0 to 2" in headrace("consume", topic, "-p", "9", status=1).stderr


def test_a_follower_sees_what_comes_and_leaves_quietly_when_interrupted(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, stdin="before\n")
    with command(headrace.bootstrap, "consume", topic, "--follow") as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"before\n"
        headrace("produce", topic, stdin="after\n")
        assert follower.stdout.readline() == b"after\n"
        follower.send_signal(signal.SIGINT)
        out, err = follower.communicate(timeout=20)
    assert (follower.returncode, out, err) == (130, b"", b"")


def test_a_reader_that_has_seen_enough_may_go(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, stdin="x" * 100 + "\n" + ("y" * 100 + "\n") * 5_000)
    with command(headrace.bootstrap, "consume", topic) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline()
        reader.stdout.close()
        assert reader.stderr is not None
        assert reader.stderr.read() == b""
    assert reader.returncode == 1


def test_an_interrupted_producer_keeps_what_it_sent(headrace: Headrace, topic: str) -> None:
    with command(headrace.bootstrap, "produce", topic, "--rate", "100") as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"line\n" * 1_000)
        producer.stdin.flush()
        deadline_s = time.monotonic() + 20
        while not headrace.consumed(topic) and time.monotonic() < deadline_s:
            pass
        producer.send_signal(signal.SIGINT)
        _, err = producer.communicate(timeout=20)
    assert producer.returncode == 130
    acknowledged = int(err.decode().split(": ")[1].split()[0].replace(",", ""))
    assert 0 < acknowledged < 1_000
    assert len(headrace.consumed(topic)) == acknowledged


def test_nobody_there_is_one_line_and_soon() -> None:
    began_s = time.monotonic()
    failed = Headrace("127.0.0.1:1")("topics", "list", status=1)
    assert failed.stderr.startswith("headrace: cannot reach 127.0.0.1:1: ")
    assert "refused" in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert time.monotonic() - began_s < 8


def test_a_setting_that_the_client_library_does_not_know(headrace: Headrace) -> None:
    failed = headrace("topics", "list", "-X", "no.such.setting=1", status=1)
    assert "no.such.setting" in failed.stderr
