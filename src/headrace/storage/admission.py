"""What a client's batch must be before the log takes it, in Kafka's order and with Kafka's errors.

The records inside stay unopened: a right CRC and a consistent header are what a broker can check at the speed of
the wire. Kafka also walks the records; a client that writes nonsense under a right CRC harms its own readers alone.
"""

from typing import Final

from crc32c import crc32c

from headrace.errors import ApiError, ErrorCode
from headrace.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
)

_ZSTD: Final = 4
_CODEC_LAST: Final = _ZSTD
ZSTD_SINCE_PRODUCE_VERSION: Final = 7


def admit(
    records: memoryview, *, produce_version: int, message_bytes_max: int, timestamp_max: int, timestamp_min: int
) -> BatchHeader:
    """The header of the one whole batch in `records`, or an ApiError."""
    size = len(records)
    if size < HEADER_BYTES:
        if size > LENGTH_END + 4 and records[16] < MAGIC:
            raise _wrong_magic(produce_version)
        # Kafka finds no batch in bytes too short for one.
        raise ApiError(
            ErrorCode.INVALID_RECORD if size < LENGTH_END + 5 else ErrorCode.CORRUPT_MESSAGE,
            f"Produce requests with version {produce_version} must have at least one record batch per partition",
        )
    # The cheapest way from a plain tuple to a named one.
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(records))
    (base_offset, length, _, magic, crc, attributes, last_delta, _, max_timestamp, producer, _, sequence, count) = (
        header
    )
    if magic != MAGIC:
        raise _wrong_magic(produce_version)
    if length != size - LENGTH_END:
        _refuse_length(length, size, produce_version)
    codec = attributes & CODEC_MASK
    if codec >= _ZSTD and (codec > _CODEC_LAST or produce_version < ZSTD_SINCE_PRODUCE_VERSION):
        _refuse_codec(codec, produce_version)
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


def _wrong_magic(version: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD,
        f"Produce requests with version {version} are only allowed to contain record batches with magic version 2",
    )


def _refuse_length(length: int, size: int, version: int) -> None:
    if 0 < length < size - LENGTH_END:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain exactly one record batch per "
            "partition",
        )
    raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Batch length {length} does not fit the {size} bytes sent.")


def _refuse_codec(codec: int, version: int) -> None:
    if codec > _CODEC_LAST:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {codec}")
    raise ApiError(
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
