"""What a null sink answers, without a socket: enough for a producer, and an account of what it took."""

import pytest

from headrace.errors import ProtocolError
from headrace.lab.null_sink import Pace, Peer, Sink
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.messages import api_versions, fetch, metadata, produce
from headrace.protocol.records import Record, encode_batch
from headrace.protocol.schema import ApiMessages, Value


class Talk:
    """Frames in, answers out."""

    def __init__(self) -> None:
        self.sink = Sink(host="here", port=9, partitions=2)
        self.peer = Peer()

    def feed(self, data: bytes) -> None:
        self.peer.room()[: len(data)] = data
        self.sink.take(self.peer, len(data))

    def answer(self, api: ApiMessages, version: int) -> Value:
        size = int.from_bytes(self.peer.out[:4], "big")
        frame = bytes(self.peer.out[4 : 4 + size])
        del self.peer.out[: 4 + size]
        _, position = parse_response_header(frame, api_key=api.key, api_version=version)
        return api.response.decode(frame, version, position)


@pytest.fixture
def talk() -> "Talk":
    return Talk()


def request(api: ApiMessages, version: int, body: dict[str, object]) -> bytes:
    header = encode_request_header(api_key=api.key, api_version=version, correlation_id=7, client_id="t")
    content = header + api.request.encode(body, version)
    return len(content).to_bytes(4, "big") + content


def batch_request(acks: int, messages: int) -> bytes:
    batch = encode_batch([Record(None, b"x" * 50, timestamp_ms=1)] * messages)
    topic = {"name": "t", "partition_data": [{"index": 1, "records": batch}]}
    return request(produce.API, 12, {"acks": acks, "timeout_ms": 1, "topic_data": [topic]})


def test_any_topic_exists_with_its_partitions(talk: Talk) -> None:
    talk.feed(request(metadata.API, 9, {"topics": [{"name": "whatever"}]}))
    answer = talk.answer(metadata.API, 9)
    assert [(each["name"], len(each["partitions"])) for each in answer["topics"]] == [("whatever", 2)]
    assert [(each["host"], each["port"]) for each in answer["brokers"]] == [("here", 9)]


def test_produce_is_counted_and_answered_unless_nobody_waits(talk: Talk) -> None:
    talk.feed(batch_request(1, 30))
    answer = talk.answer(produce.API, 12)
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
    talk.feed(batch_request(0, 12))
    assert not talk.peer.out
    assert talk.sink.messages == 42


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_frames_may_come_in_pieces_and_together(talk: Talk, piece: int) -> None:
    data = batch_request(1, 3) * 4 + batch_request(1, 5)[:-1]
    for position in range(0, len(data), piece):
        talk.feed(data[position : position + piece])
    assert talk.sink.messages == 12
    talk.feed(b"\0")
    assert talk.sink.messages == 17


def test_a_frame_larger_than_the_room_gets_more_of_it(talk: Talk) -> None:
    large = len(talk.peer.room()) + 100_000
    batch = encode_batch([Record(None, bytes(large), timestamp_ms=1)])
    topic = {"name": "t", "partition_data": [{"index": 0, "records": batch}]}
    data = request(produce.API, 12, {"acks": 0, "timeout_ms": 1, "topic_data": [topic]})
    while data:
        room = len(talk.peer.room())
        assert room > 0
        talk.feed(data[:room])
        data = data[room:]
    assert talk.sink.messages == 1
    talk.feed(batch_request(0, 2))
    assert talk.sink.messages == 3


def test_versions_are_told_in_the_oldest_shape_to_whoever_is_too_new(talk: Talk) -> None:
    talk.feed(request(api_versions.API, 3, {"client_software_name": "a", "client_software_version": "1"}))
    keys = {each["api_key"] for each in talk.answer(api_versions.API, 3)["api_keys"]}
    assert {0, 3, 18} <= keys


def test_what_a_sink_does_not_speak_ends_the_connection(talk: Talk) -> None:
    with pytest.raises(ProtocolError, match="does not speak API 1"):
        talk.feed(request(fetch.API, 11, {"topics": []}))
    with pytest.raises(ProtocolError, match="frame of"):
        Talk().feed(b"\xff\xff\xff\xff")


def test_a_limited_sink_takes_as_many_as_it_is_told_and_no_more() -> None:
    pace, now_s, taken = Pace(1000.0), 100.0, 0
    while now_s < 110.0:
        now_s += pace.take(25, now_s=now_s) + 0.0015  # It sleeps a little longer than told.
        taken += 25
    assert taken == pytest.approx(10_000, rel=0.01)


def test_a_limited_sink_that_had_nothing_to_do_has_no_credit_for_it() -> None:
    pace = Pace(1000.0)
    assert pace.take(100, now_s=50.0) == pytest.approx(0.05)
    assert pace.take(100, now_s=5000.0) == pytest.approx(0.05)
