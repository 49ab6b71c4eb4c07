"""Batches under way of which the first fails and those behind it do not: what becomes of each.

The broker here is scripted: it answers late, so that as many batches as may be are under way, and refuses as told.
"""

import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from headrace import columnar
from headrace.errors import ErrorCode
from headrace.protocol.batch import parse_header
from headrace.protocol.records import decode_records
from tests.unit.wire.scripted import Peer, Request, ScriptedBroker

ID = bytes(15) + b"\x01"
IDLE_S = 0.1  # Nothing more comes before it is answered.
ROWS = [b"%04d" % number for number in range(400)]


class Partition:
    """One, that takes batches by their sequence as brokers do; but for some, by their number, what a test says of them.

    `refused` is answered and not appended, while what follows is taken; `unsure` is appended, and answered with a
    refusal.
    """

    def __init__(self, *, refused: dict[int, ErrorCode] = {}, unsure: dict[int, ErrorCode] = {}) -> None:  # noqa: B006
        self.rows: list[bytes] = []
        self.repeated = 0  # Batches that were there already.
        self.together_max = 0  # Requests that waited for an answer at one time.
        self._offsets: dict[tuple[int, int], int] = {}  # By producer and sequence.
        self._next_sequences: dict[int, int] = {}
        self._refused = dict(refused)
        self._unsure = dict(unsure)
        self._batches = 0
        self._producers = 0
        self._lock = threading.Lock()
        self.broker = ScriptedBroker(self._serve)

    def _serve(self, peer: Peer) -> None:
        peer.greet()
        while True:
            requests = [peer.read()]
            while select.select([peer.socket], [], [], IDLE_S)[0] and len(requests) < 5:
                requests.append(peer.read())
            with self._lock:
                self.together_max = max(self.together_max, len(requests))
                answers = [getattr(self, f"_{request.api.name}")(request) for request in requests]
            for request, answer in zip(requests, answers, strict=True):
                peer.answer(request, answer)

    def _Metadata(self, _: Request) -> dict[str, Any]:  # noqa: N802
        host, port = self.broker.address
        partitions = [{"partition_index": 0, "leader_id": 0, "leader_epoch": 1}]
        topics = [{"name": "t", "topic_id": ID, "partitions": partitions}]
        return {"brokers": [{"node_id": 0, "host": host, "port": port}], "topics": topics}

    def _InitProducerId(self, _: Request) -> dict[str, Any]:  # noqa: N802
        self._producers += 1
        return {"producer_id": self._producers, "producer_epoch": 0}

    def _Produce(self, request: Request) -> dict[str, Any]:  # noqa: N802
        ((part,),) = (topic["partition_data"] for topic in request.body["topic_data"])
        code, offset = self._append(bytes(part["records"]))
        answered = [{"index": 0, "error_code": code, "base_offset": offset}]
        return {"responses": [{"name": "t", "topic_id": ID, "partition_responses": answered}]}

    def _append(self, batch: bytes) -> tuple[int, int]:
        number, self._batches = self._batches, self._batches + 1
        header = parse_header(batch)
        name = header.producer_id, header.base_sequence
        if name in self._offsets:
            self.repeated += 1
            return ErrorCode.NONE, self._offsets[name]
        behind = header.base_sequence + header.record_count
        if number in self._refused:
            self._next_sequences[header.producer_id] = behind
            return self._refused[number], -1
        if header.base_sequence != self._next_sequences.get(header.producer_id, 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        self._next_sequences[header.producer_id] = behind
        self._offsets[name] = len(self.rows)
        self.rows += [record.value or b"" for record in decode_records(batch)]
        if number in self._unsure:
            return self._unsure[number], -1
        return ErrorCode.NONE, self._offsets[name]

    def write(self) -> columnar.Written:
        table = pa.table({"value": [row * 40 for row in ROWS]})
        return columnar.write(self.broker.settings(delivery_timeout_s=10.0), "t", table, batch_bytes=1500)


@contextmanager
def serving(**plan: Any) -> Iterator[Partition]:
    partition = Partition(**plan)
    with partition.broker:
        yield partition


def test_as_many_are_under_way_as_a_broker_remembers() -> None:
    with serving() as partition:
        written = partition.write()
    assert partition.together_max == 5
    assert partition.rows == [row * 40 for row in ROWS]
    assert written.partitions[0] == (400, 0, 399)


def test_what_is_behind_one_in_doubt_is_sent_again_and_known_by_its_sequence() -> None:
    """The broker took it and says that time was up; those behind it are acknowledged, and yet wait for it."""
    with serving(unsure={3: ErrorCode.REQUEST_TIMED_OUT, 17: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}) as partition:
        written = partition.write()
    assert partition.repeated > 2  # Not the two alone.
    assert partition.rows == [row * 40 for row in ROWS]
    assert written.partitions[0] == (400, 0, 399)


def test_a_broker_that_forgot_one_and_took_those_behind_it_is_an_error() -> None:
    """To begin a new sequence would write those behind twice; to go on would leave the one out, and say nothing."""
    with serving(refused={4: ErrorCode.UNKNOWN_PRODUCER_ID}) as partition:
        with pytest.raises(columnar.WriteFailed, match="UNKNOWN_PRODUCER_ID") as caught:
            partition.write()
        acknowledged = caught.value.written.records
        assert partition.rows[:acknowledged] == [row * 40 for row in ROWS[:acknowledged]]
        assert len(partition.rows) > acknowledged  # Those behind it.
    assert len(set(partition.rows)) == len(partition.rows)
