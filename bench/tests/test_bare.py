"""The bare loads' requests say what they should, their positions are right, and the C that uses them counts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bench import bare
from bench.engines import bare_command, consuming_bare, run_c, send_bare
from headrace.lab.engines import Terms
from headrace.lab.errors import LabError
from headrace.lab.programs import Job, Outcome
from headrace.lab.topics import create_topic
from headrace.protocol.batch import parse_whole_batch
from headrace.protocol.header import encode_response_header, parse_request_header
from headrace.protocol.messages import fetch, produce
from headrace.testing.node_process import NodeProcess


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
def job(load_program: Path, tmp_path: Path) -> Iterator[Job]:
    """Seven batches of 300 messages, for a topic that is there."""
    with NodeProcess(tmp_path / "data") as node:
        create_topic({"bootstrap.servers": node.bootstrap}, "bare", partitions=1)
        yield Job(
            bootstrap=node.bootstrap,
            topic="bare",
            messages=7 * 300,
            size_bytes=200,
            terms=Terms(acks="1", batch_messages=300),
        )


def of_batches(job: Job, batches: int, batch_messages: int) -> Job:
    terms = replace(job.terms, batch_messages=batch_messages)
    return replace(job, messages=batches * batch_messages, terms=terms)


def consume(job: Job) -> Outcome:
    with consuming_bare(job) as wait:
        return wait()


@pytest.mark.parametrize("batch_messages", [1, 300, 3000, 4750])  # All in one fetch, or one and a part of the next.
def test_what_is_produced_is_consumed(job: Job, batch_messages: int) -> None:
    told = of_batches(job, 7, batch_messages)
    sent, read = send_bare(told), consume(told)
    assert sent.messages == read.messages == 7 * batch_messages
    assert sent.size_bytes == read.size_bytes == 7 * batch_messages * 200
    assert 0 < sent.metrics["send_latency_p50_ms"] <= sent.metrics["send_latency_p99_ms"]
    for outcome in (sent, read):
        assert outcome.course_ns is not None
        begin, half, end = outcome.course_ns
        assert begin < half <= end


def test_a_batch_at_another_offset_than_the_next_fails_the_load(job: Job) -> None:
    send_bare(job)
    with pytest.raises(LabError, match="given offset 2100 where 0 was due"):
        send_bare(job)


def test_an_error_in_an_answer_fails_the_load(job: Job) -> None:
    send_bare(job)
    admin = AdminClient({"bootstrap.servers": job.bootstrap})
    for deleted in admin.delete_records([TopicPartition("bare", 0, 600)]).values():
        deleted.result(timeout=20)
    with pytest.raises(LabError, match="request 0: Broker: Offset out of range"):
        consume(job)


def test_a_log_that_holds_more_than_was_sent_fails_the_load(job: Job) -> None:
    send_bare(job)
    with pytest.raises(LabError, match="the log holds 2100 messages or more, 598 were due"):
        consume(of_batches(job, 2, 299))


def test_messages_that_no_whole_requests_carry_are_refused(job: Job) -> None:
    template = bare.produce_template("bare", messages=300, message_bytes=200, acks=1, timestamp_ms=1)
    with (
        bare_command("bare-produce", of_batches(job, 2, 299), template) as command,
        pytest.raises(LabError, match="messages=598 is no multiple of a request's 300"),
    ):
        run_c(command)


@pytest.mark.parametrize("terms", [Terms(acks="1"), Terms(acks="0", batch_messages=300)])
def test_batches_have_a_size_and_answers(job: Job, terms: Terms) -> None:
    with pytest.raises(LabError, match=r"batch_messages.*acks"):
        send_bare(replace(job, terms=terms))
