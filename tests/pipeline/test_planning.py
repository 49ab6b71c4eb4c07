"""Which offsets queries read, on a real broker and without Spark, which is asked only what it would ask itself."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from headrace.errors import ConfigError
from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.options import parse_source_options
from headrace.pipeline.planning import DataLoss
from headrace.pipeline.source import BatchReader, StreamReader, Task, read_task, schema_of
from headrace.pipeline.splitting import OffsetRange
from headrace.testing import Broker
from headrace.wire.errors import UnknownPartition, UnknownTopic
from tests.pipeline.topics import cut, delete, fill, grow

ALL = ReadAllAvailable()
Stream = Callable[..., StreamReader]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is shorter than it was is believed sooner."""
    monkeypatch.setattr("headrace.pipeline.planning._STALE_PAUSE_S", 0.01)


@pytest.fixture
def stream(headrace_broker: Broker) -> Iterator[Stream]:
    """Makes readers of a streaming query, and ends them."""
    readers = []

    def make(**options: str) -> StreamReader:
        given = {"kafka.bootstrap.servers": headrace_broker.bootstrap, **options}
        readers.append(StreamReader(given, schema_of(given)))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def batch(broker: Broker, **options: str) -> list[tuple[int, int, int]]:
    """The partition, beginning and end of every task of a batch query."""
    given = {"kafka.bootstrap.servers": broker.bootstrap, **options}
    return [described(task) for task in BatchReader(given, schema_of(given)).partitions()]


def described(task: Any) -> tuple[int, int, int]:
    return task.range.place.partition, task.range.first, task.range.end


def planned(reader: StreamReader, start: Any, end: Any) -> list[tuple[int, int, int]]:
    return [described(task) for task in reader.partitions(start, end)]


def values(tasks: Any) -> list[bytes]:
    return [value.as_py() for task in tasks for rows in read_task(task) for value in rows.column("value")]


# --- Batch ------------------------------------------------------------------------------------------------------


@pytest.mark.headrace_topic(partitions=3)
def test_a_batch_reads_from_the_earliest_to_the_latest(headrace_broker: Broker, headrace_topic: str) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(10), partition=0)
    fill(headrace_broker.bootstrap, headrace_topic, range(4), partition=2)
    cut(headrace_broker.bootstrap, headrace_topic, 3)
    assert batch(headrace_broker, subscribe=headrace_topic) == [(0, 3, 10), (2, 0, 4)]
    assert batch(headrace_broker, assign=f'{{"{headrace_topic}": [2]}}') == [(2, 0, 4)]


@pytest.mark.headrace_topic(partitions=2)
def test_a_batch_between_offsets(headrace_broker: Broker, headrace_topic: str) -> None:
    for partition in range(2):
        fill(headrace_broker.bootstrap, headrace_topic, range(10), partition=partition)
    bounds = {
        "startingOffsets": f'{{"{headrace_topic}": {{"0": 2, "1": -2}}}}',
        "endingOffsets": f'{{"{headrace_topic}": {{"0": 5, "1": -1}}}}',
    }
    assert batch(headrace_broker, subscribe=headrace_topic, **bounds) == [(0, 2, 5), (1, 0, 10)]


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("startingOffsets", '{"TOPIC": {"0": 2}}', "startingOffsets says nothing of TOPIC-1"),
        ("endingOffsets", '{"TOPIC": {"0": 2, "1": 3, "2": 4}}', "endingOffsets names TOPIC-2, which is not read"),
        ("startingOffsetsByTimestamp", '{"TOPIC": {"0": 2}}', "startingOffsetsByTimestamp says nothing of TOPIC-1"),
        ("startingOffsets", '{"TOPIC": {"0": 5, "1": 0}}', "the start, offset 5, lies behind the end, 3"),
        ("startingTimestamp", "99999999999999", "no record of TOPIC-0 is as late as 99999999999999 ms"),
    ],
)
@pytest.mark.headrace_topic(partitions=2)
def test_bounds_that_cannot_be_met(
    headrace_broker: Broker, headrace_topic: str, option: str, value: str, text: str
) -> None:
    for partition in range(2):
        fill(headrace_broker.bootstrap, headrace_topic, range(3), partition=partition)
    with pytest.raises(ConfigError, match=text.replace("TOPIC", headrace_topic)):
        batch(headrace_broker, subscribe=headrace_topic, **{option: value.replace("TOPIC", headrace_topic)})


def test_a_batch_between_moments(headrace_broker: Broker, headrace_topic: str) -> None:
    for moment_ms in range(1000, 1010):
        headrace_broker.produce(headrace_topic, "x", timestamp_ms=moment_ms)
    between = {"startingTimestamp": "1004", "endingTimestamp": "1007"}
    assert batch(headrace_broker, subscribe=headrace_topic, **between) == [(0, 4, 7)]
    # No record is as late as that: the end is the end of the log.
    assert batch(headrace_broker, subscribe=headrace_topic, endingTimestamp="5000") == [(0, 0, 10)]
    late = {"startingTimestamp": "5000", "startingOffsetsByTimestampStrategy": "latest"}
    assert batch(headrace_broker, subscribe=headrace_topic, **late) == []


def test_a_batch_of_what_is_gone(headrace_broker: Broker, headrace_topic: str) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    cut(headrace_broker.bootstrap, headrace_topic, 6)
    asked = {"subscribe": headrace_topic, "startingOffsets": f'{{"{headrace_topic}": {{"0": 2}}}}'}
    with pytest.raises(DataLoss, match=r"begins at offset 6: 2 and what follows is gone\. failOnDataLoss=false"):
        batch(headrace_broker, **asked)
    assert batch(headrace_broker, failOnDataLoss="false", **asked) == [(0, 6, 10)]


def test_a_batch_of_what_was_never_written(headrace_broker: Broker, headrace_topic: str) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    asked = {"subscribe": headrace_topic, "endingOffsets": f'{{"{headrace_topic}": {{"0": 12}}}}'}
    with pytest.raises(DataLoss, match="ends at offset 10, before the end that was asked for, 12"):
        batch(headrace_broker, **asked)
    assert batch(headrace_broker, failOnDataLoss="false", **asked) == [(0, 0, 10)]


def test_topics_and_partitions_that_are_not_there(headrace_broker: Broker, headrace_topic: str) -> None:
    with pytest.raises(UnknownTopic, match="there is no topic 'nobody'"):
        batch(headrace_broker, subscribe="nobody", **{"kafka.default.api.timeout.ms": "3000"})
    with pytest.raises(UnknownPartition, match="has 1 partitions, and 7 is none"):
        batch(headrace_broker, assign=f'{{"{headrace_topic}": [0, 7]}}')
    assert batch(headrace_broker, subscribePattern="^no.*body$") == []


def test_a_task_whose_range_went_away_since_it_was_planned(headrace_broker: Broker, headrace_topic: str) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    given = {"kafka.bootstrap.servers": headrace_broker.bootstrap, "subscribe": headrace_topic}
    strict = BatchReader(given, schema_of(given)).partitions()
    lenient = BatchReader({**given, "failOnDataLoss": "false"}, schema_of(given)).partitions()
    cut(headrace_broker.bootstrap, headrace_topic, 8)
    with pytest.raises(DataLoss, match="of offsets 0 to 9 something is gone since this task was planned"):
        values(strict)
    assert values(lenient) == [b"8", b"9"]
    delete(headrace_broker.bootstrap, headrace_topic)
    assert values(lenient) == []


def test_a_task_whose_range_is_longer_than_the_log_by_now(headrace_broker: Broker, headrace_topic: str) -> None:
    """A leader that knows less, or another log of this name."""
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    given = {"kafka.bootstrap.servers": headrace_broker.bootstrap, "subscribe": headrace_topic}
    strict = BatchReader(given, schema_of(given)).partitions()
    lenient = BatchReader({**given, "failOnDataLoss": "false"}, schema_of(given)).partitions()
    delete(headrace_broker.bootstrap, headrace_topic)
    headrace_broker.create_topic(headrace_topic)
    fill(headrace_broker.bootstrap, headrace_topic, range(3))
    with pytest.raises(DataLoss, match="of offsets 0 to 9 something is gone since this task was planned"):
        values(strict)
    assert values(lenient) == [b"0", b"1", b"2"]


def test_a_task_takes_its_password_along_and_does_not_tell_it() -> None:
    given = {
        "kafka.bootstrap.servers": "here:9092",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": 'PlainLoginModule required username="ali" password="sesame";',
        "subscribe": "clicks",
    }
    client = parse_source_options(given, is_streaming=False).client
    whole = OffsetRange(TopicPartition(TopicName("clicks"), 0), 0, 2)
    task = Task(whole, client, ("value",), is_read_committed=False, fails_on_data_loss=True)
    assert pickle.loads(pickle.dumps(task)) == task
    assert client.sasl is not None
    assert client.sasl.password == "sesame"
    assert "sesame" not in repr(task)


# --- Streaming --------------------------------------------------------------------------------------------------


def test_a_stream_from_the_earliest(headrace_broker: Broker, headrace_topic: str, stream: Stream) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    reader = stream(subscribe=headrace_topic, startingOffsets="earliest")
    start = reader.initialOffset()
    assert start == {headrace_topic: {"0": 0}}
    end = reader.latestOffset(start, ALL)
    assert end == {headrace_topic: {"0": 10}}
    assert planned(reader, start, end) == [(0, 0, 10)]
    assert reader.reportLatestOffset() == end


def test_a_stream_from_the_latest_begins_where_its_first_batch_was_written_down(
    headrace_broker: Broker, headrace_topic: str, stream: Stream
) -> None:
    """Also where that batch has to be planned again by another process, after more has been written."""
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    reader = stream(subscribe=headrace_topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert end == {headrace_topic: {"0": 10}}
    fill(headrace_broker.bootstrap, headrace_topic, range(5))
    again = stream(subscribe=headrace_topic)
    assert planned(again, again.initialOffset(), end) == []
    assert planned(again, end, again.latestOffset(end, ALL)) == [(0, 10, 15)]


def test_at_most_so_many_offsets(headrace_broker: Broker, headrace_topic: str, stream: Stream) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    reader = stream(subscribe=headrace_topic, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(4)
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert first == {headrace_topic: {"0": 4}}
    assert reader.latestOffset(reader.latestOffset(first, limit), limit) == {headrace_topic: {"0": 10}}
    # Trigger.Once takes all, whatever it was told.
    assert reader.latestOffset(first, ALL) == {headrace_topic: {"0": 10}}


def test_at_least_so_many_offsets(headrace_broker: Broker, headrace_topic: str, stream: Stream) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(3))
    reader = stream(subscribe=headrace_topic, startingOffsets="earliest", minOffsetsPerTrigger="5")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(5)
    start = reader.latestOffset(reader.initialOffset(), limit)  # The first takes what there is.
    assert start == {headrace_topic: {"0": 3}}
    fill(headrace_broker.bootstrap, headrace_topic, range(4))
    assert reader.latestOffset(start, limit) == start
    fill(headrace_broker.bootstrap, headrace_topic, range(1))
    assert reader.latestOffset(start, limit) == {headrace_topic: {"0": 8}}


def test_a_delay_that_is_over(headrace_broker: Broker, headrace_topic: str, stream: Stream) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(3))
    soon = {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "0ms", "startingOffsets": "earliest"}
    reader = stream(subscribe=headrace_topic, **soon)
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)
    fill(headrace_broker.bootstrap, headrace_topic, range(1))
    assert reader.latestOffset(start, limit) == {headrace_topic: {"0": 4}}


@pytest.mark.parametrize("limits", [{}, {"minOffsetsPerTrigger": "50"}, {"maxOffsetsPerTrigger": "4"}])
def test_what_is_available_now_is_all_that_is_read(
    headrace_broker: Broker, headrace_topic: str, stream: Stream, limits: dict[str, str]
) -> None:
    """Also where the minimum is more than there is, and although more is written meanwhile."""
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    reader = stream(subscribe=headrace_topic, startingOffsets="earliest", **limits)
    reader.prepareForTriggerAvailableNow()
    offset, seen = reader.initialOffset(), []
    limit: ReadLimit = reader.getDefaultReadLimit()
    while (end := reader.latestOffset(offset, limit)) != offset:
        seen += planned(reader, offset, end)
        fill(headrace_broker.bootstrap, headrace_topic, range(2))
        offset = end
    assert offset == {headrace_topic: {"0": 10}}
    assert [first for _, first, _ in seen] + [10] == [0] + [end for _, _, end in seen]


def test_partitions_and_topics_that_come_later(headrace_broker: Broker, headrace_topic: str, stream: Stream) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(3))
    reader = stream(subscribePattern=f"^{headrace_topic}", startingOffsets="earliest")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    grow(headrace_broker.bootstrap, headrace_topic, 2)
    headrace_broker.create_topic(f"{headrace_topic}-too")
    fill(headrace_broker.bootstrap, headrace_topic, range(5), partition=1)
    fill(headrace_broker.bootstrap, f"{headrace_topic}-too", range(7))
    end = reader.latestOffset(start, ALL)
    assert end == {headrace_topic: {"0": 3, "1": 5}, f"{headrace_topic}-too": {"0": 7}}
    assert planned(reader, start, end) == [(1, 0, 5), (0, 0, 7)]


def test_a_partition_that_came_later_and_lost_its_beginning(
    headrace_broker: Broker, headrace_topic: str, stream: Stream
) -> None:
    start: dict[str, dict[str, int]] = {headrace_topic: {"0": 0}}
    grow(headrace_broker.bootstrap, headrace_topic, 2)
    fill(headrace_broker.bootstrap, headrace_topic, range(5), partition=1)
    cut(headrace_broker.bootstrap, headrace_topic, 2, partition=1)
    with pytest.raises(DataLoss, match="is new to this query and begins at offset 2"):
        stream(subscribe=headrace_topic).latestOffset(start, ALL)
    lenient = stream(subscribe=headrace_topic, failOnDataLoss="false")
    assert planned(lenient, start, lenient.latestOffset(start, ALL)) == [(1, 2, 5)]


def test_a_topic_that_went_away(headrace_broker: Broker, headrace_topic: str, stream: Stream) -> None:
    other = f"{headrace_topic}-gone"
    headrace_broker.create_topic(other)
    fill(headrace_broker.bootstrap, other, range(5))
    fill(headrace_broker.bootstrap, headrace_topic, range(5))
    start = {headrace_topic: {"0": 1}, other: {"0": 1}}
    end = {headrace_topic: {"0": 4}, other: {"0": 4}}
    delete(headrace_broker.bootstrap, other)
    strict = stream(subscribePattern=f"^{headrace_topic}")
    for ask in (lambda: strict.latestOffset(start, ALL), lambda: strict.partitions(start, end)):
        with pytest.raises(DataLoss, match=f"{other}-0 is not there any more"):
            ask()
    lenient = stream(subscribePattern=f"^{headrace_topic}", failOnDataLoss="false")
    assert lenient.latestOffset(start, ALL) == {headrace_topic: {"0": 5}}
    assert planned(lenient, start, end) == [(0, 1, 4)]


def test_offsets_that_expired_before_they_were_read(
    headrace_broker: Broker, headrace_topic: str, stream: Stream
) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    cut(headrace_broker.bootstrap, headrace_topic, 6)
    start, end = {headrace_topic: {"0": 4}}, {headrace_topic: {"0": 9}}
    with pytest.raises(DataLoss, match="begins at offset 6: 4 and what follows is gone"):
        stream(subscribe=headrace_topic).partitions(start, end)
    assert planned(stream(subscribe=headrace_topic, failOnDataLoss="false"), start, end) == [(0, 6, 9)]


def test_a_topic_made_anew_under_the_same_name(headrace_broker: Broker, headrace_topic: str, stream: Stream) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    start = {headrace_topic: {"0": 10}}
    delete(headrace_broker.bootstrap, headrace_topic)
    headrace_broker.create_topic(headrace_topic)
    fill(headrace_broker.bootstrap, headrace_topic, range(3))
    with pytest.raises(DataLoss, match="was read up to offset 10 and ends at 3 now: another log has its name"):
        stream(subscribe=headrace_topic).latestOffset(start, ALL)
    lenient = stream(subscribe=headrace_topic, failOnDataLoss="false")
    end = lenient.latestOffset(start, ALL)
    assert end == {headrace_topic: {"0": 3}}
    assert planned(lenient, start, end) == []


def test_a_repeated_batch_whose_end_is_gone(headrace_broker: Broker, headrace_topic: str, stream: Stream) -> None:
    """Its end is what a checkpoint says, and the log may be another by now."""
    fill(headrace_broker.bootstrap, headrace_topic, range(60))
    start, end = {headrace_topic: {"0": 50}}, {headrace_topic: {"0": 100}}
    with pytest.raises(DataLoss, match="ends at offset 60, before the end that was asked for, 100"):
        stream(subscribe=headrace_topic).partitions(start, end)
    lenient = stream(subscribe=headrace_topic, failOnDataLoss="false")
    assert planned(lenient, start, end) == [(0, 50, 60)]
    assert planned(lenient, {headrace_topic: {"0": 70}}, end) == []
