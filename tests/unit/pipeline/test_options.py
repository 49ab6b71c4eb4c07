from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.pipeline.options import (
    Assign,
    AtTimestamp,
    ByPartition,
    Subscribe,
    SubscribePattern,
    parse_sink_options,
    parse_source_options,
    wants_headers,
)
from headrace.wire.offsets import EARLIEST, LATEST
from headrace.wire.settings import Address

WHERE = {"kafka.bootstrap.servers": "here:9092"}


def parse(*, is_streaming: bool = False, **options: str) -> Any:
    return parse_source_options({**WHERE, "subscribe": "clicks", **options}, is_streaming=is_streaming)


def test_defaults_are_the_official_ones() -> None:
    batch, stream = parse(), parse(is_streaming=True)
    assert (batch.start, batch.end, stream.start) == (EARLIEST, LATEST, LATEST)
    assert batch.fails_on_data_loss
    assert not batch.has_headers
    assert not batch.is_read_committed
    assert batch.subscription == Subscribe(("clicks",))
    assert batch.client.bootstrap == (Address("here", 9092),)
    assert stream.max_trigger_delay_ms == 15 * 60_000


def test_names_are_compared_without_case() -> None:
    assert parse(INCLUDEHEADERS="TRUE").has_headers
    assert parse(**{"Kafka.Client.Id": "me"}).client.client_id == "me"
    assert wants_headers({"IncludeHeaders": "true"})
    assert not wants_headers({})


def test_what_to_read() -> None:
    assigned = parse_source_options({**WHERE, "assign": '{"a": [2, 0], "b": []}'}, is_streaming=False)
    assert assigned.subscription == Assign({"a": (0, 2), "b": ()})
    matched = parse_source_options({**WHERE, "subscribePattern": "click.*"}, is_streaming=False)
    assert isinstance(matched.subscription, SubscribePattern)
    assert matched.subscription.pattern.pattern == "click.*"
    assert parse(subscribe=" a, b ,").subscription == Subscribe(("a", "b"))


def test_bounds_and_which_of_them_counts() -> None:
    offsets = parse(startingOffsets='{"clicks": {"0": 23, "1": -2}}')
    assert offsets.start == ByPartition({"clicks": {0: 23, 1: -2}}, are_timestamps=False)
    times = parse(startingOffsetsByTimestamp='{"clicks": {"0": 1000}}', startingOffsets="earliest")
    assert times.start == ByPartition({"clicks": {0: 1000}}, are_timestamps=True)
    assert parse(startingTimestamp="1000", startingOffsetsByTimestamp="{}").start == AtTimestamp(1000)
    assert parse(endingTimestamp="1000").end == AtTimestamp(1000)
    assert parse(is_streaming=True, startingOffsets=" Earliest ").start == EARLIEST


@pytest.mark.parametrize(("text", "delay_ms"), [("30s", 30_000), ("5m", 300_000), ("2 min", 120_000), ("700", 700)])
def test_a_delay(text: str, delay_ms: int) -> None:
    assert parse(maxTriggerDelay=text, is_streaming=True).max_trigger_delay_ms == delay_ms


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffset": "earliest"}, "startingOffset is not an option of this source"),
        ({"assign": '{"a": [0]}'}, "exactly one of assign, subscribe"),
        ({"subscribe": ""}, "subscribe is empty"),
        ({"subscribe": ","}, "subscribe names no topic"),
        ({"startingOffsets": "latest"}, "cannot begin at latest"),
        ({"startingOffsets": '{"clicks": {"0": -1}}'}, "cannot begin at latest"),
        ({"endingOffsets": "earliest"}, "cannot end at earliest"),
        ({"endingOffsets": '{"clicks": {"0": -2}}'}, "cannot end at earliest"),
        ({"startingOffsets": '{"clicks": {"0": -3}}'}, "is not like"),
        ({"startingOffsets": '{"clicks": 3}'}, "is not like"),
        ({"startingOffsets": "[]"}, "is not like"),
        ({"startingOffsets": "{"}, "is not JSON"),
        ({"startingOffsets": ""}, "is not JSON"),
        ({"startingTimestamp": "yesterday"}, "is not a number of milliseconds"),
        ({"failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"minPartitions": "0"}, "not a number from 1 on"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "neither error nor latest"),
        ({"maxOffsetsPerTrigger": "3"}, "maxOffsetsPerTrigger: a batch query has no triggers"),
        ({"minOffsetsPerTrigger": "3"}, "minOffsetsPerTrigger: a batch query has no triggers"),
        ({"maxTriggerDelay": "3s"}, "maxTriggerDelay: a batch query has no triggers"),
        ({"topic": "clicks"}, "topic is not an option of this source"),
    ],
)
def test_what_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse(**options)


@pytest.mark.parametrize(
    "name",
    ["kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix", "path"],
)
def test_an_official_option_that_is_lacking_is_refused_by_its_name(name: str) -> None:
    """Spark hands options on in lower case; people know them in their usual spelling."""
    with pytest.raises(ConfigError, match=f"^{name} means nothing to headrace: "):
        parse(**{name.lower(): "1"})


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: a streaming query has no end"):
        parse(is_streaming=True, **{name: "latest"})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "is more than"),
        ({"maxOffsetsPerTrigger": "many"}, "not a number from 1 on"),
        ({"maxTriggerDelay": "soon"}, "is not a time like"),
    ],
)
def test_what_a_stream_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse(is_streaming=True, **options)


def test_without_a_cluster_there_is_nothing_to_read() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers must be set"):
        parse_source_options({"subscribe": "clicks"}, is_streaming=False)


def test_the_sink() -> None:
    options = parse_sink_options({**WHERE, "topic": " out ", "checkpointLocation": "/there", "includeHeaders": "true"})
    assert options.topic == "out"
    assert parse_sink_options(WHERE).topic is None
    for name in ("subscribe", "startingOffsets", "failOnDataLoss"):
        with pytest.raises(ConfigError, match=f"{name} is not an option of this sink"):
            parse_sink_options({**WHERE, name: "true"})
    with pytest.raises(ConfigError, match="includeHeaders=some is neither true nor false"):
        parse_sink_options({**WHERE, "includeHeaders": "some"})
    with pytest.raises(ConfigError, match="the name is empty"):
        parse_sink_options({**WHERE, "topic": " "})
