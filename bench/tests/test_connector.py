"""What the race of the connectors is made of, without Spark: rows, steps, and the look at what was written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.connector import (
    GROWTH_ROWS,
    OFFICIAL,
    OURS,
    PARTITIONS,
    blocks,
    check_written,
    lines,
    memory,
    pieces,
    scaled,
    web_log,
)
from bench.metrics import METRICS
from headrace.lab.errors import LabError
from headrace.lab.readings.process_tree import Peak


def test_rows_are_lines_of_200_bytes_of_which_most_differ() -> None:
    values = web_log(5_000)["value"].to_pylist()
    assert {len(value) for value in values} == {200}
    assert len(set(values)) > 4_000


def test_pieces_are_the_same_rows_again_up_to_the_number() -> None:
    made = pa.table({"value": [b"a", b"b", b"c"]})
    assert [piece["value"].to_pylist() for piece in pieces(made, 7)] == [[b"a", b"b", b"c"]] * 2 + [[b"a"]]


def test_the_connectors_take_turns_and_each_begins() -> None:
    ours, apache, growth = blocks(repeats=2, scale=1.0)
    order = [OURS, OFFICIAL, OFFICIAL, OURS]
    assert [step.connector for step in ours.steps] == order == [step.connector for step in apache.steps]
    assert [step.rows for step in growth.steps] == [*GROWTH_ROWS, *GROWTH_ROWS]
    assert growth.rows == max(GROWTH_ROWS)
    assert all(step.rows % PARTITIONS == 0 for block in (ours, apache, growth) for step in block.steps)


def test_a_small_run_has_as_many_rows_in_each_partition() -> None:
    assert scaled(10_000_000, 0.02) == 200_000
    assert scaled(1_000_000, 0.0000011) == PARTITIONS


def test_every_claim_is_about_a_line_that_is_there() -> None:
    found = lines(blocks(repeats=1, scale=1.0), scale=1.0)
    there = {(line.row, line.system) for line in found}
    claims = [claim for line in found for claim in line.claims]
    assert len(claims) == 6
    assert all(claim.rival in there and claim.requirement.metric in METRICS for claim in claims)


def test_memory_is_told_by_kind() -> None:
    peaks = [Peak(1, "python", 50_000_000), Peak(2, "java", 900_000_000), Peak(3, "python", 100_000_000)]
    assert memory(peaks) == {"memory_mb_peak": 1050.0, "jvm_mb_peak": 900.0, "workers_mb_peak": 100.0}


def write(directory: Path, offsets: list[tuple[int, int]]) -> None:
    """Two files of these partitions and offsets."""
    half = len(offsets) // 2
    for number, part in enumerate((offsets[:half], offsets[half:])):
        columns = {
            "partition": pa.array([partition for partition, _ in part], pa.int32()),
            "offset": pa.array([offset for _, offset in part], pa.int64()),
        }
        pq.write_table(pa.table(columns), directory / f"part-{number}.parquet")


WHOLE = [(partition, offset) for partition in range(PARTITIONS) for offset in range(5)]


def test_all_rows_once_is_well(tmp_path: Path) -> None:
    write(tmp_path, WHOLE)
    check_written(tmp_path, 5 * PARTITIONS)


@pytest.mark.parametrize(
    "offsets",
    [WHOLE[:-1], [*WHOLE, WHOLE[3]], [*WHOLE[:-1], WHOLE[3]], [*WHOLE[:-1], (0, 5)]],
    ids=["one missing", "one twice", "one in place of another", "one that nobody asked for"],
)
def test_a_row_missing_twice_or_strange_makes_no_figure(tmp_path: Path, offsets: list[tuple[int, int]]) -> None:
    write(tmp_path, offsets)
    with pytest.raises(LabError):
        check_written(tmp_path, 5 * PARTITIONS)
