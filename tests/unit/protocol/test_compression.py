import contextlib
import gzip
import random
import subprocess
import sys
import zlib

import cramjam
import pytest

from headrace.errors import CorruptBatch
from headrace.protocol.compression import Codec, compress, decompress, parse_codec

CHANCE = random.Random(11)
TEXTS = {
    "empty": b"",
    "one byte": b"x",
    "text": b"the quick brown fox " * 50,
    "longer than a block": bytes(range(256)) * 2_000,
    "noise": CHANCE.randbytes(300_000),
}
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
BOUND = 1 << 20

every_codec = pytest.mark.parametrize("codec", list(Codec))
every_compressed = pytest.mark.parametrize("codec", COMPRESSED)


@every_codec
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_round_trip_within_an_exact_bound(codec: Codec, text: bytes) -> None:
    for make in (bytes, bytearray, memoryview):
        compressed = compress(codec, make(text))
        assert isinstance(compressed, bytes)
        assert decompress(codec, make(compressed), output_bytes_max=len(text)) == text
        assert decompress(codec, make(compressed), output_bytes_max=BOUND) == text


@every_codec
@pytest.mark.parametrize("size", [1, 100, 70_000, 600_000])
def test_one_byte_beyond_the_bound_is_refused(codec: Codec, size: int) -> None:
    compressed = compress(codec, bytes(size))
    with pytest.raises(CorruptBatch):
        decompress(codec, compressed, output_bytes_max=size - 1)


@every_compressed
def test_an_output_far_larger_than_first_guessed_is_found(codec: Codec) -> None:
    size = 3_000_000
    assert decompress(codec, compress(codec, bytes(size)), output_bytes_max=size) == bytes(size)


MEASURE = """
import resource, sys
from headrace.errors import CorruptBatch
from headrace.protocol.compression import Codec, decompress

def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

bomb = sys.stdin.buffer.read()
before_kib = peak_kib()
try:
    decompress(Codec(int(sys.argv[1])), bomb, output_bytes_max=1 << 20)
except CorruptBatch:
    print(peak_kib() - before_kib)
"""


@every_compressed
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in other units elsewhere")
def test_a_bomb_takes_no_more_memory_than_allowed(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    assert len(bomb) < 4 << 20
    command = [sys.executable, "-c", MEASURE, str(int(codec))]
    measured = subprocess.run(command, input=bomb, stdout=subprocess.PIPE, check=True, timeout=60)
    grown_kib = int(measured.stdout)
    assert grown_kib < 16 * 1024


@every_compressed
def test_every_cut_is_refused(codec: Codec) -> None:
    compressed = compress(codec, b"the quick brown fox jumps over " * 20)
    for size in range(len(compressed)):
        if codec is Codec.SNAPPY and size == len(compress(codec, b"")):
            continue  # Blocks end where the data ends: nothing tells a header without any from one cut there.
        with pytest.raises(CorruptBatch):
            decompress(codec, compressed[:size], output_bytes_max=BOUND)


@every_compressed
def test_noise_and_mutations_are_read_or_refused(codec: Codec) -> None:
    chance = random.Random(codec)
    compressed = compress(codec, bytes(range(256)) * 10)
    for _ in range(300):
        mutated = bytearray(compressed)
        for _ in range(chance.randint(1, 4)):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        for data in (bytes(mutated), chance.randbytes(chance.randint(0, 60))):
            with contextlib.suppress(CorruptBatch):
                assert len(decompress(codec, data, output_bytes_max=10_000)) <= 10_000


def test_gzip_of_several_members() -> None:
    joined = gzip.compress(b"hello ") + gzip.compress(b"") + gzip.compress(b"world")
    assert decompress(Codec.GZIP, joined, output_bytes_max=11) == b"hello world"
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, joined, output_bytes_max=10)


def test_what_we_gzip_the_standard_library_reads() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXTS["text"])) == TEXTS["text"]


def test_snappy_raw_as_librdkafka_sends_it() -> None:
    text = TEXTS["longer than a block"]
    raw = bytes(cramjam.snappy.compress_raw(text))
    assert decompress(Codec.SNAPPY, raw, output_bytes_max=len(text)) == text
    # By hand from the format: a length of 5, then one literal of 5 bytes.
    assert decompress(Codec.SNAPPY, b"\x05\x10hello", output_bytes_max=5) == b"hello"


XERIAL = b"\x82SNAPPY\x00" + bytes.fromhex("0000000100000001")
HELLO_BLOCK = bytes.fromhex("00000007") + b"\x05\x10hello"


def test_snappy_in_xerial_blocks_as_java_sends_it() -> None:
    assert decompress(Codec.SNAPPY, XERIAL, output_bytes_max=0) == b""
    assert decompress(Codec.SNAPPY, XERIAL + HELLO_BLOCK * 2, output_bytes_max=10) == b"hellohello"
    assert decompress(Codec.SNAPPY, (XERIAL + HELLO_BLOCK) * 2, output_bytes_max=10) == b"hellohello"
    with pytest.raises(CorruptBatch):
        decompress(Codec.SNAPPY, XERIAL + HELLO_BLOCK * 2, output_bytes_max=9)


@pytest.mark.parametrize(
    "broken",
    [
        XERIAL[:-1],
        XERIAL + HELLO_BLOCK + XERIAL[:9],
        XERIAL + b"\x00",
        XERIAL + bytes.fromhex("ffffffff") + b"hello",
        XERIAL + bytes.fromhex("7fffffff") + b"hello",
        XERIAL + bytes.fromhex("00000000"),
        b"\xff\xff\xff\xff\x0f",
        b"\x06\x10hello",
        b"",
    ],
)
def test_broken_snappy_is_refused(broken: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.SNAPPY, broken, output_bytes_max=BOUND)


def test_our_snappy_is_xerial() -> None:
    compressed = compress(Codec.SNAPPY, b"hello")
    assert compressed == XERIAL + HELLO_BLOCK


def test_our_lz4_has_independent_blocks_since_java_refuses_others() -> None:
    compressed = compress(Codec.LZ4, TEXTS["longer than a block"])
    assert compressed[:4].hex() == "04224d18"
    version, independent = compressed[4] >> 6, compressed[4] >> 5 & 1
    assert (version, independent) == (1, 1)


@pytest.mark.parametrize(("size", "block_bytes"), [(0, 1 << 16), (1 << 16, 1 << 16), ((1 << 16) + 1, 1 << 18)])
def test_a_reader_of_lz4_makes_no_more_room_than_it_needs(size: int, block_bytes: int) -> None:
    frame = compress(Codec.LZ4, bytes(size))
    assert 1 << (8 + 2 * (frame[5] >> 4)) == block_bytes


def test_lz4_with_linked_blocks_is_read() -> None:
    compressor = cramjam.lz4.Compressor(block_linked=True)
    compressor.compress(TEXTS["longer than a block"])
    linked = bytes(compressor.finish())
    assert linked[4] >> 5 & 1 == 0
    assert decompress(Codec.LZ4, linked, output_bytes_max=BOUND) == TEXTS["longer than a block"]


def test_zstd_frames_that_do_not_tell_their_size() -> None:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(TEXTS["text"])
    streamed = bytes(compressor.finish())
    single_segment, size_flag = streamed[4] >> 5 & 1, streamed[4] >> 6
    assert (single_segment, size_flag) == (0, 0)
    assert decompress(Codec.ZSTD, streamed, output_bytes_max=BOUND) == TEXTS["text"]
    assert decompress(Codec.ZSTD, streamed * 2, output_bytes_max=BOUND) == TEXTS["text"] * 2


@every_compressed
def test_what_follows_the_compressed_data_is_not_overlooked(codec: Codec) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, b"hello") + b"junk junk junk", output_bytes_max=BOUND)


def test_deflate_without_gzip_is_not_gzip() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, zlib.compress(b"hello"), output_bytes_max=BOUND)


def test_codecs_have_kafkas_numbers() -> None:
    assert {codec.name: codec.value for codec in Codec} == {
        "NONE": 0, "GZIP": 1, "SNAPPY": 2, "LZ4": 3, "ZSTD": 4,
    }  # fmt: skip
    assert parse_codec(4) is Codec.ZSTD
    for number in (5, 6, 7):
        with pytest.raises(CorruptBatch, match=f"no compression codec {number}"):
            parse_codec(number)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("level", [None, 0, 3, 12])
def test_lz4_frames_are_independent_blocks_at_every_level(text: bytes, level: int | None) -> None:
    """Java's reader refuses linked ones."""
    frame = compress(Codec.LZ4, text, level=level)
    assert frame.startswith(b"\x04\x22\x4d\x18")
    assert frame[4] & 0b0010_0000
    assert bytes(cramjam.lz4.decompress(frame)) == text
