"""From a table and its ledger to delays, without a load; and a sender's plan."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from bench import delay
from bench.delay import RATE_PER_S, ROWS, delay_values, delays_between, told_sent
from bench.delay_sender import due_ms
from bench.metrics import METRICS
from headrace.lab.errors import LabError
from headrace.pipeline.columns import LEDGER

BEGIN_MS = 1_763_208_000_000


def make_lake(path: Path, offsets: list[int]) -> None:
    """One event a second, at offsets of one partition."""
    times = pa.array([(BEGIN_MS + 1000 * offset) * 1000 for offset in offsets], pa.timestamp("us", "UTC"))
    columns = {"topic_id": ["t"] * len(offsets), "partition": pa.array([0] * len(offsets), pa.int32())}
    write_deltalake(path, pa.table({**columns, "offset": pa.array(offsets, pa.int64()), "timestamp": times}))


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits: offsets 0 to 3 at the fifth second, 4 to 5 at the seventh."""
    rows = [
        {"kind": "load", "topic_id": "t", "partition": 0, "first": first, "end": end, "rows": end - first}
        | {"committed_at": datetime.fromtimestamp(BEGIN_MS / 1000 + at_s, UTC)}
        for first, end, at_s in ((0, 4, 5), (4, 6, 7))
    ]
    monkeypatch.setattr(delay, "read_ledger", lambda lake: pa.Table.from_pylist(rows, LEDGER))


@pytest.mark.usefixtures("ledger")
def test_events_of_the_time_count_from_their_own_time_to_their_commit(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake", list(range(6)))
    found = delays_between(tmp_path / "lake", BEGIN_MS + 2000, BEGIN_MS + 5000, sent=6)
    assert sorted(found.tolist()) == [2000, 3000, 3000]


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize("offsets", [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 4, 5, 5]])
def test_a_table_that_is_not_what_was_sent_makes_no_figure(tmp_path: Path, offsets: list[int]) -> None:
    make_lake(tmp_path / "lake", offsets)
    with pytest.raises(LabError, match="6 events were sent"):
        delays_between(tmp_path / "lake", BEGIN_MS, BEGIN_MS + 6000, sent=6)


def test_figures_are_in_seconds() -> None:
    found = np.arange(1, RATE_PER_S + 1)  # Of one second: 1 ms to 10 s.
    values = delay_values(found, 0, 1000)
    assert values["rows_per_s"] == RATE_PER_S
    assert values["delay_s_mean"] == pytest.approx(5.0005)
    assert values["delay_s_p50"] == pytest.approx(5.0, abs=0.01)
    assert values["delay_s_p99"] == pytest.approx(9.9, abs=0.01)
    assert values["delay_s_max"] == 10.0
    assert set(values) <= set(METRICS)


def test_a_sender_that_fell_behind_makes_no_figure() -> None:
    with pytest.raises(LabError, match="9000 events"):
        delay_values(np.ones(9_000, np.int64), 0, 1000)


def test_a_sender_tells_with_its_last_word(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('something\n{"sent": 7}\n')
    assert told_sent(log) == 7
    log.write_text("Traceback\n")
    with pytest.raises(LabError, match="without telling"):
        told_sent(log)


def test_events_are_due_at_their_rate() -> None:
    assert [due_ms(1000, number, 5_000) for number in (0, 4, 5, 4_999, 5_000)] == [1000, 1000, 1001, 1999, 2000]


def test_rows_claim_what_is_promised() -> None:
    claimed = {(row.name, one.requirement.metric): one.requirement.bound for row in ROWS for one in row.claims}
    assert claimed == {("default", "delay_s_mean"): 10, ("default", "delay_s_p99"): 12, ("1s", "delay_s_p99"): 3}
