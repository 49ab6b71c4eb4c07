"""The records of groups, where groups live and what consumers say, against Apache Kafka 4.1.1's own coordinator.

The file comes from `tests/golden/groups/capture.py`.
"""

import base64
import json
from typing import Any

import pytest

from headrace.coordination.records import (
    CommittedOffset,
    GroupForgotten,
    GroupRecord,
    GroupStored,
    OffsetCommitted,
    OffsetForgotten,
    StoredMember,
    Unread,
    encode_record,
    parse_record,
)
from headrace.coordination.subscriptions import subscribed_topics
from headrace.coordination.utf16 import offsets_partition
from headrace.ids import ZERO_TOPIC_ID, TopicId, parse_topic_id
from tests.golden.groups.capture import LINES, NOW_MS, TOPIC_ID, lines

GOLDEN: list[dict[str, Any]] = [json.loads(line) for line in LINES.read_text("utf-8").splitlines()]


def golden(what: str) -> list[dict[str, Any]]:
    return [line for line in GOLDEN if line["what"] == what]


def test_the_file_answers_what_is_asked() -> None:
    assert [{name: line[name] for name in asked} for line, asked in zip(GOLDEN, lines(), strict=True)] == list(lines())


def as_record(line: dict[str, Any]) -> GroupRecord:
    match line["record"]:
        case "offset":
            committed = CommittedOffset(
                offset=line["offset"],
                commit_ms=line["commit_ms"],
                leader_epoch=line["leader_epoch"],
                metadata=line["metadata"],
                expire_ms=line["expire_ms"],
                topic_id=parse_topic_id(line["topic_id"]),
            )
            return OffsetCommitted(line["group_id"], line["topic"], line["partition"], committed)
        case "offset tombstone":
            return OffsetForgotten(line["group_id"], line["topic"], line["partition"])
        case "group":
            members = tuple(
                StoredMember(**member | {name: bytes.fromhex(member[name]) for name in ("subscription", "assignment")})
                for member in line["members"]
            )
            names = ("group_id", "generation", "state_since_ms", "protocol_type", "protocol_name", "leader_id")
            return GroupStored(**{name: line[name] for name in names}, members=members)
        case "new group":
            return GroupStored(
                group_id=line["group_id"],
                protocol_type=None,
                generation=0,
                protocol_name=None,
                leader_id=None,
                state_since_ms=line["state_since_ms"],
                members=(),
            )
        case "group tombstone":
            return GroupForgotten(line["group_id"])
        case _:
            raise AssertionError(line)


def hex_or_none(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


OURS = [line for line in golden("write") if line["record"] != "newer group"]


@pytest.mark.parametrize("line", OURS, ids=lambda line: line["record"])
def test_we_write_what_kafka_writes(line: dict[str, Any]) -> None:
    key, value = encode_record(as_record(line))
    assert key.hex() == line["key_hex"]
    assert hex_or_none(value) == line["value_hex"]


@pytest.mark.parametrize("line", OURS, ids=lambda line: line["record"])
def test_we_read_what_kafka_writes(line: dict[str, Any]) -> None:
    value = None if line["value_hex"] is None else bytes.fromhex(line["value_hex"])
    expected = as_record(line)
    if isinstance(expected, OffsetCommitted) and expected.committed.expire_ms is not None:
        # The version that has room for an expiry has none for an epoch.
        expected = as_record({**line, "leader_epoch": -1})
    assert parse_record(bytes.fromhex(line["key_hex"]), value) == expected


def test_records_of_newer_protocols_are_kept_aside() -> None:
    (line,) = (line for line in golden("write") if line["record"] == "newer group")
    key, value = bytes.fromhex(line["key_hex"]), bytes.fromhex(line["value_hex"])
    assert parse_record(key, value) == Unread(key, value, "type 3 is not known")
    assert parse_record(key, None) == Unread(key, None, "type 3 is not known")


OFFSET_KEYS = {
    "OffsetCommitValue": encode_record(OffsetForgotten("g", "t", 1))[0],
    "LegacyOffsetCommitValue": b"\x00\x00" + encode_record(OffsetForgotten("g", "t", 1))[0][2:],
}


@pytest.mark.parametrize(
    "line",
    [line for line in golden("value") if line["type"] in OFFSET_KEYS],
    ids=lambda line: f"{line['type']}-v{line['version']}",
)
def test_every_version_of_an_offset_is_read(line: dict[str, Any]) -> None:
    version = line["version"]
    committed = CommittedOffset(
        offset=77,
        commit_ms=NOW_MS,
        leader_epoch=4 if version >= 3 else -1,
        metadata="m",
        expire_ms=NOW_MS + 5 if version == 1 else None,
        topic_id=TopicId(base64.urlsafe_b64decode(TOPIC_ID + "==")) if version == 4 else ZERO_TOPIC_ID,
    )
    found = parse_record(OFFSET_KEYS[line["type"]], bytes.fromhex(line["hex"]))
    assert found == OffsetCommitted("g", "t", 1, committed)


@pytest.mark.parametrize(
    "line",
    [line for line in golden("value") if line["type"] == "GroupMetadataValue"],
    ids=lambda line: f"v{line['version']}",
)
def test_every_version_of_a_group_is_read(line: dict[str, Any]) -> None:
    version = line["version"]
    member = StoredMember(
        member_id="m",
        instance_id="i" if version >= 3 else None,
        client_id="c",
        client_host="/h",
        # Who says nothing else waits for a rebalance as long as for a heartbeat.
        rebalance_timeout_ms=9_000 if version >= 1 else 6_000,
        session_timeout_ms=6_000,
        subscription=b"sub",
        assignment=b"ass",
    )
    assert parse_record(encode_record(GroupForgotten("g"))[0], bytes.fromhex(line["hex"])) == GroupStored(
        group_id="g",
        protocol_type="consumer",
        generation=3,
        protocol_name="range",
        leader_id="m",
        state_since_ms=NOW_MS if version >= 2 else None,
        members=(member,),
    )


def test_a_group_lives_where_kafka_looks_for_it() -> None:
    asked = golden("hash")
    found = [offsets_partition(line["group_id"], partitions=line["partitions"]) for line in asked]
    assert found == [line["partition"] for line in asked]


@pytest.mark.parametrize("line", golden("subscribe"), ids=lambda line: f"v{line['version']}")
def test_what_a_java_consumer_subscribes_to_is_understood(line: dict[str, Any]) -> None:
    assert subscribed_topics([bytes.fromhex(line["hex"])]) == frozenset(line["topics"])
