"""The bare loads' requests say what they should, their positions are right, and the C that uses them counts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bench import bare
from bench.loads import BareConsume, BareProduce, Site, create_topic, run_bare_load
from bench.systems import HEADRACE, fresh_broker
from headrace.protocol.batch import parse_whole_batch
from headrace.protocol.header import encode_response_header, parse_request_header
from headrace.protocol.messages import fetch, produce

MESSAGES = BareProduce(topic="bare", batches=7, batch_messages=300)


def patched(frame: bytes, position: int, number: int, *, size: int) -> bytes:
    return frame[:position] + number.to_bytes(size, "big", signed=True) + frame[position + size :]


def body_of(request: bytes) -> tuple[int, int, int, int]:
    """Key, version, correlation id, and where the body begins."""
    assert int.from_bytes(request[:4], "big") == len(request) - 4
    key, version, correlation_id, _client, position = parse_request_header(request, 4)
    return key, version, correlation_id, position


def test_a_produce_request_carries_one_whole_batch_and_a_correlation_id_to_patch() -> None:
    template = bare.produce_template("t", messages=10, message_bytes=200, acks=1, timestamp_ms=1)
    key, version, correlation_id, position = body_of(patched(template.request, template.correlation_at, 77, size=4))
    assert (key, correlation_id) == (produce.API.key, 77)
    body = produce.API.request.decode(template.request, version, position)
    assert (body["acks"], body["topic_data"][0]["name"]) == (1, "t")
    batch = body["topic_data"][0]["partition_data"][0]["records"]
    assert parse_whole_batch(batch).record_count == template.messages == 10  # Its CRC is checked on the way.


def test_a_fetch_request_has_an_offset_to_patch() -> None:
    template = bare.fetch_template("t")
    request = patched(patched(template.request, template.correlation_at, 77, size=4), template.offset_at, 1234, size=8)
    key, version, correlation_id, position = body_of(request)
    assert (key, correlation_id) == (fetch.API.key, 77)
    body = fetch.API.request.decode(request, version, position)
    assert body["topics"][0]["topic"] == "t"
    assert body["topics"][0]["partitions"][0]["fetch_offset"] == 1234
    assert (body["session_id"], body["session_epoch"]) == (0, -1)


def test_the_results_of_an_answer_stand_where_the_template_says() -> None:
    template = bare.produce_template("t", messages=1, message_bytes=200, acks=1, timestamp_ms=1)
    _key, version, _id, _position = body_of(template.request)
    partition = {"index": 0, "error_code": 3, "base_offset": 1 << 40, "error_message": "why"}
    answered = produce.API.response.encode({"responses": [{"name": "t", "partition_responses": [partition]}]}, version)
    head = encode_response_header(api_key=produce.API.key, api_version=version, correlation_id=0)
    answer = bytes(4) + head + answered
    assert int.from_bytes(answer[template.error_at :][:2], "big") == 3
    assert int.from_bytes(answer[template.result_at :][:8], "big") == 1 << 40

    template = bare.fetch_template("t")
    _key, version, _id, _position = body_of(template.request)
    records = {"partition_index": 0, "error_code": 6, "aborted_transactions": None, "records": b"some"}
    answered = fetch.API.response.encode({"responses": [{"topic": "t", "partitions": [records]}]}, version)
    answer = bytes(4) + encode_response_header(api_key=fetch.API.key, api_version=version, correlation_id=0) + answered
    assert int.from_bytes(answer[template.error_at :][:2], "big") == 6
    assert answer[template.result_at :] == b"\0\0\0\4some"


@pytest.fixture
def site(load_program: Path, tmp_path: Path) -> Iterator[Site]:
    with fresh_broker(HEADRACE, under=tmp_path) as broker:
        yield Site(broker, scale=1.0, start_s=broker.start(), saturation_per_s=None)


@pytest.mark.parametrize("batch_messages", [1, 300, 3000, 4750])  # All in one fetch, or one and a part of the next.
def test_what_is_produced_is_consumed(site: Site, batch_messages: int) -> None:
    load = BareProduce(topic="bare", batches=7, batch_messages=batch_messages)
    sent, read = load.run(site), BareConsume(of=load).run(site)
    assert sent.messages == read.messages == 7 * batch_messages
    assert sent.value_bytes == read.value_bytes == 7 * batch_messages * 200
    assert 0 < sent.values["latency_ms_p50"] <= sent.values["latency_ms_p99"]
    for outcome in (sent, read):
        assert outcome.course_ns is not None
        begin, half, end = outcome.course_ns
        assert begin < half <= end


def produce_again(site: Site, load: BareProduce) -> None:
    template = bare.produce_template(load.topic, messages=300, message_bytes=200, acks=1, timestamp_ms=1)
    run_bare_load("bare-produce", site, template, load)


def test_a_batch_at_another_offset_than_the_next_fails_the_load(site: Site) -> None:
    MESSAGES.run(site)
    with pytest.raises(RuntimeError, match="given offset 2100 where 0 was due"):
        produce_again(site, MESSAGES)


def test_an_error_in_an_answer_fails_the_load(site: Site) -> None:
    MESSAGES.run(site)
    admin = AdminClient({"bootstrap.servers": site.broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition("bare", 0, 600)]).values():
        deleted.result(timeout=20)
    with pytest.raises(RuntimeError, match="request 0: Broker: Offset out of range"):
        BareConsume(of=MESSAGES).run(site)


def test_a_log_that_holds_more_than_was_sent_fails_the_load(site: Site) -> None:
    MESSAGES.run(site)
    fewer = BareProduce(topic="bare", batches=2, batch_messages=299)
    with pytest.raises(RuntimeError, match="the log holds 2100 messages or more, 598 were due"):
        BareConsume(of=fewer).run(site)


def test_messages_that_no_whole_requests_carry_are_refused(site: Site) -> None:
    create_topic(site.broker.bootstrap, "bare", partitions=1)
    with pytest.raises(RuntimeError, match="messages=598 is no multiple of a request's 300"):
        produce_again(site, BareProduce(topic="bare", batches=2, batch_messages=299))
