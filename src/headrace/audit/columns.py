"""Stamps by the column: put on batches of rows that are about to be written, and counted on batches that were read.

Both without a Python object per message. Knows Arrow and the stamps, and neither clients nor files.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.audit.seen import BLOCK, Counts, SeenSpan
from headrace.audit.stamps import FIELDS, NUMBER_MAX, PATTERN, SEPARATOR, STAMP_HEADER, SpanId

HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_SPAN_FIELDS: Final = ("producer", "incarnation", "span", "host")
_WHOLE: Final = f"^{PATTERN}$"

Int64s = npt.NDArray[np.int64]


def add_stamps(headers: pa.Array | None, *, prefix: str, first_sequence: int, times_ms: Int64s) -> pa.Array:
    """Each row's headers with a stamp behind them; the sequences follow one another."""
    sequences = pa.array(np.arange(first_sequence, first_sequence + len(times_ms))).cast(pa.string())
    times = pa.array(times_ms).cast(pa.string())
    stamps = pc.binary_join_element_wise(pc.binary_join_element_wise(prefix, sequences, ""), times, SEPARATOR)
    return add_header(headers, STAMP_HEADER, stamps)


def add_header(headers: pa.Array | None, name: str, values: pa.Array) -> pa.Array:
    """Each row's headers with one more behind them."""
    rows = len(values)
    added = pa.StructArray.from_arrays(
        [pa.repeat(name, rows), values.cast(pa.binary())], fields=list(HEADERS.value_type)
    )
    if headers is None:
        return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), added)
    given = headers.cast(HEADERS)
    lengths: Int64s = pc.fill_null(given.value_lengths(), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(lengths + 1)
    # Old headers keep their order; each row's last place is that of the new one.
    order = np.empty(int(ends[-1]) if rows else 0, np.int64)
    is_added = np.zeros(len(order), bool)
    is_added[ends - 1] = True
    order[~is_added] = np.arange(int(lengths.sum()))
    order[is_added] = int(lengths.sum()) + np.arange(rows)
    every = pa.concat_arrays([given.flatten(), added]).take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]).astype(np.int32)), every)


def count_headers(counts: Counts, headers: pa.Array | pa.ChunkedArray) -> None:
    """Count each row by its last stamp, as `Counts.add_message` does one by one."""
    if isinstance(headers, pa.ChunkedArray):
        for chunk in headers.chunks:
            count_headers(counts, chunk)
        return
    entries = headers.flatten()
    lengths = pc.fill_null(headers.value_lengths(), 0).to_numpy(zero_copy_only=False)
    parents = np.repeat(np.arange(len(headers)), lengths)
    is_stamp = pc.fill_null(pc.equal(entries.field("key"), STAMP_HEADER), False).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(is_stamp)
    # Of a row's stamps the last: the one that is followed by one of another row.
    last = np.append(np.diff(parents[places]) != 0, True) if len(places) else np.zeros(0, bool)
    places = places[last]
    counts.unstamped += len(headers) - len(places)
    if len(places):
        _count_stamps(counts, entries.field("value").take(pa.array(places)))


def _count_stamps(counts: Counts, values: pa.Array) -> None:
    is_stamp = pc.fill_null(pc.match_substring_regex(values, _WHOLE), False)
    if not pc.all(is_stamp).as_py():
        values = values.filter(is_stamp)
    words = pc.split_pattern(values.cast(pa.string()), SEPARATOR)
    flat = words.flatten()
    columns = {name: flat.take(pa.array(np.arange(index, len(flat), len(FIELDS)))) for index, name in enumerate(FIELDS)}
    for name in ("incarnation", "span", "sequence", "time_ms"):
        columns[name] = columns[name].cast(pa.uint64())
    stamps = pa.table(columns)
    for name in ("incarnation", "span", "sequence", "time_ms"):
        stamps = stamps.filter(pc.less_equal(stamps[name], pa.scalar(NUMBER_MAX, pa.uint64())))
    counts.malformed += len(is_stamp) - len(stamps)
    groups = stamps.group_by(list(_SPAN_FIELDS)).aggregate([("sequence", "list"), ("time_ms", "max")])
    for group in groups.to_batches():
        sequences = group.column("sequence_list")
        for row in range(len(group)):
            producer, incarnation, number, host = (group.column(name)[row].as_py() for name in _SPAN_FIELDS)
            seen = counts.span(SpanId(producer, incarnation, number), host=host)
            seen.time_ms_max = max(seen.time_ms_max, group.column("time_ms_max")[row].as_py())
            add_sequences(seen, sequences[row].values.to_numpy().astype(np.int64))


def add_flags(seen: SeenSpan, number: int, flags: npt.NDArray[np.uint8], *, again: int) -> None:
    """A block of what another counter has seen. What both have seen was seen twice."""
    add_sequences(seen, np.flatnonzero(flags) + number * BLOCK)
    seen.add_again(number, again)


def add_sequences(seen: SeenSpan, sequences: Int64s) -> None:
    """As many `add`s."""
    if not len(sequences):
        return
    ordered = np.sort(sequences)
    numbers, firsts = np.unique(ordered // BLOCK, return_index=True)
    for number, part in zip(numbers.tolist(), np.split(ordered, firsts[1:]), strict=True):
        places = np.unique(part % BLOCK)
        flags: npt.NDArray[Any] = np.frombuffer(seen.block(number, end=int(places[-1]) + 1), np.uint8)
        new = len(places) - int(flags[places].sum())
        seen.add_again(number, len(part) - new)
        flags[places] = 1
