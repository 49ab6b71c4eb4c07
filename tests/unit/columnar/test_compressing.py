"""Arrow's codecs write what everybody's readers read, and as small as the node's own."""

import cramjam
import pytest

from headrace.columnar.compressing import compress_columns
from headrace.protocol.compression import Codec, compress, decompress

LINES = b"".join(b"10.0.%d.%d GET /shop/%d 200\n" % (n % 7, n % 251, n) for n in range(30_000))  # Several blocks.


@pytest.mark.parametrize("data", [b"", b"x", bytes(1000), LINES], ids=["nothing", "a byte", "zeros", "lines"])
@pytest.mark.parametrize("codec", Codec)
def test_what_is_compressed_comes_back(codec: Codec, data: bytes) -> None:
    packed = b"".join(compress_columns(codec, memoryview(data), level=None))
    assert decompress(codec, packed, output_bytes_max=len(data)) == data


@pytest.mark.parametrize("level", [None, -5, 1, 3, 9, 19])
def test_levels_of_zstd_are_zstds_own(level: int | None) -> None:
    packed = b"".join(compress_columns(Codec.ZSTD, memoryview(LINES), level=level))
    assert bytes(cramjam.zstd.decompress(packed)) == LINES
    assert len(packed) == pytest.approx(len(compress(Codec.ZSTD, LINES, level=3 if level is None else level)), rel=0.05)


def test_a_higher_level_makes_it_smaller() -> None:
    sizes = [len(b"".join(compress_columns(Codec.ZSTD, LINES, level=level))) for level in (-5, 1, 19)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3
