"""What is told of leader epochs once there are several: to clients that know an old one, the present one, or none yet.

These cases need brokers that have crashed (`test_epochs`). How far a crash raises the epoch is a broker's own business,
so a request names the epochs of whom it goes to.
"""

from collections.abc import Callable
from typing import Any

from tests.conformance.batches import BASE_TIMESTAMP_MS
from tests.conformance.case import Ask, Case, Topic
from tests.conformance.cases.bodies import fetch, fetched_partition, fetched_topic, metadata, offsets
from tests.conformance.run import Context

EPOCHS = "epochs"
# One written before and after the crash, one only before it, and one that was never written.
TOPICS = {EPOCHS: Topic(partitions=3)}
BEFORE, AFTER = 3, 2  # Records.

_LATEST, _EARLIEST, _MAX_TIMESTAMP = -1, -2, -3
Epoch = Callable[[Context], int]


def _epoch(index: int, plus: int = 0) -> Epoch:
    return lambda context: context.broker.epochs[index] + plus


_ASKED: dict[str, Epoch] = {
    "the first epoch": _epoch(0),
    "the epoch before the present one": _epoch(-1, -1),
    "the present epoch": _epoch(-1),
    "an epoch to come": _epoch(-1, 1),
}
# The offset, and the epoch under which the record before it was read.
_LAST_FETCHED: dict[str, tuple[Epoch, int]] = {
    "inside the first epoch": (_epoch(0), BEFORE - 1),
    "at the end of the first epoch": (_epoch(0), BEFORE),
    "beyond the end of the first epoch": (_epoch(0), BEFORE + 1),
    "beyond the end of the epoch before the present one": (_epoch(-1, -1), BEFORE + 1),
    "at the end of the present epoch": (_epoch(-1), BEFORE + AFTER),
    "beyond the end of the present epoch": (_epoch(-1), BEFORE + AFTER + 1),
    "under an epoch to come": (_epoch(-1, 1), BEFORE),
}


def _one(api: str, name: str, body: Any, versions: range | None = None) -> Case:
    return Case(api=api, name=name, steps=[Ask(api, body)], versions=versions)


def _partitions(name: str) -> range:
    """An epoch between two that there were is told by its own number where nothing was written, and brokers differ."""
    return range(2 if "before the present one" in name else 3)


def _ends(partitions: range, **asked: Any) -> dict[str, Any]:
    return {
        "replica_id": -1,
        "topics": [{"topic": EPOCHS, "partitions": [{"partition": index, **asked} for index in partitions]}],
    }


def _fetch(offset: int = 0, *, partitions: range = range(3), **more: Any) -> dict[str, Any]:
    return fetch(
        fetched_topic(EPOCHS, *(fetched_partition(index, offset, **more) for index in partitions)), max_wait_ms=0
    )


CASES: list[Case] = [
    *(
        _one("OffsetForLeaderEpoch", f"the end of {name}", _ends(_partitions(name), leader_epoch=asked))
        for name, asked in _ASKED.items()
    ),
    *(
        _one(
            "OffsetForLeaderEpoch",
            f"asked under {name}",
            _ends(range(3), leader_epoch=_epoch(0), current_leader_epoch=known),
        )
        for name, known in _ASKED.items()
    ),
    *(
        _one("ListOffsets", f"{wanted} under {name}", offsets(EPOCHS, time, current_leader_epoch=known), range(4, 11))
        for wanted, time in {"latest": _LATEST, "earliest": _EARLIEST}.items()
        for name, known in _ASKED.items()
    ),
    *(
        _one("ListOffsets", f"{wanted} of partition {partition}", offsets(EPOCHS, time, partition=partition))
        for wanted, time in {
            "latest": _LATEST,
            "earliest": _EARLIEST,
            "the highest timestamp": _MAX_TIMESTAMP,
            "a time": BASE_TIMESTAMP_MS,
        }.items()
        for partition in range(3)
    ),
    _one("Metadata", "after a crash", metadata(EPOCHS)),
    _one("Fetch", "after a crash", _fetch()),
    *(
        _one("Fetch", f"under {name}", _fetch(current_leader_epoch=known), range(9, 19))
        for name, known in _ASKED.items()
    ),
    *(
        _one(
            "Fetch",
            f"last fetched {name}",
            _fetch(offset, partitions=_partitions(name), last_fetched_epoch=last, current_leader_epoch=_epoch(-1)),
            range(12, 19),
        )
        for name, (last, offset) in _LAST_FETCHED.items()
    ),
]
