"""Sizes as they were asked for, and messages that compress as far as they were asked to."""

from itertools import islice
from statistics import mean, median, pstdev

import pytest

from headrace.errors import ConfigError
from headrace.lab.sizes import Sizes, messages
from headrace.protocol.compression import Codec, compress


def some(text: str, count: int = 20_000, *, seed: int = 1, compressible: float = 0.0) -> list[bytes]:
    return [*islice(messages(seed, Sizes(text), compressible=compressible), count)]


def test_fixed() -> None:
    assert {len(message) for message in some("200", 3_000)} == {200}
    assert {len(message) for message in some("0", 10)} == {0}


def test_evenly_between_two() -> None:
    lengths = [len(message) for message in some("100-300")]
    assert (min(lengths), max(lengths)) == (100, 300)
    assert mean(lengths) == pytest.approx(200, abs=2)


def test_normal_and_lognormal() -> None:
    lengths = [len(message) for message in some("normal:200,30")]
    assert mean(lengths) == pytest.approx(200, abs=1)
    assert pstdev(lengths) == pytest.approx(30, rel=0.05)
    skewed = [len(message) for message in some("lognormal:200,0.5")]
    assert median(skewed) == pytest.approx(200, rel=0.03)
    assert mean(skewed) > 215


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_a_batch_compresses_to_what_is_left_to_chance(share: float) -> None:
    batch = b"".join(some("1000", 200, compressible=share))
    packed = compress(Codec.ZSTD, batch)
    assert len(packed) / len(batch) == pytest.approx(1 - share, abs=0.03)


def test_the_seed_decides() -> None:
    assert some("50-90", 100) == some("50-90", 100)
    assert some("50-90", 100) != some("50-90", 100, seed=2)


@pytest.mark.parametrize("text", ["", "big", "-5", "300-100", "normal:5", "lognormal:,"])
def test_what_is_no_size_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="is none of 200, 100-300"):
        Sizes(text)


def test_more_than_everything_cannot_be_alike() -> None:
    with pytest.raises(ConfigError, match="share from 0 to 1"):
        some("10", 1, compressible=1.5)
