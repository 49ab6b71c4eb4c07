"""Kafka's DumpLogSegments as a judge: what it prints is parsed whole, so that a complaint cannot hide.

The tool says what is wrong on either of its outputs and exits with zero all the same. Every line must therefore
be of a known, harmless kind.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.oracle.kafka import dump_log_segments

_BATCH: Final = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) .*"
    r"compresscodec: (?P<codec>\w+) crc: \d+ isvalid: true"
)
_RECORD: Final = re.compile(r"\| offset: (\d+) CreateTime: \d+ keySize: -?\d+ valueSize: -?\d+ .*")
_HARMLESS: Final = (
    re.compile(r"Dumping \S+"),
    re.compile(r"Log starting offset: \d+"),
    re.compile(r"offset: \d+ position: \d+"),
    re.compile(r"timestamp: \d+ offset: \d+"),
    re.compile(r"producerId: \d+ producerEpoch: \d+ coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty .*"),
    re.compile(r"\S+ passed sanity check\."),
    re.compile(r"\S+\.index is empty\."),  # The first batch of a segment has no entry, and may be its last.
)
_HARMLESS_IF_COMPACTED: Final = (
    re.compile(r"Non-consecutive offsets in \S+"),
    re.compile(r"\s+\d+ is followed by \d+"),
)


class Dumped(NamedTuple):
    """What was read from the segments, in the order of their offsets, and the lines that nothing explains."""

    codecs: list[str]
    offsets: list[int]
    complaints: list[str]


def dump(files: Sequence[Path], *, options: Sequence[str] = (), compacted: bool = False) -> Dumped:
    """Look into segments, their indexes and snapshots, down to each record of a compressed batch.

    Only compaction may leave a batch with fewer records than offsets, and offsets that do not follow each other.
    """
    printed = dump_log_segments(sorted(files), options=options)
    codecs, offsets, complaints = [], [], []
    harmless = _HARMLESS + (_HARMLESS_IF_COMPACTED if compacted else ())
    if printed.returncode != 0:
        complaints.append(f"exit status {printed.returncode}")
    for line in printed.stdout.splitlines():
        if batch := _BATCH.fullmatch(line):
            codecs.append(batch["codec"])
            missing = int(batch["last"]) - int(batch["base"]) + 1 - int(batch["count"])
            if missing < 0 or (missing and not compacted):
                complaints.append(line)
        elif record := _RECORD.fullmatch(line):
            offsets.append(int(record[1]))
        elif not any(kind.fullmatch(line) for kind in harmless):
            complaints.append(line)
    return Dumped(codecs, offsets, complaints)
