"""Fetch answers, Produce requests and answers as the client handles them by hand, held to their tables."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ProtocolError
from headrace.protocol.fetch import TOPIC_IDS_SINCE
from headrace.protocol.messages.fetch import API as FETCH
from headrace.protocol.messages.produce import API as PRODUCE
from headrace.protocol.schema import Value
from headrace.wire.fetch import FetchAnswer, FetchedPartition, parse_fetch_answer
from headrace.wire.produce import TopicBatches, encode_produce, read_lone_answer
from tests.message_values import message_values

few = settings(max_examples=15, deadline=None, derandomize=True)
MUTATIONS = 20
NO_LEADER = (-1, -1)

every_fetch = pytest.mark.parametrize("version", range(FETCH.version_min, FETCH.version_max + 1))
every_produce = pytest.mark.parametrize("version", range(PRODUCE.version_min, PRODUCE.version_max + 1))


def by_table(value: Value, version: int) -> FetchAnswer:
    return FetchAnswer(
        value["throttle_time_ms"],
        value["error_code"],
        value["session_id"],
        [
            FetchedPartition(
                topic["topic_id"] if version >= TOPIC_IDS_SINCE else topic["topic"],
                one["partition_index"],
                one["error_code"],
                one["high_watermark"],
                one["last_stable_offset"],
                one["log_start_offset"],
                [(pair["producer_id"], pair["first_offset"]) for pair in one["aborted_transactions"] or ()],
                one["preferred_read_replica"],
                (one["current_leader"]["leader_id"], one["current_leader"]["leader_epoch"]),
                memoryview(one["records"] or b""),
            )
            for topic in value["responses"]
            for one in topic["partitions"]
        ],
    )


def by_hand(data: bytes | bytearray, version: int, position: int = 0) -> FetchAnswer:
    """A leader that is not named is the table's default."""
    answer = parse_fetch_answer(memoryview(data), position, version)
    return answer._replace(partitions=[one._replace(leader=one.leader or NO_LEADER) for one in answer.partitions])


@every_fetch
@few
@given(data=st.data())
def test_answers_whole_cut_anywhere_and_followed_by_more(version: int, data: st.DataObject) -> None:
    encoded = FETCH.response.encode(data.draw(message_values(FETCH.response, version)), version)
    expected = by_table(FETCH.response.decode(encoded, version), version)
    assert by_hand(encoded, version) == expected
    assert by_hand(b"before" + encoded + b"after", version, 6) == expected
    for size in range(len(encoded)):
        with pytest.raises(ProtocolError):
            by_hand(encoded[:size], version)


@every_fetch
@few
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_wrong_bytes_are_read_as_the_table_reads_them_or_refused(version: int, data: st.DataObject, seed: int) -> None:
    encoded = FETCH.response.encode(data.draw(message_values(FETCH.response, version)), version)
    chance = random.Random(seed)
    for _ in range(MUTATIONS):
        mutated = bytearray(encoded)
        for _ in range(chance.randint(1, 3)):
            mutated[chance.randrange(len(mutated))] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        try:
            found = by_hand(mutated, version)
        except ProtocolError:
            found = None
        try:
            expected = by_table(FETCH.response.decode(mutated, version), version)
        except ProtocolError:
            continue  # The table is the stricter one: it looks into what a reader passes over.
        assert found == expected


@every_fetch
def test_records_are_views_and_no_copies(version: int) -> None:
    value = {"responses": [{"partitions": [{"records": b"x" * 1000}]}]}
    encoded = bytearray(FETCH.response.encode(value, version))
    (partition,) = parse_fetch_answer(memoryview(encoded), 0, version).partitions
    assert partition.records.obj is encoded
    assert partition.records == b"x" * 1000


topics = st.lists(
    st.builds(
        TopicBatches,
        st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
        st.binary(min_size=16, max_size=16),
        st.lists(st.tuples(st.integers(0, 1 << 30), st.binary(max_size=300)), max_size=3),
    ),
    max_size=3,
)


@every_produce
@few
@given(topics=topics, acks=st.sampled_from((-1, 0, 1)), timeout_ms=st.integers(0, 1 << 30))
def test_produce_requests(version: int, topics: list[TopicBatches], acks: int, timeout_ms: int) -> None:
    by_id = version >= 13
    value = {
        "acks": acks,
        "timeout_ms": timeout_ms,
        "topic_data": [
            {
                **({"topic_id": topic.topic_id} if by_id else {"name": topic.name}),
                "partition_data": [{"index": index, "records": batch} for index, batch in topic.batches],
            }
            for topic in topics
        ],
    }
    parts = encode_produce(version, topics, acks=acks, timeout_ms=timeout_ms)
    assert b"".join(parts).hex() == PRODUCE.request.encode(value, version).hex()
    batches = [batch for topic in topics for _, batch in topic.batches]
    assert len(parts) <= 2 * len(batches) + 1
    assert [part.obj for part in parts if isinstance(part, memoryview)] == batches


@every_produce
@few
@given(data=st.data())
def test_a_lone_produce_answer_says_what_its_table_says_and_any_other_is_left_to_it(
    version: int, data: st.DataObject
) -> None:
    value = data.draw(message_values(PRODUCE.response, version))
    encoded = PRODUCE.response.encode(value, version)
    found = read_lone_answer(memoryview(b"before" + encoded), 6, version)
    parts = [part for each in value["responses"] for part in each["partition_responses"]]
    if found is not None:
        assert len(value["responses"]) == len(parts) == 1
        assert found == (parts[0]["index"], parts[0]["error_code"])
    for end in range(0, len(encoded), 7):
        read_lone_answer(memoryview(encoded[:end]), 0, version)


@every_produce
@pytest.mark.parametrize("name", ["t", "x" * 100])
def test_the_usual_produce_answer_is_a_lone_one(version: int, name: str) -> None:
    topic = {
        "name": name,
        "topic_id": bytes(16),
        "partition_responses": [{"index": 7, "error_code": 6, "base_offset": 5}],
    }
    encoded = PRODUCE.response.encode({"responses": [topic]}, version)
    assert read_lone_answer(memoryview(encoded), 0, version) == (7, 6)
    two = PRODUCE.response.encode({"responses": [topic, topic]}, version)
    assert read_lone_answer(memoryview(two), 0, version) is None
