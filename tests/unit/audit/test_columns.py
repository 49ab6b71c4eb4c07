import numpy as np
import pyarrow as pa
import pytest

from headrace.audit.columns import HEADERS, add_flags, add_sequences, add_stamps, count_headers
from headrace.audit.seen import BLOCK, Counts, SeenSpan
from headrace.audit.stamps import NUMBER_MAX, STAMP_HEADER, SpanId, Stamp, encode_stamp, parse_stamp, stamp_prefix

SPAN = SpanId("web", 5, 0)
PREFIX = stamp_prefix(SPAN, host="h")

Row = list[tuple[str, bytes | None]]


def stamp(sequence: int, *, span: SpanId = SPAN) -> tuple[str, bytes]:
    return STAMP_HEADER, encode_stamp(Stamp(span, "h", sequence, 1_000 + sequence % 1_000))


def column(rows: list[Row | None]) -> pa.Array:
    return pa.array(
        [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows], HEADERS
    )


def pairs(stamped: pa.Array) -> list[Row]:
    return [[(each["key"], each["value"]) for each in row] for row in stamped.to_pylist()]


def test_rows_are_stamped_one_after_the_other() -> None:
    stamped = add_stamps(None, prefix=PREFIX, first_sequence=7, times_ms=np.array([1_000, 999, 2**40]))
    assert stamped.type == HEADERS
    found = [row for (row,) in pairs(stamped)]
    assert [key for key, _ in found] == [STAMP_HEADER] * 3
    assert [parse_stamp(value) for _, value in found] == [
        Stamp(SPAN, "h", sequence, time_ms) for sequence, time_ms in [(7, 1_000), (8, 999), (9, 2**40)]
    ]


def test_a_stamp_comes_behind_the_headers_that_are_there() -> None:
    rows: list[Row | None] = [[("a", b"1"), ("b", None)], [], None, [("a", b"2")]]
    stamped = add_stamps(column(rows), prefix=PREFIX, first_sequence=0, times_ms=np.array([1_000] * 4))
    assert [row[:-1] for row in pairs(stamped)] == [row or [] for row in rows]
    assert [parse_stamp(row[-1][1]).sequence for row in pairs(stamped)] == [0, 1, 2, 3]


def test_a_slice_of_headers_is_stamped_as_it_is() -> None:
    whole = column([[("x", b"0")], [("a", b"1"), ("b", b"2")], [("c", b"3")], [("y", b"4")]])
    stamped = add_stamps(whole.slice(1, 2), prefix=PREFIX, first_sequence=0, times_ms=np.array([1, 2]))
    assert [row[:-1] for row in pairs(stamped)] == [[("a", b"1"), ("b", b"2")], [("c", b"3")]]


def test_no_rows_are_no_stamps() -> None:
    assert len(add_stamps(None, prefix=PREFIX, first_sequence=0, times_ms=np.array([], np.int64))) == 0
    assert len(add_stamps(column([]), prefix=PREFIX, first_sequence=0, times_ms=np.array([], np.int64))) == 0


ROWS: list[Row | None] = [
    [stamp(0)],
    [("trace", b"x"), stamp(1), ("more", None)],
    [stamp(9, span=SpanId("up", 1, 2)), stamp(1)],
    [],
    None,
    [("trace", b"1;web;5;0;h;7;1000")],
    [(STAMP_HEADER, None)],
    [(STAMP_HEADER, b"\xff\xfe")],
    [(STAMP_HEADER, b"1;web;5;0;h;9223372036854775808;1000")],
    [(STAMP_HEADER, b"1;web;5;0;h;7;1000\n")],
    [stamp(NUMBER_MAX)],
    [stamp(BLOCK), stamp(BLOCK + 1)],
    [stamp(3, span=SpanId("app", 5, 0))],
    [stamp(3, span=SpanId("app", 6, 0))],
]


def summary(counts: Counts) -> object:
    spans = {span: (seen.runs, seen.again, seen.host, seen.time_ms_max) for span, seen in sorted(counts.spans.items())}
    return spans, counts.unstamped, counts.malformed


@pytest.mark.parametrize("shape", ["whole", "sliced", "chunked"])
def test_counting_a_column_is_counting_its_rows(shape: str) -> None:
    one_by_one = Counts()
    for row in ROWS:
        one_by_one.add_message(row)
    headers = column(ROWS)
    if shape == "sliced":
        headers = pa.concat_arrays([column([[stamp(77)]]), headers, column([[stamp(78)]])]).slice(1, len(ROWS))
    elif shape == "chunked":
        headers = pa.chunked_array([headers.slice(0, 3), headers.slice(3, 0), headers.slice(3)])
    counts = Counts()
    count_headers(counts, headers)
    assert summary(counts) == summary(one_by_one)


def test_what_several_counters_have_seen_is_added_block_by_block() -> None:
    whole, added = SeenSpan(), SeenSpan()
    for sequences in ([0, 2, 2, BLOCK + 5], [1, 2, 77], [NUMBER_MAX]):
        part = SeenSpan()
        for sequence in sequences:
            whole.add(sequence)
            part.add(sequence)
        for number, flags, again in part.blocks():
            add_flags(added, number, np.frombuffer(flags, np.uint8), again=again)
    assert (added.runs, added.again) == (whole.runs, whole.again)


def test_sequences_are_added_many_at_a_time() -> None:
    one_by_one, at_once = SeenSpan(), SeenSpan()
    batches = [[0, 1, 1, BLOCK, BLOCK - 1], [BLOCK, 5, 1, NUMBER_MAX], [], [7]]
    for batch in batches:
        for sequence in batch:
            one_by_one.add(sequence)
        add_sequences(at_once, np.array(batch, np.int64))
    assert (at_once.runs, at_once.again) == (one_by_one.runs, one_by_one.again)
