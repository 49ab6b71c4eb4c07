"""What judges tables of millions of rows finds one wrong row: each broken promise is planted here."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.testing import Broker
from tests.proofs import lake_rivals, numbered
from tests.proofs.numbered import Broken, Numbers, TableReader, TopicReader, check_same, check_sent, hold, made_of
from tests.proofs.orphans import remove_orphans

NUMBERS = np.arange(7, 1_007)
PARTITION, TIMESTAMP, KEY, VALUE = range(4)


def changed(rows: pa.Table, index: int, column: int, value: object) -> pa.Table:
    """One field of one row is another."""
    values = rows.column(column).to_pylist()
    values[index] = value
    return rows.set_column(column, rows.field(column), pa.array(values, rows.field(column).type))


def with_offsets(numbers: Numbers) -> pa.Table:
    """Rows as a table has them: each with the offset that follows in its partition."""
    rows = made_of(numbers)
    partitions = np.asarray(rows["partition"])
    offsets = np.empty(len(rows), np.int64)
    for partition in range(numbered.PARTITIONS):
        mine = partitions == partition
        offsets[mine] = np.arange(mine.sum())
    return rows.append_column("offset", pa.array(offsets)).cast(
        pa.schema(
            [
                ("partition", pa.int32()),
                ("timestamp", pa.timestamp("us", "UTC")),
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("offset", pa.int64()),
            ]
        )
    )


def held(lake: Path) -> dict[int, Numbers]:
    return TableReader(lake).hold()


def test_rows_are_what_their_numbers_make() -> None:
    rows = made_of(NUMBERS)
    assert {len(value) for value in rows["value"].to_pylist()} == {200}
    assert len(set(rows["value"].to_pylist())) == len(NUMBERS)
    assert np.array_equal(numbered.numbers_of(rows), NUMBERS)
    assert np.array_equal(numbered.numbers_of(rows.slice(10, 20)), NUMBERS[10:30])
    assert np.array_equal(numbered.numbers_of(pa.concat_tables([rows.slice(5), rows])), np.r_[NUMBERS[5:], NUMBERS])
    assert not len(numbered.numbers_of(rows.slice(0, 0)))


@pytest.mark.parametrize(
    ("column", "of"),
    [
        (PARTITION, lambda partition: (partition + 1) % 4),
        (TIMESTAMP, lambda time: time.replace(microsecond=(time.microsecond + 1000) % 1_000_000)),
        (KEY, lambda key: None),
        (KEY, lambda key: b"page-xx"),
        (VALUE, lambda value: value[:-1] + bytes([value[-1] ^ 1])),
        (VALUE, lambda value: bytes([value[0] ^ 1]) + value[1:]),
        (VALUE, lambda value: value[:-1]),
        (VALUE, lambda value: None),
    ],
)
def test_one_field_of_one_row(column: int, of: Callable[[object], object]) -> None:
    rows = made_of(NUMBERS)
    wrong = changed(rows, 500, column, of(rows.column(column)[500].as_py()))
    with pytest.raises(Broken, match=r"is not that of number|has another length"):
        numbered.numbers_of(wrong)


def test_offsets_from_nought_on_are_there_once_each() -> None:
    partitions, offsets, numbers = np.zeros(3, np.int64), np.array([2, 0, 1]), np.array([30, 10, 20])
    (order,) = hold([(partitions, offsets, numbers)]).values()
    assert order.tolist() == [10, 20, 30]
    assert hold([]) == {}
    for wrong, told in (([2, 0, 0], "offset 0 of partition 0 is there 2 times"), ([3, 0, 1], "offset 2 .* 0 times")):
        with pytest.raises(Broken, match=told):
            hold([(partitions, np.array(wrong), numbers)])


def test_a_table_is_the_topic_or_is_not() -> None:
    topic = {0: np.arange(10), 1: np.arange(10, 15)}
    check_same({0: np.arange(10), 1: np.arange(10, 15)}, topic)
    swapped = np.arange(10)
    swapped[[3, 4]] = swapped[[4, 3]]
    for wrong, told in (
        ({0: np.arange(9), 1: topic[1]}, "partition 0 has 10 records, and the table 9"),
        ({0: np.arange(11), 1: topic[1]}, "partition 0 has 10 records, and the table 11"),
        ({0: topic[0]}, "partition 1 has 5 records, and the table 0"),
        ({0: swapped, 1: topic[1]}, "partition 0 differs at offset 3"),
    ):
        with pytest.raises(Broken, match=told):
            check_same(wrong, topic)


def test_what_was_acknowledged_is_in_the_topic() -> None:
    check_sent({0: np.array([2, 0]), 1: np.array([1])}, 3)
    check_sent({0: np.array([0, 1, 900])}, 2, and_last=900)
    for wrong in ([0, 1], [0, 1, 1], [0, 1, 3], [0, 1, 2, 2]):
        with pytest.raises(Broken, match="3 records were acknowledged"):
            check_sent({0: np.array(wrong)}, 3)


def test_what_was_seen_in_a_table_has_to_stay(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    rows = with_offsets(np.arange(512))
    reader = TableReader(lake)
    assert reader.hold() == {}
    write_deltalake(lake, rows.slice(0, 256))
    assert numbered.rows_held(reader.hold()) == 256
    write_deltalake(lake, rows.slice(256), mode="append")
    assert numbered.rows_held(reader.hold()) == 512
    DeltaTable(lake).optimize.compact()
    assert numbered.rows_held(reader.hold()) == 512
    DeltaTable(lake).delete("partition = 3")
    with pytest.raises(Broken, match="of partition 3 something is gone"):
        reader.hold()


def test_of_a_topic_only_what_came_since_is_read_again() -> None:
    with Broker() as broker:
        broker.create_topic("numbers", numbered.PARTITIONS, retention_ms=-1)
        reader = TopicReader(broker.bootstrap, "numbers")
        assert reader.hold() == {}
        for first, end in ((0, 100), (100, 1_000), (1_000, 1_000)):  # Of some partitions nothing at first.
            numbered.write(broker.bootstrap, "numbers", range(first, end))
            check_sent(reader.hold(), end)
        check_same(reader.hold(), numbered.hold_topic(broker.bootstrap, "numbers"))


def test_a_row_that_is_there_twice_or_belongs_elsewhere(tmp_path: Path) -> None:
    rows = with_offsets(np.arange(512))
    write_deltalake(tmp_path / "doubled", pa.concat_tables([rows, rows.slice(100, 1)]))
    with pytest.raises(Broken, match="is there 2 times"):
        held(tmp_path / "doubled")
    write_deltalake(tmp_path / "lacking", pa.concat_tables([rows.slice(0, 100), rows.slice(101)]))
    with pytest.raises(Broken, match="is there 0 times"):
        held(tmp_path / "lacking")


# --- What kills leave, and what losers say ------------------------------------------------------------------------


def test_orphans_go_and_nothing_else_does(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    rows = with_offsets(np.arange(256))
    write_deltalake(lake, rows.slice(0, 128))
    write_deltalake(lake, rows.slice(128), mode="append")
    DeltaTable(lake).optimize.compact()  # Older versions still need what was compacted.
    assert remove_orphans(lake) == 0
    for name in ("left.parquet", "half.parquet#1"):
        (lake / name).write_bytes(b"PAR1")
    assert remove_orphans(lake) == 2
    assert numbered.rows_held(held(lake)) == 256
    assert DeltaTable(lake, version=1).to_pyarrow_table().num_rows == 256


def test_losers_say_why() -> None:
    lake_rivals.check_reasons(
        [
            "/lake: another load of topic 'numbers' was first (numbers-0 up to offset 5). Nothing of this one was",
            "/lake: another load of numbers-0 was first; nothing of this one was committed",
            "/lake/_dead_letters: somebody else loads the same records; nothing was committed",
        ]
    )
    with pytest.raises(Broken, match="does not say so"):
        lake_rivals.check_reasons(["/lake: the table changes too often"])
