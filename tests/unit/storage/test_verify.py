"""A good segment has no finding; each kind of damage has its own, and does not hide the next."""

import struct
from dataclasses import dataclass
from itertools import accumulate

import pytest

from headrace.protocol.batch import CODEC_MASK
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, encode_batch
from headrace.storage.verify import FINDINGS_MAX, SegmentReport, index_entries, verify_segment

BASE = 1_000


@dataclass
class Bytes:
    """A file in memory."""

    data: bytes
    path: str = "t-0/00000000000000001000.log"

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]


def batch(base_offset: int, *, count: int = 3, time_ms: int = 0, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(None, b"v%d" % n, timestamp_ms=time_ms + n) for n in range(count)]
    return encode_batch(records, base_offset=base_offset, leader_epoch=5, codec=codec)


# Three batches of three records: offsets 1000-1002, 1003-1005, 1006-1008; times to 12, 22 and 32.
BATCHES = [batch(BASE + 3 * n, time_ms=10 * (n + 1)) for n in range(3)]
STARTS = [0, *accumulate(map(len, BATCHES))]
OFFSET_INDEX = struct.pack(">iiii", 5, STARTS[1], 8, STARTS[2])
TIME_INDEX = struct.pack(">qiqi", 22, 5, 32, 8)


def verify(
    data: bytes = b"".join(BATCHES),
    *,
    offsets: bytes | None = OFFSET_INDEX,
    times: bytes | None = TIME_INDEX,
    next_base: int | None = BASE + 9,
    open_batches: bool = True,
) -> SegmentReport:
    return verify_segment(
        Bytes(data),
        base_offset=BASE,
        next_base=next_base,
        offset_index=offsets,
        time_index=times,
        open_batches=open_batches,
    )


def problems(report: SegmentReport) -> list[str]:
    return [finding.problem for finding in report.findings]


def test_a_good_segment() -> None:
    report = verify()
    assert report.findings == []
    assert (report.batches, report.records) == (3, 9)
    assert (report.first_offset, report.last_offset, report.max_timestamp_ms) == (1000, 1008, 32)


def test_an_empty_segment_and_one_without_indexes_are_good() -> None:
    assert verify(b"", offsets=b"", times=b"").findings == []
    assert verify(offsets=None, times=None).findings == []


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_are_opened(codec: Codec) -> None:
    report = verify(batch(BASE, codec=codec), offsets=None, times=None)
    assert report.findings == []
    assert report.records == 3


@pytest.mark.parametrize("at", range(STARTS[1], STARTS[2]))
def test_any_byte_turned_over_in_a_sealed_segment_is_found_and_costs_one_batch(at: int) -> None:
    data = bytearray(b"".join(BATCHES))
    data[at] ^= 0xFF
    report = verify(bytes(data), offsets=None, times=None)
    assert [finding.position for finding in report.findings] == [STARTS[1]]
    assert report.findings[0].problem.startswith(f"damage of {len(BATCHES[1])} bytes")
    assert (report.batches, report.first_offset, report.last_offset) == (2, 1000, 1008)


@pytest.mark.parametrize("cut", range(1, len(BATCHES[2])))
def test_a_torn_tail_of_the_last_segment_is_called_so(cut: int) -> None:
    report = verify(b"".join(BATCHES)[:-cut], offsets=None, times=None, next_base=None)
    (finding,) = report.findings
    assert finding.position == STARTS[2]
    assert finding.problem.startswith(f"torn tail of {len(BATCHES[2]) - cut} bytes")
    assert report.batches == 2


def test_batches_out_of_order() -> None:
    report = verify(BATCHES[1] + BATCHES[0], offsets=None, times=None)
    assert report.findings[0].position == 0
    assert report.batches == 1


def test_a_batch_that_belongs_to_the_next_segment() -> None:
    report = verify(offsets=None, times=None, next_base=BASE + 8)
    assert [finding.position for finding in report.findings] == [STARTS[2]]
    assert (report.batches, report.last_offset) == (2, 1005)


def test_a_batch_whose_checksum_is_right_and_whose_content_is_not() -> None:
    data = bytearray(batch(BASE))
    attributes = struct.unpack_from(">h", data, 21)[0]
    struct.pack_into(">h", data, 21, attributes & ~CODEC_MASK | Codec.GZIP)  # Not gzip at all.
    from crc32c import crc32c

    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    deep = verify(bytes(data), offsets=None, times=None)
    assert len(deep.findings) == 1
    assert "batch at offset 1000" in deep.findings[0].problem
    assert verify(bytes(data), offsets=None, times=None, open_batches=False).findings == []


def test_an_index_that_leads_between_batches() -> None:
    report = verify(offsets=struct.pack(">ii", 5, STARTS[1] + 1))
    assert problems(report) == [f"offset 1005 leads to position {STARTS[1] + 1}, where no batch begins"]
    assert report.findings[0].file == "t-0/00000000000000001000.index"


def test_an_index_that_leads_to_the_wrong_batch() -> None:
    assert problems(verify(offsets=struct.pack(">ii", 4, STARTS[1]))) == ["offset 1004 leads to the batch 1003..1005"]


def test_an_index_that_leads_behind_the_end() -> None:
    assert problems(verify(offsets=struct.pack(">ii", 11, STARTS[3]))) == [
        f"offset 1011 leads to position {STARTS[3]}, behind the last batch"
    ]


def test_an_index_that_does_not_rise() -> None:
    entries = struct.pack(">iiii", 8, STARTS[2], 5, STARTS[1])
    assert "does not rise" in problems(verify(offsets=entries))[0]


def test_a_time_index_under_which_a_lookup_would_miss_records() -> None:
    assert problems(verify(times=struct.pack(">qi", 21, 5))) == ["time 21 at offset 1005, by which 22 was reached"]
    assert problems(verify(times=struct.pack(">qi", 22, 8))) == ["time 22 at offset 1008, by which 32 was reached"]
    assert problems(verify(times=struct.pack(">qi", 40, 20))) == ["time 40 at offset 1020, behind the last batch"]


def test_a_time_index_may_name_any_record_of_the_batch() -> None:
    assert verify(times=struct.pack(">qi", 22, 4)).findings == []


def test_zeros_that_a_broker_set_aside_are_no_entries() -> None:
    assert verify(offsets=OFFSET_INDEX + bytes(80), times=TIME_INDEX + bytes(120)).findings == []


def test_an_entry_that_ends_in_zeros_is_kept_and_half_an_entry_is_not() -> None:
    entry = struct.Struct(">ii")
    assert index_entries(entry, entry.pack(7, 256) + bytes(16)) == [(7, 256)]
    assert index_entries(entry, entry.pack(7, 256) + b"\1\2\3") == [(7, 256)]
    assert index_entries(entry, b"") == []


def test_a_file_that_is_all_wrong_is_told_in_a_hundred_lines() -> None:
    entries = b"".join(struct.pack(">ii", n + 100, 10_000 + n) for n in range(500))
    assert len(verify(offsets=entries).findings) == FINDINGS_MAX
