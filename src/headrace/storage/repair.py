"""Cutting damage out of a segment: what is whole stays, what is not goes to quarantine, nothing is thrown away.

Kafka's recovery drops everything behind the first bad batch of a log. Here a bad batch inside a sealed segment
costs itself alone: the segment is rewritten without it, and offsets simply have a gap there, as after compaction.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Disk, File, Readable
from headrace.protocol.batch import HEADER_BYTES, parse_header, parse_whole_batch
from headrace.storage.scan import Chain, Damage, chained_batches
from headrace.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name

QUARANTINE: Final = "quarantine"
_SEARCH_WINDOW_BYTES: Final = 1 << 20
_COPY_BYTES: Final = 1 << 20


class Quarantined(NamedTuple):
    """Bytes that are no batch, and where they are kept. Offsets are those that may have been lost."""

    segment: str
    position: int
    size: int
    reason: str
    first_offset: int
    next_offset: int
    kept_in: str | None


class _Good(NamedTuple):
    start: int
    end: int


def survey_segment(file: Readable, *, base_offset: int, next_base: int | None) -> Iterator[_Good | Quarantined]:
    """The file as a sequence of good ranges and bad ones. Changes nothing."""
    chain = Chain(base_offset, next_base=next_base)
    position = 0
    bad: Quarantined | None = None
    while position < file.size:
        start = position
        damage: Damage | None = None
        for found in chained_batches(file, chain, start=position):
            if isinstance(found, Damage):
                damage = found
                break
            at, header = found
            if bad is not None:
                yield bad._replace(size=start - bad.position, next_offset=header.base_offset)
                bad = None
            position = at + header.size_bytes
        if position > start:
            yield _Good(start, position)
        if damage is not None:
            if bad is None:
                bad = Quarantined(file.path, position, 0, damage.reason, chain.next_offset, chain.next_offset, None)
            position = position + damage.size if damage.size else _next_batch(file, position + 1, chain)
    if bad is not None:
        yield bad._replace(size=file.size - bad.position, next_offset=next_base or chain.next_offset)


def _next_batch(file: Readable, start: int, chain: Chain) -> int:
    """Where the next whole batch that may stand here begins; the end of the file if none does.

    Candidates come from a regular expression over the fixed bytes of a header, so that a damaged gigabyte is
    searched at the speed of C; only a right CRC makes a candidate a batch.
    """
    high_bytes = chain.next_offset.to_bytes(8, "big")[:4]
    high_next = (((chain.next_offset >> 32) + 1) << 32).to_bytes(8, "big")[:4]
    # Base offset (4 high bytes known), length, epoch, magic 2. A lookahead finds overlapping candidates too.
    pattern = re.compile(
        b"(?=(?:" + re.escape(high_bytes) + b"|" + re.escape(high_next) + rb").{4}[\x00-\x7f].{3}.{4}\x02)", re.DOTALL
    )
    position = start
    while position < file.size:
        window = file.read(position, _SEARCH_WINDOW_BYTES + HEADER_BYTES)
        for match in pattern.finditer(window):
            at = position + match.start()
            if match.start() >= _SEARCH_WINDOW_BYTES or file.size - at < HEADER_BYTES:
                break
            header = parse_header(file.read(at, HEADER_BYTES))
            if header.size_bytes > file.size - at or not chain.allows(header):
                continue
            try:
                parse_whole_batch(file.read(at, header.size_bytes))
            except CorruptBatch:
                continue
            return at
        position += _SEARCH_WINDOW_BYTES
    return file.size


def repair_segment(disk: Disk, directory: str, base_offset: int, *, next_base: int | None) -> list[Quarantined]:
    """Rewrite a segment without its bad bytes, which are kept under `quarantine/`; what was moved there.

    A crash at any moment leaves the old segment or the new one.
    """
    path = f"{directory}/{segment_name(base_offset)}{LOG_SUFFIX}"
    source = disk.open(path)
    survey = list(survey_segment(source, base_offset=base_offset, next_base=next_base))
    bad = [part for part in survey if isinstance(part, Quarantined)]
    if not bad:
        return []
    quarantine = f"{QUARANTINE}/{directory}"
    disk.make_dir(quarantine)
    kept = []
    for part in bad:
        kept_path = _unused(disk, f"{quarantine}/{segment_name(base_offset)}-{part.position}")
        target = disk.open(kept_path, create=True)
        _copy(source, part.position, part.position + part.size, target)
        target.sync()
        kept.append(part._replace(kept_in=kept_path))
    for made in (quarantine, QUARANTINE, "."):
        disk.sync_dir(made)
    clean = disk.open(f"{path}.cleaned", create=True)
    clean.truncate(0)
    for good in survey:
        if isinstance(good, _Good):
            _copy(source, good.start, good.end, clean)
    clean.sync()
    source.close()
    # The indexes of the old file must never meet the new one.
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        index = f"{directory}/{segment_name(base_offset)}{suffix}"
        if disk.exists(index):
            disk.open(index).delete()
    disk.sync_dir(directory)
    clean.rename(path)
    disk.sync_dir(directory)
    return kept


def _unused(disk: Disk, stem: str) -> str:
    """A path nobody has: an earlier repair may have kept bytes of the same position."""
    return next(path for path in (f"{stem}.{number}.bytes" for number in count()) if not disk.exists(path))


def _copy(source: File, start: int, end: int, target: File) -> None:
    for position in range(start, end, _COPY_BYTES):
        target.append((source.read(position, min(_COPY_BYTES, end - position)),))
