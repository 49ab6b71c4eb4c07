"""Rates, sizes and times as people write them."""

from collections.abc import Callable

import pytest

from headrace.errors import ConfigError
from headrace.lab.quantities import parse_rate_per_s, parse_size_bytes, parse_time_s


@pytest.mark.parametrize(("text", "rate"), [("500", 500), ("100K", 100_000), ("1.5M", 1_500_000), ("2k/s", 2_000)])
def test_rates(text: str, rate: float) -> None:
    assert parse_rate_per_s(text) == rate


@pytest.mark.parametrize(("text", "size"), [("16384", 16_384), ("16KiB", 16_384), ("1MB", 10**6), ("0.5GiB", 2**29)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("10m", 600), ("1.5h", 5400)])
def test_times(text: str, seconds: float) -> None:
    assert parse_time_s(text) == seconds


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *((parse_rate_per_s, text) for text in ("", "fast", "-5", "0", "1G", "K")),
        *((parse_size_bytes, text) for text in ("", "-1", "16 KiB", "1TB", "KiB")),
        *((parse_time_s, text) for text in ("", "10", "1d", "-1s", "s")),
    ],
)
def test_anything_else_is_told(parse: Callable[[str], float], text: str) -> None:
    with pytest.raises(ConfigError, match="such as"):
        parse(text)
