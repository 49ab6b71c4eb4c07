"""Data frames of every kind, written as they are: whatever has Arrow's C stream interface will do."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from headrace import columnar
from headrace.testing import Broker

COUNT = 5000
MOMENT = datetime(2026, 11, 15, 12, tzinfo=UTC)
USERS = [None if number % 7 == 0 else f"user-{number % 10}" for number in range(COUNT)]
BODIES = [None if number % 11 == 0 else b"\x00%d" % number for number in range(COUNT)]
COLUMNS = {"user": USERS, "body": BODIES, "timestamp": [MOMENT] * COUNT}


class OnlyAStream:
    """The interface, and nothing else that could help."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def from_duckdb() -> Any:
    table = pa.table(COLUMNS)
    return duckdb.from_arrow(table)


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, some rows of it": lambda: pd.DataFrame({name: [None, *rows] for name, rows in COLUMNS.items()})[1:],
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars, in pieces": lambda: pl.concat([pl.DataFrame(COLUMNS)[:100], pl.DataFrame(COLUMNS)[100:]], rechunk=False),
    "polars, categories": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("user").cast(pl.Categorical)),
    "duckdb": from_duckdb,
    "a stream": lambda: OnlyAStream(pa.table(COLUMNS)),
    "several frames": lambda: iter([pl.DataFrame(COLUMNS)[:100], pd.DataFrame(COLUMNS)[100:]]),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_written_as_it_is(broker: Broker, kind: str) -> None:
    broker.clear()
    broker.create_topic("orders", 1)
    written = columnar.write(broker.bootstrap, "orders", FRAMES[kind](), key="user", value="body", batch_bytes=20_000)
    assert written.records == COUNT
    rows = columnar.read(broker.bootstrap, "orders").read_all()
    assert rows["key"].to_pylist() == [None if user is None else user.encode() for user in USERS]
    assert rows["value"].to_pylist() == BODIES
    assert set(rows["timestamp"].to_pylist()) == {MOMENT}


@pytest.mark.parametrize("kind", ["pandas", "polars", "duckdb"])
def test_what_was_read_into_a_frame_can_be_written_as_it_is(broker: Broker, kind: str) -> None:
    broker.clear()
    for topic in ("orders", "copies"):
        broker.create_topic(topic, 1)
    columnar.write(broker.bootstrap, "orders", FRAMES["a stream"](), key="user", value="body")
    reader = columnar.read(broker.bootstrap, "orders", columns=["timestamp", "key", "value"])
    if kind == "duckdb":
        frame: Any = duckdb.from_arrow(reader)
    else:
        frame = reader.read_pandas() if kind == "pandas" else pl.from_arrow(reader)
    assert columnar.write(broker.bootstrap, "copies", frame).records == COUNT
    columns = ["offset", "timestamp", "key", "value"]
    one, other = (columnar.read(broker.bootstrap, topic, columns=columns).read_all() for topic in ("orders", "copies"))
    assert one.equals(other)
