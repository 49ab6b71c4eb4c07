"""Walking a segment file batch by batch in windows: what recovery, indexing, repair and verification share.

A CRC says that a batch is whole, not that it stands in the right place: base offset and leader epoch lie outside it.
`Chain` is the rule for those.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Readable
from headrace.protocol.batch import HEADER_BYTES, LENGTH_END, MAGIC, BatchHeader, parse_header, parse_whole_batch

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_WINDOW_BYTES: Final = 1 << 20
_HEADER_WINDOW_BYTES: Final = 8192


class Damage(NamedTuple):
    """Where a scan stopped before the end of the file, and why; `size` where all of a batch is known to be bad."""

    position: int
    reason: str
    size: int = 0


class Chain:
    """Where the next batch of a segment may stand: offsets rise, with gaps where something was taken out, and leader
    epochs never fall."""

    __slots__ = ("_epoch", "_offset_max", "next_offset")

    def __init__(self, base_offset: int, *, next_base: int | None) -> None:
        self.next_offset = base_offset
        self._epoch = -1
        self._offset_max = base_offset + RELATIVE_OFFSET_MAX if next_base is None else next_base - 1

    def allows(self, header: BatchHeader) -> bool:
        in_range = self.next_offset <= header.base_offset <= header.last_offset <= self._offset_max
        return in_range and header.leader_epoch >= self._epoch

    def refusal(self, header: BatchHeader, follower: BatchHeader | None) -> str | None:
        """Why this batch cannot come next, given the one behind it.

        Of two that exclude each other the first is wrong if it jumps ahead and the second would do without it.
        """
        place = f"offsets {header.base_offset}..{header.last_offset}, epoch {header.leader_epoch}"
        if not self.allows(header):
            return f"{place} behind {self.next_offset}, epoch {self._epoch}, or beyond {self._offset_max}"
        if follower is not None and self.allows(follower):
            overtakes = header.base_offset > self.next_offset and header.last_offset >= follower.base_offset
            outranks = header.leader_epoch > self._epoch and header.leader_epoch > follower.leader_epoch
            if overtakes or outranks:
                return f"{place} before {follower.base_offset}, epoch {follower.leader_epoch}"
        return None

    def accept(self, header: BatchHeader) -> None:
        self.next_offset = header.last_offset + 1
        self._epoch = header.leader_epoch


def whole_batches_in(file: Readable, *, start: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Every whole, checksummed batch from `start`, with its bytes; CorruptBatch where the file does not go on with one.

    A length field is believed only as far as the file reaches.
    """
    position = start
    window = memoryview(b"")
    window_start = position
    while position < file.size:
        if position + HEADER_BYTES > window_start + len(window):
            window, window_start = memoryview(file.read(position, _WINDOW_BYTES)), position
        header = parse_header(window, position - window_start)
        if position + header.size_bytes > file.size or header.batch_length < HEADER_BYTES - LENGTH_END:
            raise CorruptBatch(f"batch length {header.batch_length} with {file.size - position} bytes left")
        if position + header.size_bytes > window_start + len(window):
            size = max(header.size_bytes, _WINDOW_BYTES)
            window, window_start = memoryview(file.read(position, size)), position
        at = position - window_start
        yield position, parse_whole_batch(window, at), window[at : at + header.size_bytes]
        position += header.size_bytes


def checked_batches(file: Readable, *, start: int = 0) -> Iterator[tuple[int, BatchHeader] | Damage]:
    """The same without their bytes; a last `Damage` where the file does not end with a batch."""
    end = start
    try:
        for position, header, _ in whole_batches_in(file, start=start):
            yield position, header
            end = position + header.size_bytes
    except CorruptBatch as error:
        yield Damage(end, str(error))


def chained_batches(file: Readable, chain: Chain, *, start: int = 0) -> Iterator[tuple[int, BatchHeader] | Damage]:
    """Every whole batch from `start` that stands where the chain allows; a last `Damage` at the first that does not."""
    batches = checked_batches(file, start=start)
    found = next(batches, None)
    while found is not None:
        if isinstance(found, Damage):
            yield found
            return
        ahead = next(batches, None)
        position, header = found
        reason = chain.refusal(header, None if ahead is None or isinstance(ahead, Damage) else ahead[1])
        if reason is not None:
            yield Damage(position, reason, header.size_bytes)
            return
        chain.accept(header)
        yield found
        found = ahead


def headers_from(file: Readable, *, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Headers of the batches between two positions, without reading their bodies; CorruptBatch if they do not fit."""
    position = start
    window = b""
    window_start = position
    while position < end:
        if position + HEADER_BYTES > window_start + len(window):
            window, window_start = file.read(position, _HEADER_WINDOW_BYTES), position
        header = parse_header(window, position - window_start)
        size = header.size_bytes
        if header.magic != MAGIC or not HEADER_BYTES <= size <= end - position:
            raise CorruptBatch(f"{file.path} at {position}: no batch, but magic {header.magic}, {size} bytes")
        yield position, header
        position += size
