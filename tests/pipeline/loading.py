"""Loads as tests make them, and what a table has to be equal to after them."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from headrace import columnar
from headrace.pipeline.decoding import Decoder, RawDecoder
from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.load import Load, Loaded, LoadRequest
from headrace.pipeline.location import parse_location
from headrace.pipeline.tasks import RunTasks, Task, TaskOutcome, run_task
from headrace.testing import Broker
from headrace.wire.settings import client_settings


def run_here(tasks: Sequence[Task], tell: Callable[[int], None]) -> list[TaskOutcome]:
    """Tasks one after the other in this process: what a load does about them is the same as on Spark."""
    outcomes = []
    for task in tasks:
        outcomes.append(run_task(task))
        tell(len(outcomes))
    return outcomes


def request(
    bootstrap: str, lake: Path, *topics: str, decoder: Decoder | None = None, kind: str = "raw", **more: Any
) -> LoadRequest:
    return LoadRequest(
        topics=topics or ("clicks",),
        lake=parse_location(lake),
        settings=client_settings(bootstrap),
        kind=kind,
        decoder=decoder or RawDecoder(),
        **more,
    )


def load(broker: Broker, lake: Path, *topics: str, run: RunTasks = run_here, **more: Any) -> Loaded:
    with Load(request(broker.bootstrap, lake, *topics, **more), run=run) as work:
        return work.once()


Records = Counter[tuple[Any, ...]]

_COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value"]


def rows_of(lake: Path) -> Records:
    """What is in the table, each row with how often it is there."""
    return _counted(DeltaTable(lake).to_pyarrow_table(columns=_COLUMNS))


def records_of(broker: Broker, *topics: str) -> Records:
    """What is in the topics, likewise."""
    return _counted(columnar.read(broker.bootstrap, topics or ("clicks",), columns=_COLUMNS).read_all())


def _counted(table: pa.Table) -> Records:
    """With times as milliseconds: not every time that a record may have is one to Python."""
    times = pc.cast(table["timestamp"], pa.int64())
    if table.schema.field("timestamp").type.unit == "us":
        times = pc.divide(times, 1000)
    rows = table.set_column(_COLUMNS.index("timestamp"), "timestamp", times).to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def check_ledger(lake: Path) -> None:
    """That the ranges of every partition follow each other without gap or overlap, and rows are as many as told."""
    assert rows_told(lake) == sum(rows_of(lake).values())


def rows_told(lake: Path) -> int:
    """How many rows the ledger tells of, whose ranges have to follow each other without gap or overlap."""
    told = read_ledger(parse_location(lake)).sort_by([("version", "ascending"), ("first", "ascending")]).to_pylist()
    told = [entry for entry in told if entry["kind"] != "replay"]  # Which brought what was there before.
    ends: dict[tuple[str, str, int], int] = {}
    for entry in told:
        place = (entry["topic"], entry["topic_id"], entry["partition"])
        assert entry["first"] == ends.get(place, entry["first"]), entry
        ends[place] = entry["end"]
    return sum(entry["rows"] for entry in told)


STRANGE_MS = 2**62  # A time that no table can hold.


def create_clicks(broker: Broker, topic: str = "clicks", partitions: int = 1) -> None:
    """A topic that takes records of any time, and keeps them."""
    broker.create_topic(topic, partitions, message_timestamp_after_max_ms=2**63 - 1, retention_ms=-1)


def write_clicks(
    broker: Broker,
    count: int,
    *,
    topic: str = "clicks",
    partitions: int = 3,
    spread_s: int = 7200,
    strange_every: int | None = None,
) -> None:
    """Records over some hours, keys and empty values among them; one of so many has a time that no table can hold."""
    if topic not in broker.topics():
        create_clicks(broker, topic, partitions)
    begin_ms = 1_763_208_000_000
    before = sum(broker.log(topic, number).end_offset for number in range(broker.topics()[topic]))
    numbers = range(before, before + count)
    times_ms = [begin_ms + 1000 * (number * 7919 % spread_s) for number in numbers]
    if strange_every is not None:
        times_ms[::strange_every] = [STRANGE_MS] * len(times_ms[::strange_every])
    rows = pa.table(
        {
            "key": pa.array([None if number % 5 == 0 else b"k%d" % (number % 97) for number in numbers], pa.binary()),
            "value": pa.array([b"" if number % 11 == 0 else b"value %d" % number for number in numbers], pa.binary()),
            "timestamp": pa.array(times_ms, pa.timestamp("ms", "UTC")),
        }
    )
    columnar.write(broker.bootstrap, topic, rows)
