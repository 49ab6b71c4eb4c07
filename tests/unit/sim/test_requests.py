"""What simulated clients write by hand is what the tables write."""

import pytest

from headrace.errors import CorruptBatch
from headrace.protocol.header import encode_request_header
from headrace.protocol.messages import fetch, produce
from headrace.protocol.records import Record, encode_batch
from headrace.sim.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    encode_fetch,
    encode_produce,
    parse_fetched,
    parse_produced,
    split_batches,
)

BATCH = encode_batch([Record(None, b"a"), Record(None, b"b")], leader_epoch=3, base_offset=40)


def header(key: int, version: int) -> bytes:
    return encode_request_header(api_key=key, api_version=version, correlation_id=0, client_id=None)


def framed(body: bytes) -> bytes:
    return (len(body) + 4).to_bytes(4, "big") + bytes(4) + body


def test_produce_is_written_as_the_table_writes_it() -> None:
    partition = {"index": 3, "records": BATCH}
    body = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 30_000,
        "topic_data": [{"name": "orders", "partition_data": [partition]}],
    }
    expected = header(0, PRODUCE_VERSION) + produce.API.request.encode(body, PRODUCE_VERSION)
    assert encode_produce(acks=-1, topic=b"orders", partition=3, records=BATCH) == expected


def test_its_answer_is_read_as_the_table_writes_it() -> None:
    told = {"index": 3, "error_code": 45, "base_offset": 99, "log_append_time_ms": 5, "log_start_offset": 7}
    body = {"responses": [{"name": "orders", "partition_responses": [told]}], "throttle_time_ms": 0}
    assert parse_produced(framed(produce.API.response.encode(body, PRODUCE_VERSION))) == (45, 99)


def test_fetch_is_written_as_the_table_writes_it() -> None:
    partition = {
        "partition": 2,
        "current_leader_epoch": -1,
        "fetch_offset": 1 << 40,
        "log_start_offset": -1,
        "partition_max_bytes": 5000,
    }
    body = {
        "replica_id": -1,
        "max_wait_ms": 300,
        "min_bytes": 1,
        "max_bytes": 5000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": "orders", "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    expected = header(1, FETCH_VERSION) + fetch.API.request.encode(body, FETCH_VERSION)
    written = encode_fetch(topic=b"orders", partition=2, offset=1 << 40, wait_ms=300, bytes_min=1, bytes_max=5000)
    assert written == expected


@pytest.mark.parametrize("records", [b"", BATCH, BATCH + BATCH[:30], None])
@pytest.mark.parametrize("aborted", [None, []])
def test_its_answer_is_read_too(records: bytes | None, aborted: list[object] | None) -> None:
    told = {
        "partition_index": 2,
        "error_code": 1,
        "high_watermark": 50,
        "last_stable_offset": 50,
        "log_start_offset": 7,
        "aborted_transactions": aborted,
        "preferred_read_replica": -1,
        "records": records,
    }
    body = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "session_id": 0,
        "responses": [{"topic": "orders", "partitions": [told]}],
    }
    fetched = parse_fetched(framed(fetch.API.response.encode(body, FETCH_VERSION)))
    assert fetched == (1, 50, 7, records or b"")


def test_batches_are_split_and_a_cut_one_is_left_out() -> None:
    for cut in range(len(BATCH)):
        ((header, content),) = split_batches(BATCH + BATCH[:cut])
        assert (header.base_offset, header.last_offset, header.leader_epoch) == (40, 41, 3)
        assert content == BATCH[16:]
    assert len(split_batches(BATCH * 3)) == 3
    with pytest.raises(CorruptBatch):
        split_batches(bytes(61))
