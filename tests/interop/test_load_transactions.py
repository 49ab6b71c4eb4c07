"""`headrace load` from Apache Kafka, of topics with transactions and compaction: what a read_committed consumer sees.

The end of a load is the last stable offset, and the next one begins there, whatever rows there were before it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.ids import TopicName
from headrace.pipeline.columns import RAW
from headrace.pipeline.lake_table import LakeTable
from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.location import parse_location
from headrace.pipeline.origins import LOADER, Origin
from headrace.protocol.batch import whole_batches
from tests.clients.columnar_rows import Row, rows_of
from tests.interop.java_rows import java_rows
from tests.interop.test_clients import usable
from tests.interop.test_columnar_transactions import (
    COMPACTED,
    JVM_OPTIONS,
    PROPERTIES,
    Writing,
    batches_kept,
    create,
    keys_of,
    wait_until_cleaned,
)
from tests.oracle.kafka import ApacheKafka, java_command
from tests.oracle.toolbox import ToolMissing, without_tool


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    try:
        java_command()
    except ToolMissing as missing:
        without_tool(missing)
    usable("java")
    directory: Path = tmp_path_factory.mktemp("load-transactions")
    with ApacheKafka(directory, properties=PROPERTIES, jvm_options=JVM_OPTIONS) as started:
        yield started


class Loading:
    """One topic into one table, by the command, with a Spark of its own each time."""

    def __init__(self, broker: ApacheKafka, topic: str, lake: Path) -> None:
        self._broker = broker
        self._topic = topic
        self._lake = lake

    def once(self) -> dict[str, Any]:
        words = ("load", self._topic, "--bootstrap", self._broker.bootstrap, "--lake", str(self._lake))
        ran = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", *words, "--once", "--json", "--master", "local[1,3]"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    def rows(self) -> list[Row]:
        table = DeltaTable(self._lake).to_pyarrow_table().sort_by([("partition", "ascending"), ("offset", "ascending")])
        index = table.schema.get_field_index("timestamp")
        return rows_of(table.set_column(index, "timestamp", table["timestamp"].cast(pa.timestamp("ms", "UTC"))))

    def ranges(self) -> list[tuple[int, int, int]]:
        """First, end and rows of each commit, and that what the table holds ends where the last of them does."""
        entries = read_ledger(parse_location(self._lake)).to_pylist()
        last = entries[-1]
        table = LakeTable.open(parse_location(self._lake), loader=LOADER, kind="raw", rows=RAW)
        assert table is not None
        held = table.held(Origin(last["cluster_id"], TopicName(self._topic), last["topic_id"]))
        assert {number: one.next_offset for number, one in held.partitions.items()} == {0: last["end"]}
        return [(entry["first"], entry["end"], entry["rows"]) for entry in entries]

    def check_rows(self, *keys: str) -> None:
        """These, and just what a Java consumer reads that sees only what was committed."""
        rows = self.rows()
        assert keys_of(rows) == list(keys)
        assert [rows] == java_rows(self._broker.bootstrap, self._topic)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_a_load_ends_at_the_last_stable_offset_and_the_next_brings_just_the_rest(
    broker: ApacheKafka, topic_name: str, lake: Path
) -> None:
    create(broker, topic_name, {})
    writing, loading = Writing(broker.bootstrap, topic_name, codec="lz4"), Loading(broker, topic_name, lake)
    writing.begin("a", "b")
    writing.send("a", ("a1", "."), ("a2", "."))
    writing.send("b", ("b1", "."))
    writing.send("", ("n1", "."))
    writing.commit("a")
    writing.abort("b")
    stable = writing.end
    writing.begin("open", "a")
    writing.send("open", ("o1", "."), ("o2", "."))
    writing.send("a", ("a3", "."))
    writing.commit("a")
    writing.send("", ("n2", "."))
    assert loading.once()["rows"] == 3
    loading.check_rows("a1", "a2", "n1")
    assert loading.ranges() == [(0, stable, 3)]
    assert loading.once()["commits"] == 0

    writing.commit("open")
    assert loading.once()["rows"] == 4
    loading.check_rows("a1", "a2", "n1", "o1", "o2", "a3", "n2")
    # The last offset is the marker's, of which there is no row.
    assert loading.ranges() == [(0, stable, 3), (stable, writing.end, 4)]
    assert loading.once()["commits"] == 0


def test_a_tail_of_which_nothing_is_seen_is_loaded_once(broker: ApacheKafka, topic_name: str, lake: Path) -> None:
    """An aborted transaction and its marker, after rows and alone; then rows again."""
    create(broker, topic_name, {})
    writing, loading = Writing(broker.bootstrap, topic_name), Loading(broker, topic_name, lake)
    writing.send("", ("n1", "."))
    ends = [0]
    for rows in (1, 0):
        writing.begin("a")
        writing.send("a", ("a1", "."), ("a2", "."))
        writing.abort("a")
        ends.append(writing.end)
        told = loading.once()
        assert (told["rows"], told["commits"]) == (rows, 1)
    loading.check_rows("n1")
    assert loading.once()["commits"] == 0
    writing.send("", ("n2", "."))
    assert loading.once()["rows"] == 1
    loading.check_rows("n1", "n2")
    assert loading.ranges() == [(0, ends[1], 1), (ends[1], ends[2], 0), (ends[2], writing.end, 1)]


def test_a_tail_that_was_compacted_away_is_no_hindrance(broker: ApacheKafka, topic_name: str, lake: Path) -> None:
    """Before the last stable offset there is nothing any more, not even an empty batch; behind it, what is open."""
    create(broker, topic_name, COMPACTED)
    writing, loading = Writing(broker.bootstrap, topic_name), Loading(broker, topic_name, lake)
    writing.send("", ("kept", "."))
    writing.begin("a")
    for number in range(3):
        writing.send("a", (f"aborted-{number}", "."))
    writing.abort("a")
    stable = writing.end
    writing.begin("open")
    writing.send("open", ("open", "."))
    wait_until_cleaned(broker, topic_name, stable)
    broker.stop()
    first_segment = broker.partition_dir(topic_name, 0) / f"{0:020}.log"
    os.truncate(first_segment, [position for position, _ in whole_batches(first_segment.read_bytes())][1])
    broker.start()
    assert batches_kept(broker, topic_name) == {0: 1, stable: 1}

    assert loading.once()["rows"] == 1
    assert keys_of(loading.rows()) == ["kept"]  # At such a gap a Java consumer gets no further.
    assert loading.ranges() == [(0, stable, 1)]
    assert loading.once()["commits"] == 0
    writing.commit("open")
    assert loading.once()["rows"] == 1
    loading.check_rows("kept", "open")
    assert loading.ranges() == [(0, stable, 1), (stable, writing.end, 1)]
