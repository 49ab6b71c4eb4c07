"""Parquet files inside of one larger file, made one by a common footer.

Parquet finds everything by the footer at its end, which tells where each column of each group of rows begins. So files
may follow one another as they are, if at last there is a footer that knows all their groups, with places counted from
where the whole begins. Arrow joins footers; what it lacks is to move the places, which is done here, on the bytes: a
footer is Thrift's compact protocol, and is copied but for those numbers.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import HeadraceError

_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8  # The length of the footer, and the magic.

# Thrift's compact types.
_BOOLEANS: Final = (1, 2)  # True and false, as fields without a value.
_BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 3, 7, 8, 9, 10, 11, 12
_VARINTS: Final = (4, 5, 6)
_I64: Final = 6

# Fields of FileMetaData that are places in the file, by number; within lists and structs likewise.
_PLACE: Final = "place"
_PLACES: Final[Mapping[int, Any]] = {
    4: {  # row_groups
        1: {  # columns
            2: _PLACE,  # file_offset
            3: {9: _PLACE, 10: _PLACE, 11: _PLACE, 14: _PLACE},  # Data pages, index pages, dictionary, bloom filter.
            4: _PLACE,  # offset_index_offset
            6: _PLACE,  # column_index_offset
        },
        5: _PLACE,  # file_offset
    }
}


class NoFooter(HeadraceError):
    """Bytes that are not the end of a Parquet file."""


def read_footer(file: Any, *, end: int) -> bytes:
    """The footer of the Parquet file that ends here, without its length and magic."""
    file.seek(end - _TAIL_BYTES)
    tail = file.read(_TAIL_BYTES)
    size = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or size > end - _TAIL_BYTES:
        raise NoFooter(f"no Parquet file ends at byte {end}")
    file.seek(end - _TAIL_BYTES - size)
    footer: bytes = file.read(size)
    return footer


def join_footers(footers: Sequence[bytes], starts: Sequence[int]) -> bytes:
    """What has to stand at the end of files that begin at these places, to make them one."""
    joined: pq.FileMetaData | None = None
    for footer, start in zip(footers, starts, strict=True):
        moved = _parse(move_footer(footer, start))
        if joined is None:
            joined = moved
        else:
            joined.append_row_groups(moved)
    assert joined is not None
    out = io.BytesIO()
    joined.write_metadata_file(out)
    return out.getvalue()[len(_MAGIC) :]


def _parse(footer: bytes) -> pq.FileMetaData:
    file = _MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC
    return pq.read_metadata(pa.BufferReader(file))


def move_footer(footer: bytes, by: int) -> bytes:
    """The footer of the same file, were it to begin so many bytes later."""
    mover = _Mover(footer, by)
    mover.copy_struct(_PLACES)
    return bytes(mover.out)


class _Mover:
    """Reads a footer and writes it, with all places moved."""

    def __init__(self, data: bytes, by: int) -> None:
        self._data = data
        self._position = 0
        self._by = by
        self.out = bytearray()

    def copy_struct(self, places: Mapping[int, Any]) -> None:
        field = 0
        while head := self._copy_byte():
            delta, kind = head >> 4, head & 15
            field = field + delta if delta else _unzigzag(self._copy_varint())
            if kind not in _BOOLEANS:
                self._copy_value(kind, places.get(field))

    def _copy_value(self, kind: int, place: Any) -> None:
        if kind in _VARINTS:
            if place is _PLACE:
                assert kind == _I64
                number = _unzigzag(self._read_varint())
                # Nought stands for a place that is not told.
                self._write_varint(_zigzag(number + self._by if number else 0))
            else:
                self._copy_varint()
        elif kind == _STRUCT:
            self.copy_struct(place or {})
        elif kind in (_LIST, _SET):
            head = self._copy_byte()
            count = head >> 4 if head >> 4 < 15 else self._copy_varint()
            for _ in range(count):
                self._copy_value(head & 15, place)
        elif kind == _MAP:
            if count := self._copy_varint():
                kinds = self._copy_byte()
                for _ in range(count):
                    self._copy_value(kinds >> 4, None)
                    self._copy_value(kinds & 15, None)
        elif kind == _BINARY:
            self._copy_bytes(self._copy_varint())
        elif kind == _DOUBLE:
            self._copy_bytes(8)
        elif kind in (_BYTE, *_BOOLEANS):  # Booleans in a list have a byte each.
            self._copy_bytes(1)
        else:
            raise NoFooter(f"a footer with a field of type {kind}")

    def _copy_bytes(self, count: int) -> None:
        end = self._position + count
        if end > len(self._data):
            raise NoFooter("a footer that ends too soon")
        self.out += self._data[self._position : end]
        self._position = end

    def _copy_byte(self) -> int:
        self._copy_bytes(1)
        return self.out[-1]

    def _copy_varint(self) -> int:
        begin = self._position
        number = self._read_varint()
        self.out += self._data[begin : self._position]
        return number

    def _read_varint(self) -> int:
        number = shift = 0
        while self._position < len(self._data):
            byte = self._data[self._position]
            self._position += 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
        raise NoFooter("a footer that ends too soon")

    def _write_varint(self, number: int) -> None:
        while number > 127:
            self.out.append(number & 127 | 128)
            number >>= 7
        self.out.append(number)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _unzigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)
