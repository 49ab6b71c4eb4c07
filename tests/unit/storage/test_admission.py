"""What of a client's bytes reaches the log. Codes are those that Apache Kafka 4.1.1 gives for the same bytes."""

import struct

import pytest

from headrace.errors import ApiError, ErrorCode
from headrace.protocol.batch import BatchHeader
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, encode_batch
from headrace.storage.admission import Unreadable, admit, refuse_keyless

NOW_MS = 1_700_000_000_000
RECORDS = [Record(key=b"k", value=b"v", timestamp_ms=NOW_MS + index) for index in range(3)]
GOOD = encode_batch(RECORDS)


def admitted(data: bytes, *, version: int = 9, bytes_max: int = 1 << 20) -> BatchHeader:
    return admit(
        memoryview(bytearray(data)),
        produce_version=version,
        message_bytes_max=bytes_max,
        timestamp_max=NOW_MS + 1000,
        timestamp_min=NOW_MS - 1000,
    )


def refusal(data: bytes, *, version: int = 9, bytes_max: int = 1 << 20) -> ApiError:
    with pytest.raises(ApiError) as caught:
        admitted(data, version=version, bytes_max=bytes_max)
    return caught.value


def changed(at: int, form: str, value: int) -> bytes:
    """The good batch with one field of its header overwritten."""
    data = bytearray(GOOD)
    struct.pack_into(form, data, at, value)
    return bytes(data)


def with_length(length: int) -> bytes:
    return changed(8, ">i", length)


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_in_every_codec(codec: Codec) -> None:
    data = encode_batch(RECORDS, codec=codec)
    header = admitted(data)
    assert (header.record_count, header.size_bytes) == (3, len(data))


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_a_cut_batch_is_no_batch(size: int) -> None:
    error = refusal(GOOD[:size])
    assert isinstance(error, Unreadable)
    assert error.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("tail", [b"x", bytes(11), GOOD[:-1], GOOD[:20]])
def test_a_cut_batch_behind_a_whole_one_is_overlooked(tail: bytes) -> None:
    assert admitted(GOOD + tail).size_bytes == len(GOOD)


def test_two_whole_batches_are_one_too_many() -> None:
    error = refusal(GOOD + GOOD)
    assert isinstance(error, Unreadable)
    assert error.code is ErrorCode.INVALID_RECORD
    assert "exactly one record batch" in str(error)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (with_length(-1), ErrorCode.CORRUPT_MESSAGE),
        (with_length(0), ErrorCode.CORRUPT_MESSAGE),
        (with_length(13), ErrorCode.CORRUPT_MESSAGE),
        (with_length(14), ErrorCode.CORRUPT_MESSAGE),
        (with_length(48), ErrorCode.CORRUPT_MESSAGE),
        (with_length(len(GOOD) - 13), ErrorCode.CORRUPT_MESSAGE),  # One too short: the CRC no longer fits.
        (with_length(len(GOOD) - 11), ErrorCode.INVALID_RECORD),  # One too long: not whole.
        (with_length(2**31 - 1), ErrorCode.INVALID_RECORD),
        (changed(16, ">b", 0), ErrorCode.INVALID_RECORD),
        (changed(16, ">b", 1), ErrorCode.INVALID_RECORD),
        (changed(16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
        (changed(16, ">b", -1), ErrorCode.CORRUPT_MESSAGE),
        (changed(17, ">I", 0), ErrorCode.CORRUPT_MESSAGE),
        (changed(0, ">q", 5), ErrorCode.INVALID_RECORD),
    ],
)
def test_bytes_that_are_not_what_they_say(data: bytes, code: ErrorCode) -> None:
    assert refusal(data).code is code


def test_a_bit_flipped_anywhere_is_noticed() -> None:
    # Outside the CRC stand the base offset, which must be 0, the length, the epoch, which is overwritten, the magic.
    for at in (*range(12), *range(16, len(GOOD))):
        for bit in range(8):
            data = bytearray(GOOD)
            data[at] ^= 1 << bit
            assert refusal(bytes(data)).code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE), (at, bit)


def test_size_and_time_have_limits() -> None:
    assert admitted(GOOD, bytes_max=len(GOOD))
    assert refusal(GOOD, bytes_max=len(GOOD) - 1).code is ErrorCode.MESSAGE_TOO_LARGE
    for timestamp_ms in (NOW_MS - 1001, NOW_MS + 1001):
        batch = encode_batch([Record(key=b"k", value=b"v", timestamp_ms=timestamp_ms)])
        assert refusal(batch).code is ErrorCode.INVALID_TIMESTAMP


def test_zstd_needs_a_client_that_knows_it() -> None:
    batch = encode_batch(RECORDS, codec=Codec.ZSTD)
    assert refusal(batch, version=6).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert admitted(batch, version=7)


@pytest.mark.parametrize("codec", Codec)
def test_a_compacted_topic_wants_keys(codec: Codec) -> None:
    refuse_keyless(memoryview(encode_batch(RECORDS, codec=codec)))
    mixed = [*RECORDS, Record(key=None, value=b"v", timestamp_ms=NOW_MS)]
    with pytest.raises(ApiError, match="without key: 1 in this batch") as caught:
        refuse_keyless(memoryview(encode_batch(mixed, codec=codec)))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_batch_that_swells_beyond_measure_is_not_opened() -> None:
    bomb = encode_batch([Record(key=b"k", value=bytes(40 << 20), timestamp_ms=NOW_MS)], codec=Codec.ZSTD)
    assert len(bomb) < 1 << 20
    with pytest.raises(ApiError) as caught:
        refuse_keyless(memoryview(bomb))
    assert caught.value.code is ErrorCode.INVALID_RECORD
