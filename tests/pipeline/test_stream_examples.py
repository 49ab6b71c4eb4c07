"""The worked examples, on events whose results are known."""

import importlib.util
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from types import ModuleType

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.lab import weblog
from headrace.testing import Broker

_EXAMPLES = Path(__file__).parents[2] / "examples" / "spark_streams"
# A whole minute, long enough ago for all that happens after it, and not so long that retention takes it.
_START_MS = (int(time.time()) // 60 - 120) * 60_000


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, _EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_top_pages_of_each_minute(spark: SparkSession, tmp_path: Path) -> None:
    top_pages = example("top_pages")
    table = tmp_path / "pages"
    expected: Counter[tuple[int, str]] = Counter()
    with Broker() as broker:
        broker.create_topic("access", 2)
        for number, line in enumerate(islice(weblog.lines(7), 300)):
            minute = number // 100
            broker.produce("access", line, partition=number % 2, timestamp_ms=_START_MS + minute * 60_000 + number)
            expected[minute, line.split(b'"')[1].split()[1].decode()] += 1
        broker.produce("access", b"no request at all", timestamp_ms=_START_MS)
        top_pages.run(spark, broker.bootstrap, "access", str(table), every="once").awaitTermination()
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    counted = {
        ((row["window_start"].timestamp() * 1000 - _START_MS) // 60_000, row["page"]): row["count"] for row in rows
    }
    assert counted == dict(expected)
    first = top_pages.top(spark.createDataFrame(DeltaTable(table).to_pandas()), 1).collect()
    best = {minute: max(count for (of, _), count in expected.items() if of == minute) for minute in range(3)}
    assert [row["count"] for row in first] == [best[0], best[1], best[2]]


def test_click_through_rate(spark: SparkSession, tmp_path: Path) -> None:
    click_through = example("click_through")
    table = tmp_path / "clicks"

    def go_on(bootstrap: str) -> None:
        click_through.run(spark, bootstrap, "shown", "clicked", str(table), every="once").awaitTermination()

    with Broker() as broker:
        for topic in ("shown", "clicked"):
            broker.create_topic(topic, 1)
        for number in range(8):
            broker.produce(
                "shown", b"east" if number < 4 else b"west", key=f"{number}", timestamp_ms=_START_MS + number
            )
        # East: one in time, one twice, one too late. West: one in time.
        for number, minutes in ((0, 1), (1, 2), (1, 3), (2, 11), (4, 5)):
            broker.produce("clicked", b"", key=f"{number}", timestamp_ms=_START_MS + minutes * 60_000 + number)
        go_on(broker.bootstrap)
        # Time goes on, so that what was not clicked is known not to be.
        for topic in ("shown", "clicked"):
            broker.produce(topic, b"north", key="later", timestamp_ms=_START_MS + 60 * 60_000)
        go_on(broker.bootstrap)
        go_on(broker.bootstrap)
    outcomes = spark.createDataFrame(DeltaTable(table).to_pandas())
    rates = {
        row["campaign"]: (row["shown"], row["clicked"], row["rate"]) for row in click_through.rates(outcomes).collect()
    }
    rates.pop("north", None)
    assert rates == {"east": (4, 2, 0.5), "west": (4, 1, 0.25)}
