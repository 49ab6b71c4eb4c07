"""Rates, sizes and lengths of time as people write them: 250K, 16KiB, 30s. ConfigError for anything else."""

import re
from typing import Final

from headrace.errors import ConfigError

_NUMBER: Final = r"(\d+(?:\.\d+)?)"
_RATE: Final = re.compile(_NUMBER + r"([kKM]?)(?:/s)?")
_RATE_UNITS: Final = {"": 1, "k": 1_000, "K": 1_000, "M": 1_000_000}
_SIZE: Final = re.compile(_NUMBER + r"(B|KB|KiB|MB|MiB|GB|GiB)?")
_SIZE_UNITS: Final = {"B": 1, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
_TIME: Final = re.compile(_NUMBER + r"(ms|s|m|h)")
_TIME_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_rate_per_s(text: str) -> float:
    """100, 100K, 1.5M."""
    if (match := _RATE.fullmatch(text)) is None or float(match[1]) == 0:
        raise ConfigError(f"{text!r} is not a rate such as 500, 100K or 1.5M")
    return float(match[1]) * _RATE_UNITS[match[2]]


def parse_size_bytes(text: str) -> int:
    """16384, 16KiB, 1MB."""
    if (match := _SIZE.fullmatch(text)) is None:
        raise ConfigError(f"{text!r} is not a size such as 16384, 16KiB or 1MB")
    return round(float(match[1]) * _SIZE_UNITS[match[2] or "B"])


def parse_time_s(text: str) -> float:
    """500ms, 30s, 10m."""
    if (match := _TIME.fullmatch(text)) is None:
        raise ConfigError(f"{text!r} is not a length of time such as 500ms, 30s or 10m")
    return float(match[1]) * _TIME_UNITS_S[match[2]]
