"""What records are made of, as columns of one shape.

Arrow has many types for byte strings, and slices, chunks and dictionaries of them. Here they become one: offsets of
64 bits, the bytes themselves (not copied, where Arrow lets them lie), and which rows are null. The kernels know nothing
else.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import ConfigError

_BYTE_STRINGS: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_null,
)


@dataclass(frozen=True, slots=True)
class ByteColumn:
    """Row i is `data[offsets[i] : offsets[i + 1]]`, or null where `valid`, if there is one, says so."""

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    valid: npt.NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def sizes(self) -> npt.NDArray[np.int64]:
        """In bytes; -1 for a null."""
        sizes = np.diff(self.offsets)
        return sizes if self.valid is None else np.where(self.valid, sizes, -1)

    def to_arrow(self) -> pa.LargeBinaryArray:
        valid = None if self.valid is None else pa.py_buffer(np.packbits(self.valid, bitorder="little"))
        buffers = [valid, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)


@dataclass(frozen=True, slots=True)
class HeaderColumn:
    """The headers of row i are `counts[i]` ones from `firsts[i]` on."""

    firsts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    names: ByteColumn
    values: ByteColumn

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Without a column, all rows are null in it; without headers, none has any."""

    keys: ByteColumn | None
    values: ByteColumn | None
    headers: HeaderColumn | None
    timestamps: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.timestamps)


def as_columns(
    *,
    key: pa.Array | pa.ChunkedArray | None,
    value: pa.Array | pa.ChunkedArray | None,
    headers: pa.Array | pa.ChunkedArray | None,
    timestamps: npt.NDArray[np.int64],
) -> RecordColumns:
    """These columns as the kernels take them; ConfigError where one is not what records can hold."""
    columns = RecordColumns(
        keys=None if key is None else as_byte_column(key, what="key"),
        values=None if value is None else as_byte_column(value, what="value"),
        headers=None if headers is None else _as_header_column(headers),
        timestamps=np.ascontiguousarray(timestamps, np.int64),
    )
    for name, column in (("key", columns.keys), ("value", columns.values), ("headers", columns.headers)):
        if column is not None and len(column) != len(columns):
            raise ConfigError(f"{len(column)} rows of {name}, but {len(columns)} timestamps")
    return columns


def as_byte_column(column: pa.Array | pa.ChunkedArray, *, what: str) -> ByteColumn:
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(is_this(plain) for is_this in _BYTE_STRINGS):
        raise ConfigError(f"the {what} of a record is bytes, so its column is binary or string, not {column.type}")
    if pa.types.is_dictionary(column.type):
        column = _spelt_out(column)
    elif not pa.types.is_large_binary(plain):
        column = column.cast(pa.large_binary())
    array = _one_chunk(column)
    _, offsets, data = array.buffers()
    return ByteColumn(
        offsets=np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        if len(array)
        else np.zeros(1, np.int64),
        data=np.empty(0, np.uint8) if data is None or data.size == 0 else np.frombuffer(data, np.uint8),
        valid=array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None,
    )


def _spelt_out(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The words of a dictionary, row by row. Arrow itself cannot look up views, which polars has as words."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_spelt_out(chunk) for chunk in column.chunks], pa.large_binary())
    return column.dictionary.cast(pa.large_binary()).take(column.indices)


def _as_header_column(column: pa.Array | pa.ChunkedArray) -> HeaderColumn:
    kind = column.type
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    elif not _is_list_of_pairs(kind):
        raise ConfigError(f"headers are a list of structs of key and value, or a map, not {kind}")
    array = _one_chunk(column)
    pairs = array.flatten()  # Of this slice alone, and without what may hide behind a null.
    fields = dict(zip((field.name for field in pairs.type), pairs.flatten(), strict=True))
    names = as_byte_column(fields["key"], what="key of a header")
    if names.valid is not None:
        raise ConfigError("a header has no key")
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return HeaderColumn(
        firsts=np.cumsum(counts) - counts,
        counts=counts,
        names=names,
        values=as_byte_column(fields["value"], what="value of a header"),
    )


def _is_list_of_pairs(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    return {field.name for field in kind.value_type} == {"key", "value"}


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
