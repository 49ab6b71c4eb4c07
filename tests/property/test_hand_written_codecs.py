"""Produce and Fetch as the server parses and answers them by hand, held to their tables in every version."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ProtocolError
from headrace.protocol import fetch, produce
from headrace.protocol.messages.fetch import API as FETCH
from headrace.protocol.messages.produce import API as PRODUCE
from headrace.protocol.schema import ApiMessages, Value
from tests.message_values import message_values

few = settings(max_examples=15, deadline=None, derandomize=True)
MUTATIONS = 20

Parsed = Any


def key_of(topic: Value, name: str, version: int, api: ApiMessages) -> bytes:
    """A topic as the server keys it: an id since versions carry one, the bytes of its name before."""
    ids_since = produce.TOPIC_IDS_SINCE if api is PRODUCE else fetch.TOPIC_IDS_SINCE
    return topic["topic_id"] if version >= ids_since else topic[name].encode()


def produce_parsed(value: Value, version: int) -> Parsed:
    transactional_id = value["transactional_id"]
    return (
        None if transactional_id is None else transactional_id.encode(),
        value["acks"],
        value["timeout_ms"],
        [
            (
                key_of(topic, "name", version, PRODUCE),
                [(partition["index"], partition["records"]) for partition in topic["partition_data"]],
            )
            for topic in value["topic_data"]
        ],
    )


def fetch_parsed(value: Value, version: int) -> Parsed:
    return fetch.FetchRequest(
        replica_id=value["replica_state"]["replica_id"] if version >= 15 else value["replica_id"],
        wait_ms_max=value["max_wait_ms"],
        bytes_min=value["min_bytes"],
        bytes_max=value["max_bytes"],
        read_committed=value["isolation_level"] == 1,
        session_id=value["session_id"],
        session_epoch=value["session_epoch"],
        topics=[
            (
                key_of(topic, "topic", version, FETCH),
                [
                    fetch.FetchPartition(
                        partition["partition"],
                        partition["current_leader_epoch"],
                        partition["fetch_offset"],
                        partition["last_fetched_epoch"],
                        partition["log_start_offset"],
                        partition["partition_max_bytes"],
                    )
                    for partition in topic["partitions"]
                ],
            )
            for topic in value["topics"]
        ],
        forgotten=[
            (key_of(topic, "topic", version, FETCH), topic["partitions"]) for topic in value["forgotten_topics_data"]
        ],
    )


PARSERS = [
    pytest.param(api, version, parse, parsed, id=f"{api.name}-v{version}")
    for api, parse, parsed in (
        (PRODUCE, produce.parse_produce, produce_parsed),
        (FETCH, fetch.parse_fetch, fetch_parsed),
    )
    for version in range(api.version_min, api.version_max + 1)
]
every_parser = pytest.mark.parametrize(("api", "version", "parse", "parsed"), PARSERS)


def test_the_versions_written_by_hand_are_those_of_the_tables() -> None:
    for api, module in ((PRODUCE, produce), (FETCH, fetch)):
        assert (api.version_min, api.version_max) == (module.VERSION_MIN, module.VERSION_MAX)
        assert api.flexible_since == module.FLEXIBLE_SINCE


@every_parser
@few
@given(data=st.data())
def test_requests_whole_cut_anywhere_and_followed_by_more(
    api: ApiMessages, version: int, parse: Any, parsed: Any, data: st.DataObject
) -> None:
    encoded = api.request.encode(data.draw(message_values(api.request, version)), version)
    expected = parsed(api.request.decode(encoded, version), version)
    assert parse(memoryview(encoded), 0, version) == expected
    assert parse(memoryview(b"before" + encoded + b"after"), 6, version) == expected
    for size in range(len(encoded)):
        with pytest.raises(ProtocolError):
            parse(memoryview(encoded)[:size], 0, version)


@every_parser
@few
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_wrong_bytes_are_read_as_the_table_reads_them_or_refused(
    api: ApiMessages, version: int, parse: Any, parsed: Any, data: st.DataObject, seed: int
) -> None:
    encoded = api.request.encode(data.draw(message_values(api.request, version)), version)
    chance = random.Random(seed)
    for _ in range(MUTATIONS):
        mutated = bytearray(encoded)
        for _ in range(chance.randint(1, 3)):
            mutated[chance.randrange(len(mutated))] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        try:
            by_hand = parse(memoryview(mutated), 0, version)
        except ProtocolError:
            by_hand = None
        try:
            by_table = parsed(api.request.decode(mutated, version), version)
        except ProtocolError:
            continue  # The table is the stricter one: it reads every name as UTF-8, and what the server skips.
        assert by_hand == by_table


partition_answers = st.tuples(
    st.integers(0, 1 << 30),
    st.integers(-1, 100),
    st.integers(-1, 1 << 60),
    st.integers(-1, 1 << 60),
    st.integers(-1, 1 << 60),
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
)
topic_keys = st.binary(min_size=16, max_size=16)  # Good as an id, and in hex as a name.


def as_key(key: bytes, *, by_id: bool) -> bytes:
    return key if by_id else key.hex().encode()


def as_topic(key: bytes, name: str, *, by_id: bool) -> Value:
    return {"topic_id": key} if by_id else {name: key.hex()}


@pytest.mark.parametrize("version", range(PRODUCE.version_min, PRODUCE.version_max + 1))
@few
@given(topics=st.lists(st.tuples(topic_keys, st.lists(partition_answers, max_size=3)), max_size=3))
def test_produce_responses(version: int, topics: list[tuple[bytes, list[produce.PartitionAnswer]]]) -> None:
    by_id = version >= produce.TOPIC_IDS_SINCE
    value = {
        "responses": [
            {
                **as_topic(key, "name", by_id=by_id),
                "partition_responses": [
                    {
                        "index": index,
                        "error_code": error,
                        "base_offset": base_offset,
                        "log_append_time_ms": append_time_ms,
                        "log_start_offset": start_offset,
                        "error_message": message,
                    }
                    for index, error, base_offset, append_time_ms, start_offset, message in partitions
                ],
            }
            for key, partitions in topics
        ]
    }
    by_hand = [(as_key(key, by_id=by_id), partitions) for key, partitions in topics]
    encoded = produce.encode_produce_response(by_hand, version)
    assert encoded.hex() == PRODUCE.response.encode(value, version).hex()


pairs = st.tuples(st.integers(0, 1 << 30), st.integers(0, 1 << 30))
fetched_partitions = st.tuples(
    st.builds(
        fetch.PartitionData,
        partition=st.integers(0, 1 << 30),
        error=st.integers(-1, 100),
        high_watermark=st.integers(-1, 1 << 60),
        last_stable_offset=st.integers(-1, 1 << 60),
        start_offset=st.integers(-1, 1 << 60),
        records_bytes=st.just(0),
        aborted=st.none() | st.lists(pairs, max_size=2),
        diverging=st.none() | pairs,
        leader=st.none() | pairs,
    ),
    st.binary(max_size=300),
)


@pytest.mark.parametrize("version", range(FETCH.version_min, FETCH.version_max + 1))
@few
@given(
    error=st.integers(-1, 100),
    session_id=st.integers(0, 1 << 30),
    topics=st.lists(st.tuples(topic_keys, st.lists(fetched_partitions, max_size=3)), max_size=3),
    leaders=st.lists(st.tuples(st.integers(0, 1 << 30), st.text(max_size=200), st.integers(0, 65_535)), max_size=3),
)
def test_fetch_responses(
    version: int,
    error: int,
    session_id: int,
    topics: list[tuple[bytes, list[tuple[fetch.PartitionData, bytes]]]],
    leaders: list[tuple[int, str, int]],
) -> None:
    by_id = version >= fetch.TOPIC_IDS_SINCE
    parts = [fetch.encode_fetch_head(version, error=error, session_id=session_id, topic_count=len(topics))]
    responses = []
    for key, partitions in topics:
        parts.append(fetch.encode_topic_head(version, as_key(key, by_id=by_id), len(partitions)))
        for data, records in partitions:
            sized = data._replace(records_bytes=len(records))
            parts += (
                fetch.encode_partition_head(version, sized),
                records,
                fetch.encode_partition_tail(version, sized),
            )
        parts.append(fetch.encode_topic_tail(version))
        responses.append(
            {
                **as_topic(key, "topic", by_id=by_id),
                "partitions": [fetched_value(data, records) for data, records in partitions],
            }
        )
    parts.append(fetch.encode_fetch_tail(version, leaders))
    value = {"error_code": error, "session_id": session_id, "responses": responses}
    if version >= fetch.ENDPOINTS_SINCE:
        value["node_endpoints"] = [{"node_id": node, "host": host, "port": port} for node, host, port in leaders]
    assert b"".join(parts).hex() == FETCH.response.encode(value, version).hex()


def fetched_value(data: fetch.PartitionData, records: bytes) -> Value:
    value: Value = {
        "partition_index": data.partition,
        "error_code": data.error,
        "high_watermark": data.high_watermark,
        "last_stable_offset": data.last_stable_offset,
        "log_start_offset": data.start_offset,
        "records": records,
    }
    value["aborted_transactions"] = (
        None
        if data.aborted is None
        else [{"producer_id": producer, "first_offset": first} for producer, first in data.aborted]
    )
    if data.diverging is not None:
        value["diverging_epoch"] = dict(zip(("epoch", "end_offset"), data.diverging, strict=True))
    if data.leader is not None:
        value["current_leader"] = dict(zip(("leader_id", "leader_epoch"), data.leader, strict=True))
    return value


# --- The shape of nearly every Produce request, parsed and answered more cheaply --------------------------------------

PRODUCE_VERSIONS = pytest.mark.parametrize("version", range(produce.VERSION_MIN, produce.VERSION_MAX + 1))


def lone_of(parsed: Parsed) -> Parsed:
    """What `parse_lone` ought to find in a request that `parse_produce` has read; None where it may pass."""
    transactional_id, acks, _, topics = parsed
    match topics:
        case [(topic, [(index, records)])] if records is not None and transactional_id is None:
            return acks, topic, index, records
    return None


@PRODUCE_VERSIONS
@few
@given(size=st.sampled_from([0, 1, 61, 126, 127, 128, 300, 16382, 16383, 16384, 100_000]), name=st.text(max_size=40))
def test_a_lone_batch_is_found_by_both(version: int, size: int, name: str) -> None:
    rows = [{"index": 7, "records": bytes(range(251)) * (size // 251) + bytes(size % 251)}]
    topic = {"name": name, "topic_id": b"t" * 16, "partition_data": rows}
    body = PRODUCE.request.encode({"acks": -1, "timeout_ms": 9, "topic_data": [topic]}, version)
    frame = memoryview(b"before" + body)
    parsed = produce.parse_produce(frame, 6, version)
    lone = produce.parse_lone(frame, 6, version)
    if version >= produce.FLEXIBLE_SINCE and len(name.encode()) < 127:
        assert lone == lone_of(parsed)
        assert lone is not None
    else:
        assert lone is None


@PRODUCE_VERSIONS
@few
@given(data=st.data())
def test_what_is_no_lone_batch_is_left_to_the_other(version: int, data: st.DataObject) -> None:
    """Whatever it is, whole, cut, changed or followed by more: either both read the same, or this one passes."""
    encoded = PRODUCE.request.encode(data.draw(message_values(PRODUCE.request, version)), version)
    chance = random.Random(len(encoded))
    changed = []
    for _ in range(MUTATIONS):
        mutant = bytearray(encoded)
        mutant[chance.randrange(len(mutant))] = chance.randrange(256)
        changed.append(bytes(mutant))
    cut = [encoded[:size] for size in range(len(encoded))]
    for frame in map(memoryview, (encoded, encoded + b"\0", *cut, *changed)):
        lone = produce.parse_lone(frame, 0, version)
        if lone is not None:
            assert lone == lone_of(produce.parse_produce(frame, 0, version))


@pytest.mark.parametrize("version", range(produce.FLEXIBLE_SINCE, produce.VERSION_MAX + 1))
@given(index=st.integers(0, 1 << 30), offset=st.integers(0, 1 << 62), stamp=st.integers(-1, 1 << 60))
def test_a_lone_batch_is_answered_alike_by_both(version: int, index: int, offset: int, stamp: int) -> None:
    topic = b"t" * 16
    expected = produce.encode_produce_response([(topic, [(index, 0, offset, stamp, 3, None)])], version)
    assert produce.encode_lone_answer(topic, index, offset, stamp, 3, version) == expected
