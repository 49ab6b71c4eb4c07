"""Streaming queries of a real Spark over a real broker."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from headrace.pipeline.behind import Behind, offsets_behind
from headrace.testing import Broker
from tests.pipeline.topics import cut, delete, fill, grow

DEADLINE_S = 60.0


@pytest.fixture
def batches(spark: SparkSession, headrace_broker: Broker, tmp_path: Path) -> Iterator["Batches"]:
    found = Batches(spark, headrace_broker, tmp_path / "checkpoint")
    yield found
    found.stop()


class Batches:
    """A streaming query that writes down what it was given, batch by batch; started again, it goes on."""

    def __init__(self, spark: SparkSession, broker: Broker, checkpoint: Path) -> None:
        self._spark = spark
        self._broker = broker
        self._checkpoint = checkpoint
        self._queries: list[StreamingQuery] = []
        self.seen: dict[int, list[tuple[str, int, int]]] = {}

    def start(self, *, now: bool = False, **options: Any) -> StreamingQuery:
        frame = self._spark.readStream.format("headrace").option("kafka.bootstrap.servers", self._broker.bootstrap)
        writer = frame.options(**options).load().writeStream.foreachBatch(self._write_down)
        trigger = {"availableNow": True} if now else {"processingTime": "100 milliseconds"}
        query = writer.option("checkpointLocation", str(self._checkpoint)).trigger(**trigger).start()
        self._queries.append(query)
        return query

    def run(self, **options: Any) -> StreamingQuery:
        """All that is available now."""
        query = self.start(now=True, **options)
        assert query.awaitTermination(int(DEADLINE_S))
        return query

    def rows(self) -> list[tuple[str, int, int]]:
        return [row for number in sorted(self.seen) for row in self.seen[number]]

    def wait(self, count: int) -> list[tuple[str, int, int]]:
        """Until so many rows were seen."""
        return wait_until(lambda: found if len(found := self.rows()) >= count else None)

    def forget_last_commit(self) -> None:
        """As if Spark had not come to note that its last batch was done."""
        last = max((self._checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        self.seen.clear()

    def stop(self) -> None:
        for query in self._queries:
            query.stop()

    def _write_down(self, frame: DataFrame, number: int) -> None:
        rows = frame.orderBy("topic", "partition", "offset").collect()
        self.seen[number] = [(row.topic, row.partition, row.offset) for row in rows]


def wait_until(look: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + DEADLINE_S
    while (found := look()) is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("fails", [True, False])
def test_a_batch_that_is_repeated_on_a_shorter_log(
    batches: Batches, headrace_broker: Broker, headrace_topic: str, fails: bool
) -> None:
    """As after a crash before Spark's own note of the batch, and a topic that was made anew meanwhile."""
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    options = {"subscribe": headrace_topic, "startingOffsets": "earliest", "failOnDataLoss": str(fails).lower()}
    batches.run(**options)
    batches.forget_last_commit()
    delete(headrace_broker.bootstrap, headrace_topic)
    headrace_broker.create_topic(headrace_topic)
    fill(headrace_broker.bootstrap, headrace_topic, range(6))
    if fails:
        with pytest.raises(StreamingQueryException, match="ends at offset 6, before the end that was asked for, 10"):
            batches.run(**options)
        return
    batches.run(**options)
    assert batches.seen[0] == batches.rows() == [(headrace_topic, 0, offset) for offset in range(6)]


def test_what_is_available_now_by_and_by(batches: Batches, headrace_broker: Broker, headrace_topic: str) -> None:
    """In pieces of at most so many offsets, then no more; and started again, what came since."""
    fill(headrace_broker.bootstrap, headrace_topic, range(10))
    options = {"subscribe": headrace_topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 4}
    query = batches.run(**options)
    assert [len(batches.seen[number]) for number in sorted(batches.seen)] == [4, 4, 2]
    behind = [offsets_behind(each.sources[0].endOffset, each.sources[0].latestOffset) for each in query.recentProgress]
    assert behind[:3] == [Behind(6, 6, 6.0), Behind(2, 2, 2.0), Behind(0, 0, 0.0)]
    fill(headrace_broker.bootstrap, headrace_topic, range(3))
    batches.run(**options)
    assert batches.rows() == [(headrace_topic, 0, offset) for offset in range(13)]


def test_a_minimum_does_not_keep_what_is_available_now(
    batches: Batches, headrace_broker: Broker, headrace_topic: str
) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(5))
    options = {"subscribe": headrace_topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": 1000}
    batches.run(**options)
    fill(headrace_broker.bootstrap, headrace_topic, range(5))
    batches.run(**options)
    assert batches.rows() == [(headrace_topic, 0, offset) for offset in range(10)]


def test_from_the_latest_on_with_a_minimum(batches: Batches, headrace_broker: Broker, headrace_topic: str) -> None:
    """The first rows are taken at once, the next ones wait for company."""
    fill(headrace_broker.bootstrap, headrace_topic, range(5))
    query = batches.start(subscribe=headrace_topic, minOffsetsPerTrigger=10, maxTriggerDelay="1h")
    wait_until(lambda: query.lastProgress)  # Where the query begins is written down.
    for count in (2, 4, 6):
        fill(headrace_broker.bootstrap, headrace_topic, range(count))
        if count == 2:
            batches.wait(2)
    assert batches.wait(12) == [(headrace_topic, 0, offset) for offset in range(5, 17)]
    assert [len(rows) for rows in batches.seen.values() if rows] == [2, 10]


def test_topics_and_partitions_that_come_later(batches: Batches, headrace_broker: Broker, headrace_topic: str) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(3))
    query = batches.start(subscribePattern=f"^{headrace_topic}.*", startingOffsets="earliest")
    batches.wait(3)
    grow(headrace_broker.bootstrap, headrace_topic, 2)
    headrace_broker.create_topic(f"{headrace_topic}-too")
    fill(headrace_broker.bootstrap, headrace_topic, range(2), partition=1)
    fill(headrace_broker.bootstrap, f"{headrace_topic}-too", range(4))
    assert sorted(batches.wait(9)) == [
        *((headrace_topic, 0, offset) for offset in range(3)),
        *((headrace_topic, 1, offset) for offset in range(2)),
        *((f"{headrace_topic}-too", 0, offset) for offset in range(4)),
    ]
    assert query.isActive


def test_what_expired_unread_ends_the_query_or_is_passed_over(
    batches: Batches, headrace_broker: Broker, headrace_topic: str
) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(5))
    options = {"subscribe": headrace_topic, "startingOffsets": "earliest"}
    batches.run(**options)
    fill(headrace_broker.bootstrap, headrace_topic, range(5))
    cut(headrace_broker.bootstrap, headrace_topic, 7)
    with pytest.raises(StreamingQueryException, match="begins at offset 7: 5 and what follows is gone"):
        batches.run(**options)
    batches.run(failOnDataLoss="false", **options)
    assert batches.rows() == [(headrace_topic, 0, offset) for offset in (*range(5), *range(7, 10))]


def test_an_option_that_a_stream_does_not_have(batches: Batches, headrace_topic: str) -> None:
    with pytest.raises(StreamingQueryException, match="endingOffsets: a streaming query has no end"):
        batches.run(subscribe=headrace_topic, endingOffsets="latest")
