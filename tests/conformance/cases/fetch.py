"""Fetch: limits, waiting, sessions, epochs and every way to ask for what is not there."""

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.case import Ask, Case, Step, Topic
from tests.conformance.cases.bodies import (
    DATA,
    DATA_END,
    ILLEGAL_NAMES,
    LARGE,
    NO_ID,
    STAMPED,
    UNKNOWN_ID,
    fetch,
    fetched_partition,
    fetched_topic,
    id_of,
    produce,
    produced_topic,
)
from tests.conformance.run import Context
from tests.conformance.schemas import Message

_SESSIONS = range(7, 19)
_LEADER_EPOCHS = range(9, 19)
_DIVERGENCE = range(12, 19)
_BY_NAME = range(4, 13)
_BY_ID = range(13, 19)


def _case(name: str, *steps: Step, topics: Any = None, versions: range | None = None) -> Case:
    return Case(api="Fetch", name=name, steps=steps, topics=topics or {}, versions=versions)


def _one(
    name: str,
    *,
    topic: str = DATA,
    versions: range | None = None,
    wait_ms: int | None = None,
    more: Any = None,
    **partition: Any,
) -> Case:
    body = fetch(fetched_topic(topic, fetched_partition(**partition)), **(more or {}))
    return _case(name, Ask("Fetch", body, wait_ms=wait_ms), versions=versions)


def _session(epoch: int, *topics: Message, answer: int = 0, **more: Any) -> Ask:
    """The next request of the session that the `answer`-th answer opened."""

    def session_id(context: Context) -> int:
        return int(context.answers[answer]["session_id"])

    return Ask("Fetch", fetch(*topics, session_id=session_id, session_epoch=epoch, max_wait_ms=50, **more))


def _open(*topics: Message, **more: Any) -> Ask:
    return Ask("Fetch", fetch(*topics, session_epoch=0, max_wait_ms=50, **more))


_OWN = {"$topic": Topic(partitions=2)}
_WRITE = Ask("Produce", produce(batch(2)), version=12)
_FIRST = fetched_topic("$topic", fetched_partition(0, 0))
_BOTH = fetched_topic("$topic", fetched_partition(0, 0), fetched_partition(1, 0))


CASES: list[Case] = [
    _one("from the beginning"),
    _one("from inside a compressed batch", offset=5),
    _one("from the last record", offset=DATA_END - 1),
    _one("from the end", offset=DATA_END, wait_ms=90),
    _one("from the end without waiting", offset=DATA_END, more={"max_wait_ms": 0}),
    _one("from beyond the end", offset=DATA_END + 1),
    _one("from far beyond the end", offset=2**62),
    _one("from a negative offset", offset=-1),
    _one("from the lowest offset", offset=-(2**63)),
    _one("from before the log start", partition=1, offset=2),
    _one("from the log start", partition=1, offset=4),
    _one("an empty partition", partition=2, wait_ms=90),
    _one("partition beyond the last", partition=3),
    _one("partition negative", partition=-1),
    _one("partition highest", partition=2**31 - 1),
    _one("records stamped by the broker", topic=STAMPED),
    _one("one byte of a partition", topic=LARGE, partition_max_bytes=1),
    _one("no bytes of a partition", topic=LARGE, partition_max_bytes=0),
    _one("negative bytes of a partition", topic=LARGE, partition_max_bytes=-1),
    _one("a batch and a half of a partition", topic=LARGE, partition_max_bytes=15_000),
    _one("two batches exactly", topic=LARGE, partition_max_bytes=2 * len(batch(10, value_bytes=1000))),
    _one("one byte in all", topic=LARGE, more={"max_bytes": 1}),
    _one("no bytes in all", topic=LARGE, more={"max_bytes": 0}),
    _one("negative bytes in all", topic=LARGE, more={"max_bytes": -1}),
    _case(
        "one byte in all over two partitions",
        Ask("Fetch", fetch(fetched_topic(LARGE, fetched_partition(0), fetched_partition(1)), max_bytes=1)),
    ),
    _case(
        "fifteen thousand bytes in all over two partitions",
        Ask("Fetch", fetch(fetched_topic(LARGE, fetched_partition(1), fetched_partition(0)), max_bytes=15_000)),
    ),
    _one("more bytes awaited than there are", more={"min_bytes": 10_000_000}, wait_ms=90),
    _one("fewer bytes awaited than there are", more={"min_bytes": 50, "max_wait_ms": 8000}, wait_ms=4000),
    _one("no bytes awaited", offset=DATA_END, more={"min_bytes": 0, "max_wait_ms": 8000}, wait_ms=4000),
    _one("negative bytes awaited", offset=DATA_END, more={"min_bytes": -1, "max_wait_ms": 8000}, wait_ms=4000),
    _one(
        "more bytes awaited than may be given",
        topic=LARGE,
        more={"min_bytes": 10_000_000, "max_bytes": 2 * len(batch(10, value_bytes=1000)), "max_wait_ms": 8000},
        wait_ms=4000,
    ),
    _case(
        "what does not exist ends no wait",
        Ask(
            "Fetch",
            fetch(
                fetched_topic("nowhere", fetched_partition(), topic_id=UNKNOWN_ID),
                fetched_topic(DATA, fetched_partition(offset=DATA_END), fetched_partition(9)),
            ),
            wait_ms=90,
        ),
    ),
    _one("negative wait", offset=DATA_END, more={"max_wait_ms": -1}),
    _one("an error ends the wait", offset=DATA_END + 1, more={"max_wait_ms": 8000, "min_bytes": 100}, wait_ms=4000),
    _one("read committed", more={"isolation_level": 1}),
    _one("isolation level 2", more={"isolation_level": 2}),
    _one("isolation level -1", more={"isolation_level": -1}),
    _one("a rack", more={"rack_id": "anywhere"}, versions=range(11, 19)),
    _one("a cluster id", more={"cluster_id": "somewhere"}, versions=_DIVERGENCE),
    _case(
        "unknown topic",
        Ask("Fetch", fetch(fetched_topic("nowhere", fetched_partition(), topic_id=UNKNOWN_ID))),
    ),
    _case(
        "unknown topic beside a known one",
        Ask(
            "Fetch",
            fetch(
                fetched_topic("nowhere", fetched_partition(), topic_id=UNKNOWN_ID),
                fetched_topic(DATA, fetched_partition()),
            ),
        ),
    ),
    _case(
        "topic id of zeros",
        Ask("Fetch", fetch(fetched_topic("", fetched_partition(), topic_id=NO_ID))),
        versions=_BY_ID,
    ),
    *(
        _case(
            f"illegal {name}",
            Ask("Fetch", fetch(fetched_topic(bad, fetched_partition(), topic_id=NO_ID))),
            versions=_BY_NAME,
        )
        for name, bad in ILLEGAL_NAMES.items()
    ),
    _case("no topics", Ask("Fetch", fetch()), versions=range(4, 19)),
    _case("no topics and no wait", Ask("Fetch", fetch(max_wait_ms=0))),
    _case("no partitions", Ask("Fetch", fetch(fetched_topic(DATA)))),
    _case(
        "two topics",
        Ask(
            "Fetch",
            fetch(
                fetched_topic(DATA, fetched_partition(), fetched_partition(2)),
                fetched_topic(STAMPED, fetched_partition()),
            ),
        ),
    ),
    _case("a partition twice", Ask("Fetch", fetch(fetched_topic(DATA, fetched_partition(), fetched_partition(0, 7))))),
    _case(
        "a topic twice",
        Ask("Fetch", fetch(fetched_topic(DATA, fetched_partition()), fetched_topic(DATA, fetched_partition(1, 4)))),
    ),
    _one("leader epoch right", current_leader_epoch=0, versions=_LEADER_EPOCHS),
    _one("leader epoch too high", current_leader_epoch=5, versions=_LEADER_EPOCHS),
    _one("leader epoch -2", current_leader_epoch=-2, versions=_LEADER_EPOCHS),
    _one("last fetched epoch right", last_fetched_epoch=0, current_leader_epoch=0, offset=3, versions=_DIVERGENCE),
    _one("last fetched epoch too high", last_fetched_epoch=7, current_leader_epoch=0, offset=3, versions=_DIVERGENCE),
    _one("log start offset given by a consumer", log_start_offset=3),
    _case(
        "a follower that is no replica",
        Ask(
            "Fetch",
            fetch(
                fetched_topic(DATA, fetched_partition(current_leader_epoch=0)),
                replica_id=99,
                replica_state={"replica_id": 99, "replica_epoch": 1},
            ),
        ),
    ),
    _case(
        "replica id -2",
        Ask("Fetch", fetch(fetched_topic(DATA, fetched_partition()), replica_id=-2, replica_state={"replica_id": -2})),
    ),
    # Sessions (KIP-227).
    _case("session opened", _open(_BOTH), topics=_OWN, versions=_SESSIONS),
    _case("session opened with data", _WRITE, _open(_BOTH), topics=_OWN, versions=_SESSIONS),
    _case("session opened with nothing in it", _open(), versions=_SESSIONS),
    _case("session goes on with nothing new", _open(_BOTH), _session(1), _session(2), topics=_OWN, versions=_SESSIONS),
    _case(
        "session shows new data of one partition only",
        _open(_BOTH),
        _WRITE,
        _session(1, answer=0),
        _session(2, fetched_topic("$topic", fetched_partition(0, 2))),
        _session(3),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session that did not move its offset gets the data again",
        _open(_FIRST),
        _WRITE,
        _session(1),
        _session(2),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session with a partition added",
        _open(_FIRST),
        _session(1, fetched_topic("$topic", fetched_partition(1, 0))),
        _session(2),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session with a partition forgotten",
        _open(_BOTH),
        _WRITE,
        _session(
            1,
            forgotten_topics_data=[{"topic": "$topic", "topic_id": id_of("$topic"), "partitions": [0]}],
        ),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session forgets what it never had",
        _open(_FIRST),
        _session(1, forgotten_topics_data=[{"topic": "nowhere", "topic_id": UNKNOWN_ID, "partitions": [5]}]),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session with an error in it",
        _open(fetched_topic("$topic", fetched_partition(0, 5), fetched_partition(9, 0))),
        _session(1),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session over an unknown topic",
        _open(fetched_topic("nowhere", fetched_partition(), topic_id=UNKNOWN_ID)),
        _session(1),
        versions=_SESSIONS,
    ),
    _case(
        "session about nothing any more",
        _open(_FIRST),
        _session(1, forgotten_topics_data=[{"topic": "$topic", "topic_id": id_of("$topic"), "partitions": [0]}]),
        _session(2),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session with a partition named and forgotten at once",
        _open(_BOTH),
        _WRITE,
        _session(
            1,
            _FIRST,
            forgotten_topics_data=[{"topic": "$topic", "topic_id": id_of("$topic"), "partitions": [0]}],
        ),
        _session(2),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session whose partitions had no room",
        Ask("Produce", produce(batch(2)), version=12),
        Ask(
            "Produce",
            {"acks": -1, "timeout_ms": 1000, "topic_data": [produced_topic("$topic", {1: batch(2)})]},
            version=12,
        ),
        _open(_BOTH, max_bytes=1),
        _session(1, fetched_topic("$topic", fetched_partition(0, 2)), answer=2, max_bytes=1),
        _session(2, fetched_topic("$topic", fetched_partition(1, 2)), answer=2, max_bytes=1),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case("session epoch skipped", _open(_BOTH), _session(2), _session(1), topics=_OWN, versions=_SESSIONS),
    _case("session epoch repeated", _open(_BOTH), _session(1), _session(1), topics=_OWN, versions=_SESSIONS),
    _case("session epoch negative", _open(_BOTH), _session(-5), topics=_OWN, versions=_SESSIONS),
    _case("session closed, then used", _open(_BOTH), _session(-1), _session(1), topics=_OWN, versions=_SESSIONS),
    _case(
        "session closed with a last fetch",
        _WRITE,
        _open(_BOTH),
        _session(-1, _FIRST, answer=1),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session replaced by a new one",
        _open(_BOTH),
        _session(0, _FIRST),
        _session(1, answer=1),
        _session(1, answer=0),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session never opened",
        Ask("Fetch", fetch(_FIRST, session_id=123_456_789, session_epoch=1)),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session never opened, closed",
        Ask("Fetch", fetch(_FIRST, session_id=123_456_789, session_epoch=-1)),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session id without an epoch",
        Ask("Fetch", fetch(_FIRST, session_id=0, session_epoch=3)),
        topics=_OWN,
        versions=_SESSIONS,
    ),
    _case(
        "session whose partition is read by a changed limit",
        Ask(
            "Produce",
            {
                "acks": -1,
                "timeout_ms": 1000,
                "topic_data": [produced_topic("$topic", {0: batch(5, value_bytes=500) + b""})],
            },
            version=12,
        ),
        _WRITE,
        _open(fetched_topic("$topic", fetched_partition(0, 0, partition_max_bytes=10))),
        _session(1, fetched_topic("$topic", fetched_partition(0, 0)), answer=2),
        topics=_OWN,
        versions=_SESSIONS,
    ),
]
