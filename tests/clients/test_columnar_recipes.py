"""The recipes of docs/columnar.md, run as they are printed there, where the tests have what they need."""

import re
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from headrace import columnar
from headrace.testing import Broker

PAGE = Path(__file__).parents[2] / "docs" / "columnar.md"


def recipe(title: str) -> str:
    found = re.search(rf"\*\*{re.escape(title)}\*\*\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None, f"no recipe {title!r}"
    return found[1]


@pytest.mark.parametrize("title", ["A topic as a data frame, in two lines.", "With polars."])
def test_a_topic_as_a_data_frame(title: str) -> None:
    names: dict[str, Any] = {"columnar": columnar}
    with Broker() as broker:
        broker.create_topic("clicks", 1)
        broker.produce("clicks", "/start.html")
        exec(recipe(title).replace("localhost:9092", broker.bootstrap), names)
    assert list(names["frame"]["value"]) == [b"/start.html"]


def test_a_parquet_file_as_a_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pyarrow.parquet.write_table(pa.table({"customer": ["ada", "ben"], "body": ["3 figs", "1 pear"]}), "orders.parquet")
    with Broker() as broker:
        broker.create_topic("orders", 2)
        exec(recipe("A parquet file as a topic.").replace("localhost:9092", broker.bootstrap), {"columnar": columnar})
        written = {(record.key, record.value) for record in broker.records("orders")}
    assert written == {(b"ada", b"3 figs"), (b"ben", b"1 pear")}


def test_follow_a_topic_into_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stop = threading.Event()

    class Ending:
        """Ends what is otherwise without end, after its first batch."""

        @staticmethod
        def follow(*arguments: Any, **named: Any) -> Any:
            for batch in columnar.follow(*arguments, **named, stop=stop):
                yield batch
                stop.set()

    names: dict[str, Any] = {"columnar": Ending}
    with Broker() as broker:
        broker.create_topic("clicks", 1)
        broker.produce("clicks", "/start.html")
        exec(recipe("Follow a topic into DuckDB.").replace("localhost:9092", broker.bootstrap), names)
    try:
        assert names["db"].execute("select page from clicks").fetchall() == [("/start.html",)]
    finally:
        names["db"].close()
