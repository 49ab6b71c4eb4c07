"""What a client's batch must be before the log takes it, in Kafka's order and with Kafka's errors.

The records inside stay unopened: a right CRC and a consistent header are what a broker can check at the speed of
the wire. Kafka also walks the records; a client that writes nonsense under a right CRC harms its own readers alone.
Only what goes to a compacted topic is opened, for the keys.
"""

from struct import Struct
from typing import Final

from headrace.errors import ApiError, CorruptBatch, ErrorCode
from headrace.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    parse_header,
)
from headrace.protocol.checksum import crc32c
from headrace.protocol.record_walk import NO_KEY, open_payload, walk_records

_LENGTH: Final = Struct(">i")
_INT8: Final = Struct(">b")
_MAGIC_AT: Final = 16
# Of the oldest format, which is how Kafka tells a length that cannot be.
_MESSAGE_BYTES_MIN: Final = 14
# What a batch in a compacted topic may swell to: its keys are looked at, now and whenever it is compacted.
OPENED_BYTES_MAX: Final = 32 << 20
_ZSTD: Final = 4
_CODEC_LAST: Final = _ZSTD
ZSTD_SINCE_PRODUCE_VERSION: Final = 7


class Unreadable(ApiError):
    """Bytes that are not one whole batch of this format: refused without a look at the log."""


def admit(
    records: memoryview, *, produce_version: int, message_bytes_max: int, timestamp_max: int, timestamp_min: int
) -> BatchHeader:
    """The header of the one whole batch at the beginning of `records`, or an ApiError."""
    size = len(records)
    if size < HEADER_BYTES:
        _only_batch_bytes(records, produce_version)
        raise AssertionError("a batch was found in fewer bytes than its header has")
    # The cheapest way from a plain tuple to a named one.
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(records))
    (base_offset, length, _, magic, crc, attributes, last_delta, _, max_timestamp, producer, _, sequence, count) = (
        header
    )
    if magic != MAGIC or length != size - LENGTH_END:
        size = _only_batch_bytes(records, produce_version)
        records = records[:size]
    codec = attributes & CODEC_MASK
    if codec >= _ZSTD and (codec > _CODEC_LAST or produce_version < ZSTD_SINCE_PRODUCE_VERSION):
        raise _wrong_codec(codec, produce_version)
    if size > message_bytes_max:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append is {size} bytes which exceeds the maximum configured value "
            f"of {message_bytes_max}.",
        )
    if crc32c(records[21:]) != crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "Record batch is corrupt: its CRC does not match.")
    if base_offset != 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append should be 0, but it is {base_offset}",
        )
    if count <= 0 or last_delta != count - 1:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Inconsistent batch: {count} records, last offset delta {last_delta}.",
        )
    if attributes & (CONTROL | LOG_APPEND_TIME):
        _refuse_attributes(attributes)
    if producer >= 0 and sequence < 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"Invalid sequence number {sequence} in record batch with producerId {producer}"
        )
    if not timestamp_min <= max_timestamp <= timestamp_max:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"Timestamp {max_timestamp} of message is out of range. The timestamp should be within "
            f"[{timestamp_min}, {timestamp_max}]",
        )
    return header


def refuse_keyless(batch: memoryview) -> None:
    """Compaction keeps the last record of each key, so that a record without one could never be kept."""
    header = parse_header(batch)
    try:
        payload = open_payload(batch, header, output_bytes_max=OPENED_BYTES_MAX)
        keyless = sum([key_at == NO_KEY for _, _, _, key_at, _ in walk_records(payload, header.record_count)])
    except CorruptBatch as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
    if keyless:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"Compacted topic cannot accept message without key: {keyless} in this batch"
        )


def _only_batch_bytes(records: memoryview, version: int) -> int:
    """Size of the only whole batch, looked for as Kafka does, which overlooks a cut batch behind it."""
    words = f"Produce requests with version {version}"
    size = _next_batch_bytes(records)
    if size == 0:
        raise Unreadable(ErrorCode.INVALID_RECORD, f"{words} must have at least one record batch per partition")
    if records[_MAGIC_AT] != MAGIC:
        raise Unreadable(
            ErrorCode.INVALID_RECORD, f"{words} are only allowed to contain record batches with magic version 2"
        )
    if _next_batch_bytes(records[size:]) > 0:
        raise Unreadable(
            ErrorCode.INVALID_RECORD,
            f"{words} are only allowed to contain exactly one record batch per partition",
        )
    if size < HEADER_BYTES:
        raise Unreadable(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record batch is corrupt (the size {size} is smaller than the minimum allowed overhead {HEADER_BYTES})",
        )
    return size


def _next_batch_bytes(data: memoryview) -> int:
    """Size of the batch or old message that begins here; 0 where none is whole."""
    if len(data) < LENGTH_END:
        return 0
    (length,) = _LENGTH.unpack_from(data, 8)
    if length < _MESSAGE_BYTES_MIN:
        raise Unreadable(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({_MESSAGE_BYTES_MIN})",
        )
    if len(data) <= _MAGIC_AT:
        return 0
    if data[_MAGIC_AT] > MAGIC:
        (magic,) = _INT8.unpack_from(data, _MAGIC_AT)
        raise Unreadable(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size: int = LENGTH_END + length
    return size if size <= len(data) else 0


def _wrong_codec(codec: int, version: int) -> ApiError:
    if codec > _CODEC_LAST:
        return ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {codec}")
    return Unreadable(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"Produce requests with version {version} are not allowed to use ZStandard compression",
    )


def _refuse_attributes(attributes: int) -> None:
    if attributes & CONTROL:
        raise ApiError(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records")
    raise ApiError(
        ErrorCode.INVALID_TIMESTAMP,
        "Invalid timestamp type LogAppendTime in a batch from a producer. Only the broker sets it.",
    )
