"""Produce and InitProducerId: what is appended, what is refused, and how sequence numbers are judged."""

import struct
import time
from typing import Any

from tests.conformance.batches import BASE_TIMESTAMP_MS, Batch, Record, batch, old_message, zigzag
from tests.conformance.case import Ask, Case, Step, Topic, Until
from tests.conformance.cases.bodies import (
    ILLEGAL_NAMES,
    NO_ID,
    UNKNOWN_ID,
    id_of,
    produce,
    produced_topic,
    stored,
)
from tests.conformance.run import Context

ONE = {"$topic": Topic()}
_DAY_MS = 86_400_000
_TRANSACTIONAL, _CONTROL, _STAMPED_BY_BROKER = 0x10, 0x20, 0x08


def _case(name: str, *steps: Step, topics: Any = ONE, versions: range | None = None) -> Case:
    return Case(api="Produce", name=name, steps=steps, topics=topics, versions=versions)


def _stores(name: str, *records: bytes | None, topics: Any = ONE, **more: Any) -> Case:
    """Produce each in turn, then look at what is there."""
    asks = [Ask("Produce", produce(one, **more)) for one in records]
    return _case(name, *asks, stored(), topics=topics)


def _configured(**configs: str) -> dict[str, Topic]:
    return {"$topic": Topic(configs={key.replace("_", "."): value for key, value in configs.items()})}


def _with_producer(records: Any, **more: Any) -> Ask:
    """A request whose records depend on the producer id that the broker gave in the first answer."""

    def made(context: Context) -> bytes:
        made_records: bytes = records(context.answers[0]["producer_id"])
        return made_records

    return Ask("Produce", produce(made, **more))  # type: ignore[arg-type]


def _sequence(first: int, *, count: int = 1, epoch: int = 0, **more: Any) -> Ask:
    return _with_producer(
        lambda producer_id: batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=first, **more)
    )


_NEW_PRODUCER = Ask("InitProducerId", {"transactional_id": None, "transaction_timeout_ms": 1000})


def _sequences(name: str, *asks: Ask) -> Case:
    return _case(name, _NEW_PRODUCER, *asks, stored())


_RECORD = Record(key=b"k", value=b"v")


def _record_bytes(*, size_delta: int = 0, tail: bytes = b"") -> bytes:
    body = b"\0" + zigzag(0) + zigzag(0) + zigzag(1) + b"k" + zigzag(1) + b"v" + zigzag(0) + tail
    return zigzag(len(body) + size_delta) + body


_EVERY_CODEC = [
    _stores(f"codec {codec}", batch(5, codec=codec), batch(1, codec=codec))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd")
]

_BATCHES: dict[str, bytes | None] = {
    "no records (empty)": b"",
    "two batches": batch(2) + batch(3),
    "flipped CRC": batch(2, crc_flip=1),
    "flipped CRC in a compressed batch": batch(2, codec="gzip", crc_flip=1),
    "batch cut short": batch(2)[:-1],
    "only half a batch header": batch(2)[:30],
    "batch cut to its first twelve bytes": batch(2)[:12],
    "bytes after the batch": batch(2) + b"abc",
    "batch length one too small": batch(2, size_delta=-1),
    "batch length one too large": batch(2, size_delta=1),
    "batch length below a header": batch(2, size_delta=-60),
    "batch length negative": batch(2)[:8] + struct.pack(">i", -1) + batch(2)[12:],
    "batch length enormous": batch(2)[:8] + struct.pack(">i", 2**31 - 1) + batch(2)[12:],
    "magic 3": batch(2, magic=3),
    "magic -1": batch(2, magic=-1),
    "magic 0": old_message(magic=0),
    "magic 1": old_message(magic=1),
    "count too high": batch(2, count=3),
    "count too low": batch(3, count=2),
    "count of zero": Batch(records=(), count=0, last_offset_delta=0).encode(),
    "count of zero and delta of -1": Batch(records=(), count=0, last_offset_delta=-1).encode(),
    "count negative": batch(2, count=-1),
    "count highest": batch(2, count=2**31 - 1),
    "last offset delta too high": batch(2, last_offset_delta=5),
    "last offset delta too low": batch(3, last_offset_delta=1),
    "last offset delta negative": batch(2, last_offset_delta=-1),
    "base offset of its own": batch(2, base_offset=77),
    "base offset negative": batch(2, base_offset=-5),
    "leader epoch of its own": batch(2, leader_epoch=9),
    "codec 5": batch(2, attributes=5),
    "codec 7": batch(2, attributes=7),
    "control batch": batch(1, attributes=_CONTROL),
    "transactional batch without a producer id": batch(1, attributes=_TRANSACTIONAL),
    "attribute of broker timestamps set by the client": batch(2, attributes=_STAMPED_BY_BROKER),
    "unused attribute bits": batch(2, attributes=0x700),
    "compressed payload is garbage": Batch(codec="gzip", payload=b"garbage!" * 4).encode(),
    "lz4 payload is garbage": Batch(codec="lz4", payload=b"garbage!" * 4).encode(),
    "snappy payload is garbage": Batch(codec="snappy", payload=b"garbage!" * 4).encode(),
    "zstd payload is garbage": Batch(codec="zstd", payload=b"garbage!" * 4).encode(),
    "record longer than the batch": Batch(records=[_RECORD], payload=_record_bytes(size_delta=5)).encode(),
    "record shorter than it says": Batch(records=[_RECORD], payload=_record_bytes(size_delta=-1)).encode(),
    "bytes after the last record": Batch(records=[_RECORD], payload=_record_bytes() + b"xx").encode(),
    "record offset deltas with a gap": Batch(records=[_RECORD, Record(offset_delta=5)]).encode(),
    "record offset deltas all zero": Batch(records=[_RECORD, Record(offset_delta=0)]).encode(),
    "compressed record offset deltas with a gap": Batch(
        records=[_RECORD, Record(offset_delta=5)], codec="gzip"
    ).encode(),
    "timestamp -1": batch(2, base_timestamp_ms=-1),
    "timestamp -5": batch(2, base_timestamp_ms=-5),
    "timestamp 0": batch(2, base_timestamp_ms=0),
    "timestamp highest": batch(1, base_timestamp_ms=2**63 - 1),
    "timestamp two hours ahead": batch(2, base_timestamp_ms=round(time.time() * 1000) + _DAY_MS // 12),
    "timestamp ten days ahead": batch(2, base_timestamp_ms=round(time.time() * 1000) + 10 * _DAY_MS),
    "max timestamp too low": batch(2, max_timestamp_ms=BASE_TIMESTAMP_MS - 1),
    "max timestamp too high": batch(2, max_timestamp_ms=BASE_TIMESTAMP_MS + 1000),
    "headers, null and empty": Batch(
        records=[
            Record(key=None, value=None),
            Record(key=b"", value=b""),
            Record(key=b"k", value=b"v", headers=[("a", b"1"), ("a", b"2"), ("", b""), ("n", None)]),
            Record(key=None, value=b"x" * 900_000),
        ]
    ).encode(),
    "larger than message.max.bytes": batch(1, value_bytes=1_100_000),
    "sequence without a producer id": batch(1, base_sequence=3),
    "producer id without an epoch": batch(1, producer_id=5, base_sequence=0),
    "producer id without a sequence": batch(1, producer_id=5, producer_epoch=0),
    "producer id -2": batch(1, producer_id=-2, producer_epoch=0, base_sequence=0),
}


CASES: list[Case] = [
    *_EVERY_CODEC,
    *(_stores(name, data) for name, data in _BATCHES.items()),
    _case("no records (null)", Ask("Produce", produce(None), patience_s=1), versions=range(12, 14)),
    *(_stores(f"acks {acks}", batch(2), batch(3), acks=acks) for acks in (1, -1)),
    *(_stores(f"acks {acks} is invalid", batch(2), acks=acks) for acks in (2, -2, 32767)),
    _case(
        "acks 0",
        Ask("Produce", produce(batch(2), acks=0), unanswered=True),
        Until(
            "ListOffsets",
            {"replica_id": -1, "topics": [{"name": "$topic", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
            lambda answer: answer["topics"][0]["partitions"][0]["offset"] == 2,
        ),
        stored(),
    ),
    _case(
        "acks 0 with a flipped CRC", Ask("Produce", produce(batch(2, crc_flip=1), acks=0), unanswered=True), stored()
    ),
    _case(
        "acks 0 to an unknown topic",
        Ask("Produce", produce(batch(2), topic="nowhere", topic_id=UNKNOWN_ID, acks=0), unanswered=True),
        topics={},
    ),
    _case(
        "acks 0 without any topic",
        Ask("Produce", {"acks": 0, "timeout_ms": 1, "topic_data": []}, unanswered=True),
        topics={},
    ),
    _case("unknown topic", Ask("Produce", produce(batch(1), topic="nowhere", topic_id=UNKNOWN_ID)), topics={}),
    _case("topic id of zeros", Ask("Produce", produce(batch(1), topic_id=NO_ID)), versions=range(13, 14)),
    _case("partition beyond the last", Ask("Produce", produce(batch(1), partition=1))),
    _case("partition negative", Ask("Produce", produce(batch(1), partition=-1))),
    *(
        _case(
            f"illegal {name}",
            Ask("Produce", produce(batch(1), topic=bad, topic_id=NO_ID)),
            topics={},
            versions=range(3, 13),
        )
        for name, bad in ILLEGAL_NAMES.items()
    ),
    _case("no topics", Ask("Produce", {"acks": -1, "timeout_ms": 1000, "topic_data": []}), topics={}),
    _case(
        "no partitions", Ask("Produce", {"acks": -1, "timeout_ms": 1000, "topic_data": [produced_topic("$topic", {})]})
    ),
    _stores("timeout 0", batch(1), timeout_ms=0),
    _stores("timeout negative", batch(1), timeout_ms=-1),
    _case(
        "three partitions, one of them unknown",
        Ask(
            "Produce",
            {
                "acks": -1,
                "timeout_ms": 1000,
                "topic_data": [produced_topic("$topic", {1: batch(2), 0: batch(1), 7: batch(1)})],
            },
        ),
        stored(partition=1),
        topics={"$topic": Topic(partitions=2)},
    ),
    _case(
        "two topics, one of them unknown",
        Ask(
            "Produce",
            {
                "acks": 1,
                "timeout_ms": 1000,
                "topic_data": [
                    produced_topic("nowhere", {0: batch(1)}, topic_id=UNKNOWN_ID),
                    produced_topic("$topic", {0: batch(1)}),
                ],
            },
        ),
        stored(),
    ),
    _case(
        "one good partition and one with a flipped CRC",
        Ask(
            "Produce",
            {
                "acks": -1,
                "timeout_ms": 1000,
                "topic_data": [produced_topic("$topic", {0: batch(2), 1: batch(1, crc_flip=1)})],
            },
        ),
        stored(partition=1),
        topics={"$topic": Topic(partitions=2)},
    ),
    _case(
        "a partition twice",
        Ask(
            "Produce",
            {
                "acks": -1,
                "timeout_ms": 1000,
                "topic_data": [
                    {
                        "name": "$topic",
                        "topic_id": id_of("$topic"),
                        "partition_data": [
                            {"index": 0, "records": batch(1)},
                            {"index": 0, "records": batch(2)},
                        ],
                    }
                ],
            },
        ),
        stored(),
    ),
    _case(
        "a topic twice",
        Ask(
            "Produce",
            {
                "acks": -1,
                "timeout_ms": 1000,
                "topic_data": [produced_topic("$topic", {0: batch(1)}), produced_topic("$topic", {1: batch(2)})],
            },
        ),
        stored(),
        topics={"$topic": Topic(partitions=2)},
    ),
    _stores("transactional id on plain records", batch(1), transactional_id="someone"),
    _stores(
        "larger than the topic allows", batch(1, value_bytes=600), batch(1), topics=_configured(max_message_bytes="500")
    ),
    _stores(
        "compressed, larger than the topic allows only when expanded",
        batch(1, value_bytes=2000, codec="gzip"),
        topics=_configured(max_message_bytes="500"),
    ),
    _stores(
        "keyless record for a compacted topic",
        Batch(records=[_RECORD, Record(value=b"no key")]).encode(),
        topics=_configured(cleanup_policy="compact"),
    ),
    _stores("keyed records for a compacted topic", batch(3), topics=_configured(cleanup_policy="compact")),
    _stores(
        "keyless record for a compacted and deleted topic",
        Batch(records=[Record(value=b"no key")], codec="lz4").encode(),
        topics=_configured(cleanup_policy="compact,delete"),
    ),
    _stores("stamped by the broker", batch(3), topics=_configured(message_timestamp_type="LogAppendTime")),
    _stores(
        "stamped by the broker, compressed",
        batch(3, codec="zstd"),
        topics=_configured(message_timestamp_type="LogAppendTime"),
    ),
    _stores(
        "stamped by the broker, out of range from the client",
        batch(3, base_timestamp_ms=2**62),
        topics=_configured(message_timestamp_type="LogAppendTime"),
    ),
    _stores("older than the topic allows", batch(2), topics=_configured(message_timestamp_before_max_ms="1000")),
    _stores(
        "newer than the topic allows",
        batch(2, base_timestamp_ms=round(time.time() * 1000) + _DAY_MS // 24),
        topics=_configured(message_timestamp_after_max_ms="1000"),
    ),
    _stores("more in-sync replicas wanted than there are", batch(1), topics=_configured(min_insync_replicas="2")),
    _stores(
        "more in-sync replicas wanted than there are, acks 1",
        batch(1),
        topics=_configured(min_insync_replicas="2"),
        acks=1,
    ),
    _stores("topic compression gzip", batch(3), topics=_configured(compression_type="gzip")),
    _stores(
        "topic uncompressed, batch compressed",
        batch(3, codec="gzip"),
        topics=_configured(compression_type="uncompressed"),
    ),
    _stores(
        "topic compression equal to the batch's", batch(3, codec="lz4"), topics=_configured(compression_type="lz4")
    ),
    _sequences("sequences in order", _sequence(0), _sequence(1, count=3), _sequence(4)),
    _sequences("sequence repeated", _sequence(0, count=2), _sequence(0, count=2), _sequence(2), _sequence(0, count=2)),
    _sequences("sequence repeated with another count", _sequence(0, count=2), _sequence(0, count=3)),
    _sequences("sequence in the middle of an earlier batch", _sequence(0, count=4), _sequence(1, count=2)),
    _sequences("sequence with a gap", _sequence(0), _sequence(2)),
    _sequences("sequence begins above zero", _sequence(5), _sequence(6), _sequence(0)),
    _sequences(
        "sequence repeated beyond five batches", *(_sequence(index) for index in range(7)), _sequence(0), _sequence(2)
    ),
    _sequences(
        "sequence repeated at the edge of five batches", *(_sequence(index) for index in range(5)), _sequence(0)
    ),
    _sequences("sequence wraps", _sequence(2**31 - 2, count=2), _sequence(0)),
    _sequences("sequence wraps inside a batch", _sequence(2**31 - 2, count=4), _sequence(2)),
    _sequences("sequence negative", _sequence(-2)),
    _sequences("epoch raised", _sequence(0), _sequence(0, epoch=1), _sequence(1, epoch=1)),
    _sequences("epoch raised with a later sequence", _sequence(0), _sequence(1, epoch=1)),
    _sequences("epoch lowered", _sequence(0, epoch=3), _sequence(1, epoch=2), _sequence(0, epoch=2)),
    _sequences("epoch highest", _sequence(0, epoch=32767)),
    _sequences(
        "producer with two batches in a request",
        _with_producer(
            lambda producer_id: (
                batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=0)
                + batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=1)
            )
        ),
    ),
    _sequences("producer with a flipped CRC, then right", _sequence(0, crc_flip=1), _sequence(0)),
    _sequences("producer with compressed batches", _sequence(0, count=3, codec="snappy"), _sequence(3, codec="zstd")),
    _sequences("transactional batch outside of any transaction", _sequence(0, attributes=_TRANSACTIONAL)),
    _case(
        "producer id never given",
        Ask("Produce", produce(batch(1, producer_id=987_654, producer_epoch=4, base_sequence=9))),
        Ask("Produce", produce(batch(1, producer_id=987_654, producer_epoch=4, base_sequence=10))),
    ),
    _case(
        "producer and plain records in turn",
        _NEW_PRODUCER,
        _sequence(0),
        Ask("Produce", produce(batch(2))),
        _sequence(1),
        stored(),
    ),
]


def _init(name: str, **body: Any) -> Case:
    return Case(
        api="InitProducerId",
        name=name,
        steps=[Ask("InitProducerId", {"transactional_id": None, "transaction_timeout_ms": 60_000, **body})],
    )


CASES += [
    _init("a new producer"),
    _init("timeout 0", transaction_timeout_ms=0),
    _init("timeout negative", transaction_timeout_ms=-1),
    _init("timeout highest", transaction_timeout_ms=2**31 - 1),
    _init("with an id and an epoch of its own", producer_id=4711, producer_epoch=3),
    _init("with an id but no epoch", producer_id=4711),
    _init("with an epoch but no id", producer_epoch=3),
    _init("transactional id empty", transactional_id=""),
    Case(
        api="InitProducerId",
        name="two in a row differ",
        steps=[_NEW_PRODUCER, _NEW_PRODUCER],
    ),
]
