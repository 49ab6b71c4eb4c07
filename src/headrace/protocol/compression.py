"""The codecs a record batch may be compressed with, and a decompression that cannot be made to explode.

The broker passes compressed batches through untouched; this is for whoever opens them: clients, tools,
compaction. It never makes more output than its caller allows, however small and clever the
input: codecs write into a buffer of limited size and fail when it is full. Whatever is wrong with the input
is a `CorruptBatch`.

What is found in the wild, and read here: gzip of several members; snappy both raw (librdkafka) and in the
blocks of the xerial library (Java); lz4 frames with linked or independent blocks; zstd frames that do not
tell their size. What is written is what Kafka's own producer writes: xerial blocks, and lz4 frames of
independent blocks, since Java's reader refuses linked ones. Its blocks are of 32 KiB (snappy) and 64 (lz4), ours of
256: each is a call that lets other threads run and then waits for its turn. With these the columnar client was seen to
write 14% and 6% more rows a second; with whole batches a broker's JVM took longer to open them than was won.
"""

import mmap
import zlib
from collections.abc import Callable, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final

import cramjam

from headrace.errors import CorruptBatch
from headrace.ports import Buffer


class Codec(IntEnum):
    """As numbered in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\0\0\0\1" * 2  # Its version, and the oldest that can read it.
_XERIAL_BLOCK_BYTES: Final = 256 * 1024
_BLOCK_SIZE: Final = Struct(">i")
# Of independent blocks without checksums, which the batch has; how large one may be, and the checksum of just that.
# A reader makes room for the largest: what fits into a small one does not ask for more.
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_SMALL_BYTES: Final = 64 * 1024
_LZ4_SMALL_HEADER: Final = _LZ4_MAGIC + b"\x60\x40" + b"\x82"
_LZ4_BLOCK_BYTES: Final = 256 * 1024
_LZ4_HEADER: Final = _LZ4_MAGIC + b"\x60\x50" + b"\xfb"
_LZ4_BLOCK_SIZE: Final = Struct("<I")
_LZ4_STORED: Final = 1 << 31  # Added to the size of a block that is not compressed.
_LZ4_END: Final = bytes(4)
_LZ4_HIGH_LEVEL_MIN: Final = 3  # Those below it are the fast way, which is the default.
_GZIP_BITS: Final = 16 + zlib.MAX_WBITS


def parse_codec(number: int) -> Codec:
    try:
        return Codec(number)
    except ValueError:
        raise CorruptBatch(f"there is no compression codec {number}") from None


def compress(codec: Codec, data: Buffer, *, level: int | None = None) -> bytes:
    """`level` is the codec's own; None for its default. Snappy has none, and no compression has none."""
    return b"".join(compress_parts(codec, data, level=level))


def compress_parts(codec: Codec, data: Buffer, *, level: int | None = None) -> Sequence[Buffer]:
    """The same, for whoever joins it with something else: what `compress` gives is these, one behind the other."""
    match codec:
        case Codec.NONE:
            return [data]
        case Codec.GZIP:
            # The standard library's was seen to take two thirds of the time of cramjam's, for a twentieth more space.
            return [zlib.compress(data, -1 if level is None else level, wbits=_GZIP_BITS)]
        case Codec.SNAPPY:
            return xerial_parts(data, lambda block: memoryview(cramjam.snappy.compress_raw(block)))
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            return [memoryview(cramjam.zstd.compress(data, level))]


def decompress(codec: Codec, data: Buffer, *, output_bytes_max: int) -> bytes:
    if codec is Codec.NONE:
        if len(data) > output_bytes_max:
            raise CorruptBatch(f"{len(data)} bytes of records exceed {output_bytes_max}")
        return bytes(data)
    output = make_room(output_bytes_max)
    return bytes(output[: decompress_into(codec, data, output)])


def make_room(size_bytes: int) -> memoryview:
    """A buffer to decompress into, as large as the output may be.

    Few codecs tell the size beforehand, and a size told cannot be trusted. The buffer is a mapping of its own, so
    that only what is written to takes memory: bad input costs nothing, and there is no guess to repeat.
    """
    mapped = mmap.mmap(-1, max(1, size_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memoryview(mapped)[:size_bytes]  # It is unmapped with the last view of it.


def decompress_into(codec: Codec, data: Buffer, output: memoryview) -> int:
    """Decompress to the beginning of `output`; how many bytes that were. What does not fit is a `CorruptBatch`."""
    size: int
    try:
        match codec:
            case Codec.NONE:
                size = len(data)
                if size > len(output):
                    raise CorruptBatch(f"{size} bytes of records exceed {len(output)}")
                output[:size] = data
            case Codec.GZIP:
                size = cramjam.gzip.decompress_into(data, output)
            case Codec.SNAPPY if data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
                size = _decompress_xerial(data, output)
            case Codec.SNAPPY:
                size = cramjam.snappy.decompress_raw_into(data, output)
            case Codec.LZ4:
                size = cramjam.lz4.decompress_into(data, output)
            case Codec.ZSTD:
                size = cramjam.zstd.decompress_into(data, output)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"records do not decompress within {len(output)} bytes: {error}") from None
    return size


def xerial_parts(data: Buffer, compress_raw: Callable[[Buffer], Buffer]) -> Sequence[Buffer]:
    """Blocks of raw snappy, by whoever can make them, in the frame of the xerial library."""
    parts: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = compress_raw(data[start : start + _XERIAL_BLOCK_BYTES])
        parts += (_BLOCK_SIZE.pack(len(block)), block)
    return parts


def _compress_lz4(data: Buffer, level: int | None) -> Sequence[Buffer]:
    if level is not None and level >= _LZ4_HIGH_LEVEL_MIN:
        compressor = cramjam.lz4.Compressor(level=level, block_linked=False)
        compressor.compress(bytes(data))
        return [memoryview(compressor.finish())]
    # A frame by hand, as Kafka's producer makes it: cramjam's lets no other thread run, and takes half as long again.
    parts: list[Buffer] = [_LZ4_HEADER if len(data) > _LZ4_SMALL_BYTES else _LZ4_SMALL_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = memoryview(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_LZ4_BLOCK_SIZE.pack(len(block)), block)
        else:
            parts += (_LZ4_BLOCK_SIZE.pack(len(plain) | _LZ4_STORED), plain)
    return [*parts, _LZ4_END]


def _decompress_xerial(data: Buffer, output: memoryview) -> int:
    written = 0
    position = 0
    while position < len(data):
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)  # Streams may be joined, each with its header.
            continue
        start = position + _BLOCK_SIZE.size
        size = int.from_bytes(data[position:start], "big", signed=True)
        position = start + size
        if start > len(data) or not 0 <= size <= len(data) - start:
            raise CorruptBatch("a snappy block is cut off")
        written += cramjam.snappy.decompress_raw_into(data[start:position], output[written:])
    if position > len(data):
        raise CorruptBatch("a snappy header is cut off")
    return written
