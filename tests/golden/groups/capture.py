"""Writes the golden file beside it: what Apache Kafka's own group coordinator writes, reads and hashes.

Run as `python -m tests.golden.groups.capture` when a record gains a version; needs Java and Maven. The tests read the
file alone.
"""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.oracle.kafka import java_command

SOURCE = Path(__file__).with_name("Capture.java")
LINES = Path(__file__).with_name("records-4.1.1.jsonl")
Json = dict[str, Any]

ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
TOPIC_ID = base64.urlsafe_b64encode(bytes(range(1, 17))).rstrip(b"=").decode()
NOW_MS = 1_700_000_000_123


def written() -> Iterator[Json]:
    offset: Json = {
        "group_id": "grüppe",
        "topic": "orders",
        "partition": 7,
        "offset": 1 << 40,
        "leader_epoch": -1,
        "metadata": "",
        "commit_ms": NOW_MS,
        "expire_ms": None,
        "topic_id": ZERO_ID,
    }
    yield {"record": "offset", **offset}
    yield {"record": "offset", **offset, "leader_epoch": 3, "metadata": "näher", "topic_id": TOPIC_ID}
    yield {"record": "offset", **offset, "group_id": "", "expire_ms": NOW_MS + 1000, "leader_epoch": 3}
    yield {"record": "offset tombstone", "group_id": "grüppe", "topic": "orders", "partition": 7}
    member: Json = {
        "member_id": "client-1234",
        "instance_id": None,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 300_000,
        "session_timeout_ms": 45_000,
        "subscription": "0001",
        "assignment": "",
    }
    still: Json = {**member, "member_id": "still-77", "instance_id": "still", "subscription": "", "assignment": "ff00"}
    group: Json = {"group_id": "grüppe", "generation": 5, "state_since_ms": NOW_MS, "protocol_type": "consumer"}
    nobody: Json = {"protocol_name": None, "leader_id": None, "members": []}
    yield {"record": "group", **group, "protocol_name": "range", "leader_id": "client-1234", "members": [member]}
    yield {"record": "group", **group, "protocol_name": "range", "leader_id": "still-77", "members": [still]}
    yield {"record": "group", **group, **nobody}
    yield {"record": "new group", "group_id": "grüppe", "state_since_ms": NOW_MS}
    yield {"record": "group tombstone", "group_id": "grüppe"}
    yield {"record": "newer group", "group_id": "grüppe"}


def values() -> Iterator[Json]:
    """Every version that there ever was, as Kafka's own converters take them."""
    for version in range(5):
        offset: Json = {"offset": 77, "metadata": "m", "commitTimestamp": NOW_MS}
        if version == 1:
            offset["expireTimestamp"] = NOW_MS + 5
        if version >= 3:
            offset["leaderEpoch"] = 4
        if version >= 4:
            offset["topicId"] = TOPIC_ID
        yield {"type": "OffsetCommitValue", "version": version, "value": offset}
    yield {
        "type": "LegacyOffsetCommitValue",
        "version": 0,
        "value": {"offset": 77, "metadata": "m", "commitTimestamp": NOW_MS},
    }
    for version in range(5):
        member: Json = {
            "memberId": "m",
            "clientId": "c",
            "clientHost": "/h",
            "sessionTimeout": 6_000,
            "subscription": base64.b64encode(b"sub").decode(),
            "assignment": base64.b64encode(b"ass").decode(),
        }
        group: Json = {"protocolType": "consumer", "generation": 3, "protocol": "range", "leader": "m"}
        if version >= 1:
            member["rebalanceTimeout"] = 9_000
        if version >= 2:
            group["currentStateTimestamp"] = NOW_MS
        if version >= 3:
            member["groupInstanceId"] = "i"
        yield {"type": "GroupMetadataValue", "version": version, "value": {**group, "members": [member]}}


def lines() -> Iterator[Json]:
    yield from ({"what": "write", **line} for line in written())
    yield from ({"what": "value", **line} for line in values())
    # One is longer in UTF-16 than in letters; the last hashes to the smallest number there is.
    for group_id in ("", "a", "group", "grüppe", "x" * 100, "群体𝄞", "polygenelubricants"):
        yield from ({"what": "hash", "group_id": group_id, "partitions": count} for count in (1, 50, 97))
    for version in range(4):
        yield {"what": "subscribe", "version": version, "topics": ["a", "ört"]}


if __name__ == "__main__":
    asked = "".join(json.dumps(line) + "\n" for line in lines())
    answered = subprocess.run([*java_command(), str(SOURCE)], input=asked.encode(), stdout=subprocess.PIPE, check=True)
    LINES.write_bytes(answered.stdout)
    print(LINES.name, len(answered.stdout.splitlines()), "lines")
