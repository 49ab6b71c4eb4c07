"""Walking a segment file batch by batch in windows: what recovery, indexing, repair and verification share.

A CRC says that a batch is whole, not that it stands in the right place: base offset and leader epoch lie outside
it. `Chain` is the rule for those two.
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
    """Where the next batch of a segment may stand.

    Offsets rise, with gaps where repair or compaction took something; they stay within the segment, and leader epochs
    never fall. The last catches what a second crash brings back: bytes that the recovery after the first had cut, and
    that were written over under a new epoch.
    """

    __slots__ = ("_offset_max", "epoch", "next_offset")

    def __init__(self, base_offset: int, *, next_base: int | None, epoch: int = -1) -> None:
        self.next_offset = base_offset
        self.epoch = epoch
        self._offset_max = base_offset + RELATIVE_OFFSET_MAX if next_base is None else next_base - 1

    def refusal(self, header: BatchHeader) -> str | None:
        """Why this batch cannot come next."""
        return self._refusal(header, self.next_offset, self.epoch)

    def contradiction(self, header: BatchHeader, follower: BatchHeader) -> str | None:
        """Why this batch, which might come next by itself, cannot, seeing the one behind it.

        Of two that exclude each other it is the first that is wrong if the second would do without it.
        """
        refused = self._refusal(follower, header.last_offset + 1, header.leader_epoch)
        if refused is None or self.refusal(follower) is not None:
            return None
        return f"offset {header.base_offset}, epoch {header.leader_epoch} before {follower.base_offset}"

    def accept(self, header: BatchHeader) -> None:
        self.next_offset = header.last_offset + 1
        self.epoch = header.leader_epoch

    def _refusal(self, header: BatchHeader, next_offset: int, epoch: int) -> str | None:
        if not next_offset <= header.base_offset <= header.last_offset <= self._offset_max:
            return f"offsets {header.base_offset}..{header.last_offset} outside {next_offset}..{self._offset_max}"
        if header.leader_epoch < epoch:
            return f"leader epoch {header.leader_epoch} behind {epoch}"
        return None


def checked_batches(file: Readable, *, start: int = 0) -> Iterator[tuple[int, BatchHeader] | Damage]:
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
            if position + header.size_bytes > window_start + len(window):
                size = max(header.size_bytes, _WINDOW_BYTES)
                window, window_start = memoryview(file.read(position, size)), position
            yield position, parse_whole_batch(window, position - window_start)
        except CorruptBatch as error:
            yield Damage(position, str(error))
            return
        position += header.size_bytes


def chained_batches(file: Readable, chain: Chain, *, start: int = 0) -> Iterator[tuple[int, BatchHeader] | Damage]:
    """Every whole batch from `start` that stands where the chain allows; a last `Damage` at the first that does not."""
    batches = checked_batches(file, start=start)
    found = next(batches, None)
    while found is not None:
        if isinstance(found, Damage):
            yield found
            return
        follower = next(batches, None)
        position, header = found
        reason = chain.refusal(header)
        if reason is None and follower is not None and not isinstance(follower, Damage):
            reason = chain.contradiction(header, follower[1])
        if reason is not None:
            yield Damage(position, reason, header.size_bytes)
            return
        chain.accept(header)
        yield found
        found = follower


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
