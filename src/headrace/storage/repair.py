"""Cutting damage out of a segment: what is whole stays, what is not goes to quarantine, nothing is thrown away.

Kafka's recovery drops everything behind the first bad batch of a log. Here a bad batch inside a sealed segment
costs itself alone: the segment is rewritten without it, and offsets simply have a gap there, as after compaction.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Disk, File, Readable
from headrace.protocol.batch import HEADER_BYTES, parse_header, parse_whole_batch
from headrace.storage.scan import Damage, checked_batches
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
    position = 0
    next_offset = base_offset
    while position < file.size:
        start = position
        reason = ""
        for found in checked_batches(file, start=position):
            if isinstance(found, Damage):
                reason = found.reason
                break
            at, header = found
            if header.base_offset < next_offset or (next_base is not None and header.last_offset >= next_base):
                reason = f"offsets {header.base_offset}..{header.last_offset} do not belong here"
                break
            position = at + header.size_bytes
            next_offset = header.last_offset + 1
        if position > start:
            yield _Good(start, position)
        if position < file.size:
            resume, resume_offset = _next_batch(file, position + 1, next_offset=next_offset, next_base=next_base)
            yield Quarantined(
                segment=file.path,
                position=position,
                size=resume - position,
                reason=reason,
                first_offset=next_offset,
                next_offset=resume_offset if resume_offset is not None else next_base or next_offset,
                kept_in=None,
            )
            position = resume


def _next_batch(file: Readable, start: int, *, next_offset: int, next_base: int | None) -> tuple[int, int | None]:
    """Where the next whole batch that may stand here begins, with its offset; the end of the file if none does.

    Candidates come from a regular expression over the fixed bytes of a header, so that a damaged gigabyte is
    searched at the speed of C; only a right CRC makes a candidate a batch.
    """
    high_bytes = next_offset.to_bytes(8, "big")[:4]
    high_next = (((next_offset >> 32) + 1) << 32).to_bytes(8, "big")[:4]
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
            if not next_offset <= header.base_offset <= header.last_offset or header.size_bytes > file.size - at:
                continue
            if next_base is not None and header.last_offset >= next_base:
                continue
            try:
                parse_whole_batch(file.read(at, header.size_bytes))
            except CorruptBatch:
                continue
            return at, header.base_offset
        position += _SEARCH_WINDOW_BYTES
    return file.size, None


def repair_segment(
    disk: Disk, directory: str, base_offset: int, *, next_base: int | None
) -> list[Quarantined]:
    """Rewrite a segment without its bad bytes, which are kept under `quarantine/`; what was moved there.

    A crash at any moment leaves the old segment or the new one.
    """
    path = f"{directory}/{segment_name(base_offset)}{LOG_SUFFIX}"
    source = disk.open(path)
    survey = list(survey_segment(source, base_offset=base_offset, next_base=next_base))
    bad = [part for part in survey if isinstance(part, Quarantined)]
    if not bad:
        return []
    disk.make_dir(f"{QUARANTINE}/{directory}")
    kept = []
    for part in bad:
        kept_path = f"{QUARANTINE}/{directory}/{segment_name(base_offset)}-{part.position}.bytes"
        target = disk.open(kept_path, create=True)
        target.truncate(0)
        _copy(source, part.position, part.position + part.size, target)
        target.sync()
        kept.append(part._replace(kept_in=kept_path))
    disk.sync_dir(f"{QUARANTINE}/{directory}")
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


def _copy(source: File, start: int, end: int, target: File) -> None:
    for position in range(start, end, _COPY_BYTES):
        target.append((source.read(position, min(_COPY_BYTES, end - position)),))
