from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.pipeline.options import (
    EARLIEST,
    LATEST,
    Assign,
    AtTimestamp,
    ByPartition,
    Subscribe,
    SubscribePattern,
    parse_sink_options,
    parse_source_options,
)

WHERE = {"kafka.bootstrap.servers": "here:9092"}


def parse(*, is_streaming: bool = False, **options: str) -> Any:
    return parse_source_options({**WHERE, "subscribe": "clicks", **options}, is_streaming=is_streaming)


def test_defaults_are_the_official_ones() -> None:
    batch, stream = parse(), parse(is_streaming=True)
    assert (batch.start, batch.end, stream.start) == (EARLIEST, LATEST, LATEST)
    assert batch.fails_on_data_loss
    assert not batch.has_headers
    assert batch.subscription == Subscribe(("clicks",))
    assert batch.client == {"bootstrap.servers": "here:9092"}


def test_names_are_compared_without_case() -> None:
    assert parse(INCLUDEHEADERS="TRUE").has_headers
    assert parse(**{"Kafka.Security.Protocol": "SSL"}).client["security.protocol"] == "SSL"


def test_what_to_read() -> None:
    assigned = parse_source_options({**WHERE, "assign": '{"a": [0, 2], "b": []}'}, is_streaming=False)
    assert assigned.subscription == Assign({"a": (0, 2), "b": ()})
    matched = parse_source_options({**WHERE, "subscribePattern": "click.*"}, is_streaming=False)
    assert isinstance(matched.subscription, SubscribePattern)
    assert matched.subscription.pattern.pattern == "click.*"


def test_bounds_and_which_of_them_counts() -> None:
    offsets = parse(startingOffsets='{"clicks": {"0": 23, "1": -2}}')
    assert offsets.start == ByPartition({"clicks": {0: 23, 1: -2}}, are_timestamps=False)
    times = parse(startingOffsetsByTimestamp='{"clicks": {"0": 1000}}', startingOffsets="earliest")
    assert times.start == ByPartition({"clicks": {0: 1000}}, are_timestamps=True)
    assert parse(startingTimestamp="1000", startingOffsetsByTimestamp="{}").start == AtTimestamp(1000)
    assert parse(endingTimestamp="1000").end == AtTimestamp(1000)
    assert parse(maxTriggerDelay="30s", is_streaming=True).max_trigger_delay_ms == 30_000


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffset": "earliest"}, "startingOffset is not an option of this source"),
        ({"assign": '{"a": [0]}'}, "exactly one of assign, subscribe"),
        ({"subscribe": ""}, "subscribe is empty"),
        ({"startingOffsets": "latest"}, "cannot begin at latest"),
        ({"startingOffsets": '{"clicks": {"0": -1}}'}, "cannot begin at latest"),
        ({"endingOffsets": "earliest"}, "cannot end at earliest"),
        ({"startingOffsets": '{"clicks": {"0": -3}}'}, "is not like"),
        ({"startingOffsets": "{"}, "is not JSON"),
        ({"startingTimestamp": "yesterday"}, "is not a number of milliseconds"),
        ({"failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"minPartitions": "0"}, "not a number from 1 on"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "is more than"),
        ({"kafka.auto.offset.reset": "latest"}, "use startingOffsets instead"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "neither error nor latest"),
    ],
)
def test_what_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse(**options)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ConfigError, match="a streaming query has no end"):
        parse(is_streaming=True, endingOffsets="latest")


def test_without_a_cluster_there_is_nothing_to_read() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers must be set"):
        parse_source_options({"subscribe": "clicks"}, is_streaming=False)


def test_the_sink() -> None:
    options = parse_sink_options({**WHERE, "topic": "out", "kafka.acks": "1"})
    assert (options.topic, options.client["acks"], options.has_headers) == ("out", "1", False)
    with pytest.raises(ConfigError, match="subscribe is not an option of this sink"):
        parse_sink_options({**WHERE, "subscribe": "clicks"})
