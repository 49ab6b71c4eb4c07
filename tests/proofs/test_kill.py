"""The consumer that watches a node being killed notices what it should; so do the loads it is given."""

import random
import zlib
from typing import Any

import pytest

from tests.proofs.kill import PLACES, SHOWN_LATE, _load, _Reader
from tests.proofs.ledger import MESSAGE_BYTES_MAX, MESSAGE_BYTES_MIN, Anomaly, Place
from tests.proofs.readback import Reading

PLACE = Place(SHOWN_LATE, 0)


class FakeError:
    def __init__(self, *, retriable: bool) -> None:
        self._retriable = retriable

    def retriable(self) -> bool:
        return self._retriable

    def str(self) -> str:
        return "an error"


class FakeMessage:
    def __init__(self, offset: int, value: bytes = b"", error: FakeError | None = None) -> None:
        self._offset, self._value, self._error = offset, value, error

    def topic(self) -> str:
        return PLACE.topic

    def partition(self) -> int:
        return PLACE.partition

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return self._value

    def error(self) -> FakeError | None:
        return self._error


def reader_that_saw(*messages: FakeMessage) -> Any:
    reader = _Reader("unused:0", {place: Reading(place) for place in PLACES})
    for message in messages:
        reader._take(message)
    return reader


def test_what_a_consumer_saw_must_still_be_there() -> None:
    reader = reader_that_saw(FakeMessage(0, b"a"), FakeMessage(1, b"b"))
    there = {0: zlib.crc32(b"a"), 1: zlib.crc32(b"b"), 2: zlib.crc32(b"c")}
    assert reader.check(PLACE, there) == 2
    for gone in ({0: there[0]}, {**there, 1: zlib.crc32(b"B")}):
        with pytest.raises(Anomaly, match="something else at offset 1"):
            reader.check(PLACE, gone)


def test_a_consumer_reads_every_offset_once() -> None:
    for offset in (0, 2):
        with pytest.raises(Anomaly, match=f"offset {offset} where 1 was due"):
            reader_that_saw(FakeMessage(0), FakeMessage(offset))


def test_a_consumer_waits_for_a_node_that_is_away_and_for_nothing_else() -> None:
    assert reader_that_saw(FakeMessage(0, error=FakeError(retriable=True))).check(PLACE, {}) == 0
    with pytest.raises(Anomaly, match="an error"):
        reader_that_saw(FakeMessage(0, error=FakeError(retriable=False)))


def test_a_load_is_the_same_for_the_same_seed_and_reaches_every_place() -> None:
    writers: list[Any] = ["one", "other"]
    load = list(_load(random.Random(1), writers))
    assert load == list(_load(random.Random(1), writers))
    assert {(writer, place) for writer, place, _ in load} == {(writer, place) for writer in writers for place in PLACES}
    assert all(MESSAGE_BYTES_MIN <= size <= MESSAGE_BYTES_MAX for _, _, size in load)
    assert any(size > 50_000 for _, _, size in load)
