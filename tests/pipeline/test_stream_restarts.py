"""Every function of the library as a stream, restarted from its checkpoint: what it has counted is exact.

All streams run twice. What comes in the second time falls into the windows, the sessions and the bounds
of what came in the first time. Between the two Spark forgets that the last batch of each was done, as after a crash
between the table's commit and its own note, so that each begins with a repeat. A last event, of much later, completes
everything.
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import ConfigError
from headrace.pipeline import landing, streams
from headrace.testing import Broker

# A whole minute, and not so long ago that retention takes it.
START_MS: Final = (int(time.time()) // 60 - 300) * 60_000
END_MS: Final = START_MS + 4 * 3_600_000
MINUTE_MS: Final = 60_000
GAP_MS: Final = 45_000
WITHIN_MS: Final = 90_000
LATE: Final = "10 minutes"  # Nothing is late: the two halves overlap by less.
LAST: Final = "last"
TITLES: Final = {"a": "Home", "b": "News"}
PAGES: Final = "abcd"


class Event(NamedTuple):
    page: str
    size: int
    time_ms: int


def made(seed: int, *, from_ms: int, count: int = 60) -> list[Event]:
    chance = random.Random(seed)
    times = (from_ms + chance.randrange(6 * MINUTE_MS) for _ in range(count))
    return [Event(chance.choice(PAGES), chance.randrange(1_000), time_ms) for time_ms in times]


SHOWN: Final = (made(1, from_ms=START_MS), made(2, from_ms=START_MS + 4 * MINUTE_MS))
CLICKED: Final = (made(3, from_ms=START_MS, count=9), made(4, from_ms=START_MS + 4 * MINUTE_MS, count=9))
# What was sent again has the same number in its stamp. One record has none.
STAMPS: Final[tuple[Sequence[int | None], ...]] = ((*range(30), 3, None), (*range(20, 50), 49))
EVERY: Final = [event for half in SHOWN for event in half]
CLICKS: Final = [event for half in CLICKED for event in half]


# --- What is to come out ------------------------------------------------------------------------------------------


def totals(windows: Iterator[tuple[int, int, str, int]]) -> dict[tuple[int, int, str], tuple[int, int]]:
    """Counts and sums by start, end and page."""
    found: dict[tuple[int, int, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for start_ms, end_ms, page, size in windows:
        count, total = found[start_ms, end_ms, page]
        found[start_ms, end_ms, page] = (count + 1, total + size)
    return dict(found)


def expected_windows(width_ms: int) -> dict[Any, Any]:
    """One of them begins every minute."""

    def windows() -> Iterator[tuple[int, int, str, int]]:
        for page, size, time_ms in EVERY:
            for back in range(width_ms // MINUTE_MS):
                start_ms = (time_ms // MINUTE_MS - back) * MINUTE_MS
                yield start_ms, start_ms + width_ms, page, size

    return totals(windows())


def expected_sessions(events: Sequence[Event]) -> dict[Any, Any]:
    def windows() -> Iterator[tuple[int, int, str, int]]:
        for page in sorted({event.page for event in events}):
            session: list[Event] = []
            for event in [*sorted((e for e in events if e.page == page), key=lambda e: e.time_ms), None]:
                if session and (event is None or event.time_ms - session[-1].time_ms > GAP_MS):
                    edges = (session[0].time_ms, session[-1].time_ms + GAP_MS)
                    yield from ((*edges, page, each.size) for each in session)
                    session = []
                if event is not None:
                    session.append(event)

    return totals(windows())


def expected_pairs() -> Counter[Any]:
    pairs: Counter[Any] = Counter()
    for first in EVERY:
        followers = [
            then for then in CLICKS if then.page == first.page and 0 <= then.time_ms - first.time_ms <= WITHIN_MS
        ]
        pairs.update((first, then.time_ms) for then in followers)
        pairs.update([] if followers else [(first, None)])
    return pairs


# --- What comes out -----------------------------------------------------------------------------------------------


class Sources:
    def __init__(self, spark: SparkSession, broker: Broker) -> None:
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": broker.bootstrap, "startingOffsets": "earliest"}

    def records(self, topic: str) -> DataFrame:
        options = {**self._options, "subscribe": topic, "includeHeaders": "true"}
        return self._spark.readStream.format("headrace").options(**options).load()

    def events(self, topic: str = "shown") -> DataFrame:
        page, size = sf.col("key").cast("string").alias("page"), sf.col("value").cast("string").cast("long")
        return self.records(topic).select(page, size.alias("size"), "timestamp")

    def titles(self) -> DataFrame:
        return self._spark.createDataFrame(list(TITLES.items()), "page string, title string")


class Case(NamedTuple):
    make: Callable[[Sources], DataFrame]
    keys: tuple[str, ...] = ()


def counted(window: streams.Window, *by: str) -> Callable[[Sources], DataFrame]:
    return lambda sources: streams.counted(sources.events(), window, by=by, sums=["size"], late=LATE)


def pairs_of(sources: Sources) -> DataFrame:
    shown, clicked = sources.events(), sources.events("clicked")
    within = f"{WITHIN_MS // 1000} seconds"
    return streams.followed_by(shown, clicked, on="page", within=within, late=LATE, keep_unmatched=True)


CASES: Final = {
    "tumbling": Case(counted(streams.Tumbling("1 minute"), "page")),
    "hopping": Case(counted(streams.Hopping("3 minutes", "1 minute"), "page"), keys=("window_start", "page")),
    # Which Spark has in append mode alone, as it has the pairs.
    "sessions": Case(counted(streams.Session("45 seconds"), "page"), keys=("window_start", "page")),
    "sessions of all": Case(counted(streams.Session("45 seconds"))),
    "pairs": Case(pairs_of, keys=("page", "timestamp", "size", "then_timestamp")),
    "titled": Case(lambda sources: streams.with_table(sources.events(), sources.titles(), on="page")),
    "first": Case(lambda sources: streams.without_repeats(sources.events(), by="page", late=LATE)),
    "once": Case(
        lambda sources: streams.without_resends(sources.records("sent"), stamp="number", late=LATE).select(
            sf.col("value").cast("string").alias("value")
        )
    ),
}


def produce(broker: Broker, half: int) -> None:
    for topic, halves in (("shown", SHOWN), ("clicked", CLICKED)):
        for number, event in enumerate(halves[half]):
            value = str(event.size).encode()
            broker.produce(topic, value, key=event.page, partition=number % 2, timestamp_ms=event.time_ms)
        if half:
            broker.produce(topic, b"0", key=LAST, timestamp_ms=END_MS)
    for number, stamp in enumerate(STAMPS[half]):
        headers = [] if stamp is None else [("number", b"of another"), ("number", str(stamp).encode())]
        time_ms = START_MS + half * 1_000 + number
        broker.produce("sent", str(stamp).encode(), headers=headers, partition=number % 2, timestamp_ms=time_ms)


def forget_the_last_batch(state: Path) -> None:
    last = max(int(done.name) for done in state.glob("commits/[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (state / "commits" / name).unlink()


def start(name: str, sources: Sources, place: Path) -> StreamingQuery:
    results, state = CASES[name].make(sources), place / f"{name}.state"
    return landing.to_table(results, place / name, name=name, checkpoint=state, keys=CASES[name].keys, every="once")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The rows of each case's table, once all has run."""
    place = tmp_path_factory.mktemp("streams")
    with Broker() as broker:
        for topic in ("shown", "clicked", "sent"):
            broker.create_topic(topic, 2)
        sources = Sources(spark, broker)
        for half in range(2):
            produce(broker, half)
            names = list(CASES)
            # Two at a time: each begins Python processes, and Spark gives those ten seconds on however busy a machine.
            for first in range(0, len(names), 2):
                queries = [start(name, sources, place) for name in names[first : first + 2]]
                for query in queries:
                    assert query.awaitTermination(120)
            for name in () if half else CASES:
                forget_the_last_batch(place / f"{name}.state")
    return {name: DeltaTable(place / name).to_pyarrow_table().to_pylist() for name in CASES}


def ms(moment: datetime) -> int:
    return round(moment.astimezone(UTC).timestamp() * 1000)


def windows_in(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    found = {
        (ms(row["window_start"]), ms(row["window_end"]), row.get("page")): (row["count"], row["sum_size"])
        for row in rows
        if row.get("page") != LAST
    }
    assert len(found) == sum(row.get("page") != LAST for row in rows), "a window is there twice"
    return found


def test_tumbling_windows(tables: dict[str, list[dict[str, Any]]]) -> None:
    assert windows_in(tables["tumbling"]) == expected_windows(MINUTE_MS)


def test_hopping_windows(tables: dict[str, list[dict[str, Any]]]) -> None:
    """With the last event, too: they come at once."""
    assert windows_in(tables["hopping"]) == expected_windows(3 * MINUTE_MS)
    assert sum(row["page"] == LAST for row in tables["hopping"]) == 3


def test_sessions(tables: dict[str, list[dict[str, Any]]]) -> None:
    expected = expected_sessions(EVERY)
    assert max(count for count, _ in expected.values()) > 3
    assert len(expected) > len(PAGES)
    assert windows_in(tables["sessions"]) == expected


def test_sessions_of_all_events_together(tables: dict[str, list[dict[str, Any]]]) -> None:
    assert "_all" not in tables["sessions of all"][0]
    alike = [event._replace(page="") for event in EVERY]
    expected = {(start, end, None): total for (start, end, _), total in expected_sessions(alike).items()}
    assert windows_in(tables["sessions of all"]) == expected


def test_pairs_within_a_bound_and_events_without_one(tables: dict[str, list[dict[str, Any]]]) -> None:
    found = Counter(
        (
            Event(row["page"], row["size"], ms(row["timestamp"])),
            row["then_timestamp"] and ms(row["then_timestamp"]),
        )
        for row in tables["pairs"]
        if row["page"] != LAST
    )
    assert {None} < {then for _, then in found}
    assert found == expected_pairs()


def test_events_with_what_a_table_knows(tables: dict[str, list[dict[str, Any]]]) -> None:
    found = Counter((row["page"], row["size"], ms(row["timestamp"]), row["title"]) for row in tables["titled"])
    assert found == Counter((*event, TITLES.get(event.page)) for event in [*EVERY, Event(LAST, 0, END_MS)])


def test_the_first_of_each_key(tables: dict[str, list[dict[str, Any]]]) -> None:
    assert sorted(row["page"] for row in tables["first"]) == sorted([*PAGES, LAST])


def test_records_by_the_stamp_of_their_sender(tables: dict[str, list[dict[str, Any]]]) -> None:
    assert Counter(row["value"] for row in tables["once"]) == Counter([*map(str, range(50)), "None"])


def test_what_spark_has_in_no_mode_is_refused_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    ever = spark.readStream.format("rate").load().groupBy("value").count()
    with pytest.raises(ConfigError, match=r"without watermark.*\(with keys, rows may be put right later\)"):
        landing.to_table(ever, tmp_path / "table", name="ever", checkpoint=tmp_path / "state")
    texts = ever.selectExpr("CAST(value AS string) AS value")
    with pytest.raises(ConfigError, match=r"without watermark.*\(try mode='update'\)"):
        landing.to_topic(texts, "t", bootstrap="127.0.0.1:1", name="ever", checkpoint=tmp_path / "state")
