"""What judges tables of windows finds one count that is wrong and one batch too many: each is planted here."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from tests.proofs import windows
from tests.proofs.numbered import BEGIN_MS, PAGES, Broken
from tests.proofs.windows import Counts, Look, WindowReader

BEGIN = datetime.fromtimestamp(BEGIN_MS / 1000, UTC)
WIDTH = timedelta(seconds=windows.WIDTH_S)
COUNTS = windows.count(np.arange(20_000))


def rows_of(counts: Counts, **other: Any) -> pa.Table:
    """As a stream writes them; of `other` columns every row has the same."""
    columns = {
        "window_start": [BEGIN + window * WIDTH for window, _ in counts],
        "window_end": [BEGIN + (window + 1) * WIDTH for window, _ in counts],
        "page": [f"page-{page:02d}" for _, page in counts],
        "count": list(counts.values()),
    }
    return pa.table(columns | {name: [value] * len(counts) for name, value in other.items()})


def land(table: Path, batch: int, counts: Counts) -> None:
    properties = CommitProperties(custom_metadata={"headrace.batch": str(batch)})
    write_deltalake(table, rows_of(counts), mode="append", commit_properties=properties)


def test_each_record_is_counted_in_its_window_under_its_page() -> None:
    assert windows.count(np.array([0, 1, PAGES, 3_333, 3_334])) == {(0, 0): 2, (0, 1): 1, (0, 13): 1, (1, 14): 1}
    assert sum(COUNTS.values()) == 20_000
    assert len(COUNTS) == 6 * PAGES
    assert windows.count(np.arange(0)) == {}


def test_the_last_record_closes_all_windows_before_it() -> None:
    sent = 20_000
    (last,) = windows.count(np.array([sent + windows.CLOSING_NUMBERS]))
    open_s = windows.LATE_S + (max(COUNTS)[0] + 1) * windows.WIDTH_S
    assert last[0] * windows.WIDTH_S >= open_s


def test_a_topic_is_counted_whole_or_up_to_offsets() -> None:
    topic = {0: np.arange(100), 1: np.arange(100, 200)}
    assert windows.count_topic(topic) == windows.count(np.arange(200))
    assert windows.count_topic(topic, {0: 10, 1: 0}) == windows.count(np.arange(10))
    assert windows.count_topic(topic, {0: 100}) == windows.count(np.arange(100))
    assert windows.count_topic({}) == {}
    with pytest.raises(Broken, match="offset 100 of partition 1 was counted, and is not in the topic"):
        windows.count_topic(topic, {0: 10, 1: 101})


def test_rows_are_windows_of_pages() -> None:
    assert windows.counts_in(rows_of(COUNTS)) == COUNTS
    assert windows.counts_in(rows_of({})) == {}
    with pytest.raises(Broken, match="window 0 of page-00 is in the table twice"):
        windows.counts_in(pa.concat_tables([rows_of(COUNTS), rows_of({(0, 0): COUNTS[0, 0]})]))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("window_start", BEGIN + timedelta(seconds=1)),
        ("window_end", BEGIN + 2 * WIDTH),
        ("page", "page-99"),
        ("page", None),
    ],
)
def test_a_row_that_is_no_window_of_a_page(column: str, value: object) -> None:
    with pytest.raises(Broken, match="is no window of a page"):
        windows.counts_in(rows_of({(0, 0): 1}, **{column: value}))


PLANTED: dict[str, Counts] = {
    "one more": COUNTS | {(2, 7): COUNTS[2, 7] + 1},
    "one less": COUNTS | {(2, 7): COUNTS[2, 7] - 1},
    "a window of nothing": COUNTS | {(2, 7): 0},
    "a page without its window": {place: many for place, many in COUNTS.items() if place != (2, 7)},
}


@pytest.mark.parametrize("table", PLANTED.values(), ids=PLANTED)
def test_a_count_that_is_wrong(table: Counts) -> None:
    for check in (windows.check_running, windows.check_closed):
        check(COUNTS, COUNTS)
        with pytest.raises(Broken, match=rf"window 2 of page-07 has {COUNTS[2, 7]} records, and the table"):
            check(table, COUNTS)


def test_running_windows_are_all_there_and_closed_ones_up_to_some_moment() -> None:
    some = {place: many for place, many in COUNTS.items() if place[0] < 3}
    windows.check_closed(some, COUNTS)
    windows.check_closed({}, COUNTS)
    with pytest.raises(Broken, match=r"window 3 of page-00 has .* records, and the table None"):
        windows.check_running(some, COUNTS)
    for wrong in ({place: many for place, many in COUNTS.items() if place[0] != 3}, COUNTS | {(9, 1): 5}):
        with pytest.raises(Broken, match=r"window [39] of page-0[01] has"):
            windows.check_closed(wrong, COUNTS)


def test_batches_follow_each_other_in_a_table(tmp_path: Path) -> None:
    table = tmp_path / "table"
    reader = WindowReader(table)
    assert reader.look() == Look(-1, {})
    write_deltalake(table, rows_of({(0, 0): 1}).slice(0, 0))  # Made, and nothing landed.
    assert reader.look() == Look(-1, {})
    land(table, 0, {(0, 0): 5})
    land(table, 1, {(0, 1): 6})
    assert reader.look() == Look(1, {(0, 0): 5, (0, 1): 6})
    land(table, 1, {(0, 2): 7})
    with pytest.raises(Broken, match=r"batches do not follow each other: \[0, 1, 1\]"):
        reader.look()


@pytest.mark.parametrize("numbers", [[1], [0, 2], [1, 0], [0, 1, 1]])
def test_a_batch_too_many_or_too_few(numbers: list[int]) -> None:
    with pytest.raises(Broken, match="batches do not follow each other"):
        windows.check_batches(numbers)


def test_a_batch_that_was_seen_has_to_stay(tmp_path: Path) -> None:
    reader = WindowReader(tmp_path / "table")
    land(tmp_path / "table", 0, {(0, 0): 5})
    land(tmp_path / "table", 1, {(0, 1): 6})
    reader.look()
    (tmp_path / "table" / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(Broken, match="batch 1 is gone from table"):
        reader.look()


def test_what_spark_wrote_down(tmp_path: Path) -> None:
    assert windows.last_done(tmp_path) == -1
    for directory in ("offsets", "commits"):
        (tmp_path / directory).mkdir()
    for batch in (8, 9, 10):
        (tmp_path / "commits" / str(batch)).touch()
        (tmp_path / "commits" / f".{batch + 1}.tmp").touch()
    assert windows.last_done(tmp_path) == 10
    told = {"numbers": {"0": 7, "1": 12}}
    (tmp_path / "offsets" / "11").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(told)}')
    assert windows.ends_of(tmp_path, -1) == {}
    assert windows.ends_of(tmp_path, 11) == {0: 7, 1: 12}
