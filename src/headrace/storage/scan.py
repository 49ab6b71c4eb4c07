"""Walking a segment file batch by batch in windows: what recovery, indexing, repair and verification share."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Readable
from headrace.protocol.batch import HEADER_BYTES, LENGTH_END, BatchHeader, parse_header, parse_whole_batch

_WINDOW_BYTES: Final = 1 << 20
_HEADER_WINDOW_BYTES: Final = 8192


class Damage(NamedTuple):
    """Where a scan stopped before the end of the file, and why."""

    position: int
    reason: str


def checked_batches(
    file: Readable, *, start: int = 0, batch_bytes_max: int | None = None
) -> Iterator[tuple[int, BatchHeader] | Damage]:
    """Every whole, checksummed batch from `start`; a last `Damage` where the file does not end with one.

    A length field is believed only as far as the file reaches.
    """
    position = start
    window = memoryview(b"")
    window_start = position
    while position < file.size:
        if position + HEADER_BYTES > window_start + len(window):
            window, window_start = memoryview(file.read(position, _WINDOW_BYTES)), position
        try:
            header = parse_header(window, position - window_start)
            if position + header.size_bytes > file.size or header.batch_length < HEADER_BYTES - LENGTH_END:
                raise CorruptBatch(f"batch length {header.batch_length} with {file.size - position} bytes left")
            if batch_bytes_max is not None and header.size_bytes > batch_bytes_max:
                raise CorruptBatch(f"batch of {header.size_bytes} bytes")
            if position + header.size_bytes > window_start + len(window):
                size = max(header.size_bytes, _WINDOW_BYTES)
                window, window_start = memoryview(file.read(position, size)), position
            yield position, parse_whole_batch(window, position - window_start)
        except CorruptBatch as error:
            yield Damage(position, str(error))
            return
        position += header.size_bytes


def headers_from(file: Readable, *, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Headers of batches known to be whole between two positions, without reading their bodies."""
    position = start
    window = b""
    window_start = position
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > window_start + len(window):
            window, window_start = file.read(position, _HEADER_WINDOW_BYTES), position
        header = parse_header(window, position - window_start)
        if header.batch_length < HEADER_BYTES - LENGTH_END:
            raise CorruptBatch(f"{file.path} at {position}: batch length {header.batch_length}")
        yield position, header
        position += header.size_bytes
