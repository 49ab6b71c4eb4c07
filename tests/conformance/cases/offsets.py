"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a log begins, ends, was at a time or under a leader."""

from typing import Any

from tests.conformance.batches import BASE_TIMESTAMP_MS, batch
from tests.conformance.case import Ask, Case, Step, Topic
from tests.conformance.cases.bodies import (
    DATA,
    ILLEGAL_NAMES,
    STAMPED,
    fetch,
    fetched_partition,
    fetched_topic,
    offsets,
    produce,
)
from tests.conformance.schemas import Message

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5


def _list(name: str, *timestamps: int, topic: str = DATA, versions: range | None = None, **more: Any) -> Case:
    return Case(
        api="ListOffsets", name=name, steps=[Ask("ListOffsets", offsets(topic, *timestamps, **more))], versions=versions
    )


_TIMES = {
    "the first record's time": 0,
    "before the first record": -1,
    "inside the first batch": 1,
    "just after the first batch": 3,
    "inside a gzip batch": 1002,
    "between batches out of order": 700,
    "the last lz4 record's time": 2004,
    "the newest record's time": 2005,
    "after the newest record": 3000,
}

CASES: list[Case] = [
    _list("latest", _LATEST),
    _list("earliest", _EARLIEST),
    _list("latest of an empty partition", _LATEST, partition=2),
    _list("earliest of an empty partition", _EARLIEST, partition=2),
    _list("earliest after records were deleted", _EARLIEST, partition=1),
    _list("latest after records were deleted", _LATEST, partition=1),
    _list("the record of the highest timestamp", _MAX_TIMESTAMP),
    _list("the record of the highest timestamp, broker's stamps", _MAX_TIMESTAMP, topic=STAMPED),
    _list("the record of the highest timestamp, empty partition", _MAX_TIMESTAMP, partition=2),
    _list("earliest local", _EARLIEST_LOCAL),
    _list("earliest local after records were deleted", _EARLIEST_LOCAL, partition=1),
    _list("latest tiered", _LATEST_TIERED),
    _list("special timestamp -6", -6),
    _list("special timestamp -7", -7),
    _list("lowest timestamp", -(2**63)),
    _list("highest timestamp", 2**63 - 1),
    _list("timestamp zero", 0),
    *(_list(name, BASE_TIMESTAMP_MS + delta_ms) for name, delta_ms in _TIMES.items()),
    _list("a time whose records were deleted", BASE_TIMESTAMP_MS, partition=1),
    _list("a time in an empty partition", BASE_TIMESTAMP_MS, partition=2),
    _list("unknown topic", _LATEST, topic="nowhere"),
    _list("partition beyond the last", _LATEST, partition=3),
    _list("partition negative", _LATEST, partition=-1),
    _list("a partition twice", _LATEST, _EARLIEST),
    _list("leader epoch right", _LATEST, current_leader_epoch=0, versions=range(4, 11)),
    _list("leader epoch too high", _LATEST, current_leader_epoch=4, versions=range(4, 11)),
    _list("leader epoch -2", _LATEST, current_leader_epoch=-2, versions=range(4, 11)),
    *(_list(f"illegal {name}", _LATEST, topic=bad) for name, bad in ILLEGAL_NAMES.items()),
    Case(
        api="ListOffsets",
        name="read committed",
        steps=[
            Ask("ListOffsets", {**offsets(DATA, one), "isolation_level": 1})
            for one in (_LATEST, _EARLIEST, BASE_TIMESTAMP_MS, _MAX_TIMESTAMP)
        ],
        versions=range(2, 11),
    ),
    Case(
        api="ListOffsets",
        name="isolation level 2",
        steps=[Ask("ListOffsets", {**offsets(DATA, _LATEST), "isolation_level": 2})],
        versions=range(2, 11),
    ),
    *(
        Case(
            api="ListOffsets",
            name=f"replica id {replica_id}",
            steps=[Ask("ListOffsets", {**offsets(DATA, _LATEST), "replica_id": replica_id})],
        )
        for replica_id in (-2, -3, 0, 99)
    ),
    Case(api="ListOffsets", name="no topics", steps=[Ask("ListOffsets", {"replica_id": -1, "topics": []})]),
    Case(
        api="ListOffsets",
        name="no partitions",
        steps=[Ask("ListOffsets", {"replica_id": -1, "topics": [{"name": DATA, "partitions": []}]})],
    ),
    Case(
        api="ListOffsets",
        name="a topic twice",
        steps=[
            Ask(
                "ListOffsets",
                {
                    "replica_id": -1,
                    "topics": [*offsets(DATA, _LATEST)["topics"], *offsets(DATA, _LATEST, partition=1)["topics"]],
                },
            )
        ],
    ),
    Case(
        api="ListOffsets",
        name="two topics and an unknown one",
        steps=[
            Ask(
                "ListOffsets",
                {
                    "replica_id": -1,
                    "topics": [
                        one for topic in (DATA, "nowhere", STAMPED) for one in offsets(topic, _EARLIEST)["topics"]
                    ],
                },
            )
        ],
    ),
    Case(
        api="ListOffsets",
        name="records stamped by the broker, from time zero",
        steps=[Ask("ListOffsets", offsets(STAMPED, 0))],
    ),
]


def _epoch(leader_epoch: int, *, topic: str = DATA, partition: int = 0, **more: Any) -> Message:
    asked = {"partition": partition, "leader_epoch": leader_epoch, **more}
    return {"topic": topic, "partitions": [asked]}


def _epochs(name: str, *topics: Message, versions: range | None = None, **more: Any) -> Case:
    body = {"topics": list(topics), **more}
    return Case(api="OffsetForLeaderEpoch", name=name, steps=[Ask("OffsetForLeaderEpoch", body)], versions=versions)


CASES += [
    _epochs("the present epoch", _epoch(0)),
    _epochs("the present epoch of an empty partition", _epoch(0, partition=2)),
    _epochs("the present epoch after records were deleted", _epoch(0, partition=1)),
    _epochs("an epoch to come", _epoch(5)),
    _epochs("epoch -1", _epoch(-1)),
    _epochs("epoch -2", _epoch(-2)),
    _epochs("the client's epoch right", _epoch(0, current_leader_epoch=0)),
    _epochs("the client's epoch too high", _epoch(0, current_leader_epoch=4)),
    _epochs("the client's epoch -2", _epoch(0, current_leader_epoch=-2)),
    _epochs("unknown topic", _epoch(0, topic="nowhere")),
    _epochs("partition beyond the last", _epoch(0, partition=3)),
    _epochs("partition negative", _epoch(0, partition=-1)),
    _epochs("a topic twice", _epoch(0), _epoch(0, partition=1)),
    _epochs("a partition twice", {"topic": DATA, "partitions": 2 * _epoch(0)["partitions"]}),
    _epochs("one right and one unknown topic", _epoch(0), _epoch(0, topic="nowhere")),
    _epochs("no topics"),
    _epochs("no partitions", {"topic": DATA, "partitions": []}),
    *(
        _epochs(f"replica id {replica_id}", _epoch(0), versions=range(3, 5), replica_id=replica_id)
        for replica_id in (-1, -3, 0, 99)
    ),
    *(_epochs(f"illegal {name}", _epoch(0, topic=bad)) for name, bad in ILLEGAL_NAMES.items()),
]


def _deleted(*cuts: tuple[int, int], topic: str = "$topic") -> Ask:
    partitions = [{"partition_index": index, "offset": offset} for index, offset in cuts]
    return Ask("DeleteRecords", {"topics": [{"name": topic, "partitions": partitions}], "timeout_ms": 5000})


_FILLED: list[Step] = [
    Ask("Produce", produce(batch(3))),
    Ask("Produce", produce(batch(4, codec="gzip"))),
    Ask("Produce", produce(batch(2), partition=1)),
]
_AFTER: list[Step] = [
    Ask("ListOffsets", offsets("$topic", _EARLIEST)),
    Ask("ListOffsets", offsets("$topic", BASE_TIMESTAMP_MS)),
    Ask("Fetch", fetch(fetched_topic("$topic", fetched_partition(0, 0)), max_wait_ms=0)),
    Ask("Fetch", fetch(fetched_topic("$topic", fetched_partition(0, 5)), max_wait_ms=0)),
]


def _delete(name: str, *asks: Ask) -> Case:
    return Case(
        api="DeleteRecords", name=name, steps=[*_FILLED, *asks, *_AFTER], topics={"$topic": Topic(partitions=2)}
    )


CASES += [
    _delete("up to a batch's beginning", _deleted((0, 3))),
    _delete("up to the middle of a batch", _deleted((0, 5))),
    _delete("up to the end", _deleted((0, 7))),
    _delete("all, by -1", _deleted((0, -1))),
    _delete("nothing, up to zero", _deleted((0, 0))),
    _delete("beyond the end", _deleted((0, 8))),
    _delete("negative", _deleted((0, -2))),
    _delete("twice, then less", _deleted((0, 4)), _deleted((0, 4)), _deleted((0, 2))),
    _delete("two partitions", _deleted((0, 3), (1, 1))),
    _delete("one right and one unknown partition", _deleted((0, 3), (7, 1))),
    _delete("a partition negative", _deleted((-1, 3))),
    _delete("a partition twice", _deleted((0, 3), (0, 5))),
    _delete("unknown topic", _deleted((0, 1), topic="nowhere")),
    _delete("no partitions", _deleted()),
    _delete("no topics", Ask("DeleteRecords", {"topics": [], "timeout_ms": 1000})),
    *(_delete(f"illegal {name}", _deleted((0, 1), topic=bad)) for name, bad in list(ILLEGAL_NAMES.items())[:4]),
    Case(
        api="DeleteRecords",
        name="a compacted topic",
        steps=[Ask("Produce", produce(batch(3))), _deleted((0, 2))],
        topics={"$topic": Topic(configs={"cleanup.policy": "compact"})},
    ),
]
