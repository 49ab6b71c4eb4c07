"""Whether a segment is whole: its batches, the records in them, and what its indexes promise. Changes nothing.

Stricter than recovery, which trusts what a CRC covers: here batches are opened, and every index entry must
lead where the one who follows it expects. Findings are values; a segment without any is good.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Readable
from headrace.protocol.batch import LOG_APPEND_TIME, NO_TIMESTAMP, BatchHeader
from headrace.protocol.records import decode_records
from headrace.storage.index import OFFSET_ENTRY, TIME_ENTRY
from headrace.storage.repair import Quarantined, survey_segment
from headrace.storage.scan import headers_from
from headrace.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX

FINDINGS_MAX: Final = 100  # Of one segment: a file that is all wrong need not be told byte by byte.


class Finding(NamedTuple):
    file: str
    position: int
    problem: str


@dataclass(slots=True)
class SegmentReport:
    path: str
    size_bytes: int
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    max_timestamp_ms: int = NO_TIMESTAMP
    findings: list[Finding] = field(default_factory=list)

    def add(self, file: str, position: int, problem: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(file, position, problem))


def verify_segment(
    log: Readable,
    *,
    base_offset: int,
    next_base: int | None,
    offset_index: bytes | None,
    time_index: bytes | None,
    open_batches: bool = True,
) -> SegmentReport:
    """`next_base` is where the next segment begins; None for the last one, whose torn tail a recovery cuts."""
    report = SegmentReport(log.path, log.size)
    stem = log.path.removesuffix(LOG_SUFFIX)
    offsets = _OffsetIndexCheck(stem + INDEX_SUFFIX, base_offset, offset_index or b"", report)
    times = _TimeIndexCheck(stem + TIME_INDEX_SUFFIX, base_offset, time_index or b"", report)
    for position, header in _good_batches(log, report, base_offset=base_offset, next_base=next_base):
        if report.first_offset is None:
            report.first_offset = header.base_offset
        report.batches += 1
        report.records += header.record_count
        report.last_offset = header.last_offset
        report.max_timestamp_ms = max(report.max_timestamp_ms, header.max_timestamp)
        if open_batches:
            _check_records(log, position, header, report)
        offsets.pass_batch(position, header)
        times.pass_batch(header)
    offsets.finish()
    times.finish()
    return report


def _good_batches(
    log: Readable, report: SegmentReport, *, base_offset: int, next_base: int | None
) -> Iterator[tuple[int, BatchHeader]]:
    for part in survey_segment(log, base_offset=base_offset, next_base=next_base):
        if isinstance(part, Quarantined):
            tail = next_base is None and part.position + part.size == log.size
            what = "torn tail" if tail else "damage"
            report.add(log.path, part.position, f"{what} of {part.size} bytes: {part.reason}")
        else:
            yield from headers_from(log, start=part.start, end=part.end)


def _check_records(log: Readable, position: int, header: BatchHeader, report: SegmentReport) -> None:
    try:
        records = decode_records(log.read(position, header.size_bytes))
    except CorruptBatch as error:
        report.add(log.path, position, f"batch at offset {header.base_offset}: {error}")
        return
    next_offset = header.base_offset
    for record in records:
        if not next_offset <= record.offset <= header.last_offset:
            report.add(
                log.path, position, f"record {record.offset} in batch {header.base_offset}..{header.last_offset}"
            )
            return
        next_offset = record.offset + 1
    newest_ms = max((record.timestamp_ms for record in records), default=NO_TIMESTAMP)
    if newest_ms > header.max_timestamp and not header.attributes & LOG_APPEND_TIME:
        report.add(log.path, position, f"a record of time {newest_ms} in a batch up to {header.max_timestamp}")


class _OffsetIndexCheck:
    """Each entry must name the last offset of a batch and the position at which that batch begins."""

    def __init__(self, path: str, base_offset: int, data: bytes, report: SegmentReport) -> None:
        self._path = path
        self._report = report
        self._entries = [(base_offset + relative, position) for relative, position in index_entries(OFFSET_ENTRY, data)]
        _check_rise(path, OFFSET_ENTRY, self._entries, report)
        self._next = 0

    def pass_batch(self, position: int, header: BatchHeader) -> None:
        while self._next < len(self._entries) and self._entries[self._next][1] <= position:
            offset, points_at = self._entries[self._next]
            if points_at != position:
                self._add(f"offset {offset} leads to position {points_at}, where no batch begins")
            elif offset != header.last_offset:
                self._add(f"offset {offset} leads to the batch {header.base_offset}..{header.last_offset}")
            self._next += 1

    def finish(self) -> None:
        while self._next < len(self._entries):
            offset, points_at = self._entries[self._next]
            self._add(f"offset {offset} leads to position {points_at}, behind the last batch")
            self._next += 1

    def _add(self, problem: str) -> None:
        self._report.add(self._path, self._next * OFFSET_ENTRY.size, problem)


class _TimeIndexCheck:
    """Each entry must name the largest timestamp up to and including the batch that holds its offset.

    A lookup skips everything before that offset: were there a larger timestamp, it would be passed over. Kafka counts
    batches that compaction has emptied.
    """

    def __init__(self, path: str, base_offset: int, data: bytes, report: SegmentReport) -> None:
        self._path = path
        self._report = report
        self._entries = [
            (timestamp_ms, base_offset + relative) for timestamp_ms, relative in index_entries(TIME_ENTRY, data)
        ]
        _check_rise(path, TIME_ENTRY, self._entries, report)
        self._next = 0
        self._reached_ms = NO_TIMESTAMP

    def pass_batch(self, header: BatchHeader) -> None:
        reached_ms = self._reached_ms = max(self._reached_ms, header.record_timestamp_max)
        while self._next < len(self._entries) and self._entries[self._next][1] <= header.last_offset:
            timestamp_ms, offset = self._entries[self._next]
            if timestamp_ms not in (reached_ms, self._report.max_timestamp_ms):
                self._add(f"time {timestamp_ms} at offset {offset}, by which {reached_ms} was reached")
            self._next += 1

    def finish(self) -> None:
        while self._next < len(self._entries):
            timestamp_ms, offset = self._entries[self._next]
            self._add(f"time {timestamp_ms} at offset {offset}, behind the last batch")
            self._next += 1

    def _add(self, problem: str) -> None:
        self._report.add(self._path, self._next * TIME_ENTRY.size, problem)


def index_entries(entry: Struct, data: bytes) -> list[tuple[int, int]]:
    """The entries of an index file. A broker may have made the file larger than it is yet: zeros at the end."""
    whole_bytes = len(data) // entry.size * entry.size
    used_bytes = -(-len(data[:whole_bytes].rstrip(b"\0")) // entry.size) * entry.size
    return [(first, second) for first, second in entry.iter_unpack(data[:used_bytes])]


def _check_rise(path: str, entry: Struct, entries: Sequence[tuple[int, int]], report: SegmentReport) -> None:
    for number, (before, after) in enumerate(pairwise(entries), 1):
        if not (after[0] > before[0] and after[1] > before[1]):
            report.add(path, number * entry.size, f"entry {after} does not rise above {before}")
