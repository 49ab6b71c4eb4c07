"""Parquet files one after the other are one, once their footers are joined."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.cli.tables.footers import NoFooter, join_footers, move_footer, read_footer

TABLES = [
    pa.table({"n": [number, None], "text": ["a" * number, "ü"], "deep": [[{"x": 1.5}], []]}) for number in range(40)
]


def parquet(table: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "use_dictionary": False},
        {"write_page_index": True},
        {"row_group_size": 1, "version": "1.0"},
    ],
    ids=str,
)
def test_files_become_one(tmp_path: Path, options: dict[str, object]) -> None:
    out, ends = io.BytesIO(), []
    for table in TABLES:
        out.write(parquet(table, **options))
        ends.append(out.tell())
    footers = [read_footer(out, end=end) for end in ends]
    out.seek(0, io.SEEK_END)
    out.write(join_footers(footers, [0, *ends[:-1]]))
    path = tmp_path / "joined.parquet"
    path.write_bytes(out.getvalue())
    assert pq.read_table(path).equals(pa.concat_tables(TABLES))
    groups = pq.read_metadata(path).num_row_groups
    assert groups == len(TABLES) * (2 if "row_group_size" in options else 1)


def test_a_footer_that_is_not_moved_stays_as_it_is() -> None:
    file = io.BytesIO(parquet(TABLES[3]))
    footer = read_footer(file, end=len(file.getvalue()))
    assert move_footer(footer, 0) == footer
    assert move_footer(move_footer(footer, 10**10), -(10**10)) == footer


def test_bytes_that_are_no_footer_are_told() -> None:
    file = io.BytesIO(parquet(TABLES[3]))
    end = len(file.getvalue())
    with pytest.raises(NoFooter, match=f"byte {end - 1}"):
        read_footer(file, end=end - 1)
    footer = read_footer(file, end=end)
    for size in range(len(footer)):
        with pytest.raises(NoFooter):
            move_footer(footer[:size], 7)
