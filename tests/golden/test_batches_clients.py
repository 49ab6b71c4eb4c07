"""Record batches against two clients' own builders and readers: kafka-python's and aiokafka's."""

import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, decode_records, encode_batch
from tests.record_values import records

with warnings.catch_warnings():  # It reads its own schemas in a way that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as PythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

# kafka-python finds snappy, lz4 and zstd only in packages of their own; aiokafka brings all of them.
CLIENTS = [
    *(pytest.param(PythonBuilder, PythonBatch, codec, id=f"kafka-python-{codec.name}") for codec in list(Codec)[:2]),
    *(pytest.param(AioBuilder, AioBatch, codec, id=f"aiokafka-{codec.name}") for codec in Codec),
]
PRODUCER = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 12}


def build(builder_type: Any, written: list[Record], *, codec: Codec, transactional: bool) -> bytes:
    builder = builder_type(
        magic=2,
        compression_type=int(codec),
        is_transactional=transactional,
        batch_size=1 << 30,
        **PRODUCER,
    )
    for index, record in enumerate(written):
        appended = builder.append(
            index,
            timestamp=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
        assert appended is not None
    return bytes(builder.build())


def read(batch_type: Any, encoded: bytes) -> list[Record]:
    batch = batch_type(encoded)
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == tuple(PRODUCER.values())
    return [
        Record(record.key, record.value, tuple(record.headers), record.timestamp, record.offset) for record in batch
    ]


@pytest.mark.parametrize(("builder_type", "batch_type", "codec"), CLIENTS)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(written=st.lists(records(), min_size=1, max_size=6), transactional=st.booleans())
def test_clients_write_and_read_the_same(
    builder_type: Any, batch_type: Any, codec: Codec, written: list[Record], transactional: bool
) -> None:
    theirs = build(builder_type, written, codec=codec, transactional=transactional)
    ours = encode_batch(written, codec=codec, leader_epoch=0, transactional=transactional, **PRODUCER)
    if codec is Codec.NONE:
        # Clients differ in the leader epoch that they leave for the broker to fill in.
        assert ours[:12] + theirs[12:16] + ours[16:] == theirs
    expected = [record._replace(offset=index) for index, record in enumerate(written)]
    assert decode_records(theirs) == expected
    assert read(batch_type, ours) == expected
