"""Messages of given sizes and a given compressibility, seeded.

A message begins with bytes that are in every message and goes on with bytes of chance: the first can be compressed to
next to nothing, the second not at all. `compressible` is the share of the first, so that a batch of many messages
compresses to about one minus that.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.errors import ConfigError

_BLOCK: Final = 1024
_SIZE_BYTES_MAX: Final = 1 << 27
_NUMBER: Final = r"\d+(?:\.\d+)?"
_FIXED: Final = re.compile(r"(\d+)")
_UNIFORM: Final = re.compile(r"(\d+)-(\d+)")
_NORMAL: Final = re.compile(rf"normal:({_NUMBER}),({_NUMBER})")
_LOGNORMAL: Final = re.compile(rf"lognormal:({_NUMBER}),({_NUMBER})")
_FILLER: Final = b"the river turns the wheel, the wheel turns the stone, and the miller counts the sacks. "

Draw = Callable[[np.random.Generator, int], npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes in bytes as a text says: `200`, `100-300` (evenly), `normal:MEAN,SD` or `lognormal:MEDIAN,SIGMA`."""

    text: str

    def __post_init__(self) -> None:
        self._draw()

    def draw(self, random: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        return np.clip(np.rint(self._draw()(random, count)), 0, _SIZE_BYTES_MAX).astype(np.int64)

    def _draw(self) -> Draw:
        if (match := _FIXED.fullmatch(self.text)) is not None:
            size = float(match[1])
            return lambda random, count: np.full(count, size)
        if (match := _UNIFORM.fullmatch(self.text)) is not None:
            low, high = int(match[1]), int(match[2])
            if low <= high:
                return lambda random, count: random.integers(low, high, count, endpoint=True).astype(np.float64)
        if (match := _NORMAL.fullmatch(self.text)) is not None:
            mean, deviation = float(match[1]), float(match[2])
            return lambda random, count: random.normal(mean, deviation, count)
        if (match := _LOGNORMAL.fullmatch(self.text)) is not None:
            median, sigma = float(match[1]), float(match[2])
            return lambda random, count: random.lognormal(np.log(median), sigma, count)
        raise ConfigError(
            f"size {self.text!r} is none of 200, 100-300, normal:MEAN,SD and lognormal:MEDIAN,SIGMA, in bytes"
        )


def messages(seed: int, sizes: Sizes, *, compressible: float) -> Iterator[bytes]:
    """Endless messages. The same arguments give the same ones."""
    if not 0 <= compressible <= 1:
        raise ConfigError(f"compressible {compressible:g} is not a share from 0 to 1")
    random = np.random.default_rng(seed)
    filler = b""
    while True:
        drawn = sizes.draw(random, _BLOCK)
        same = np.rint(drawn * compressible).astype(np.int64)
        if len(filler) < same.max():
            filler = _FILLER * (int(same.max()) // len(_FILLER) + 1)
        for total, shared in zip(drawn.tolist(), same.tolist(), strict=True):
            yield filler[:shared] + random.bytes(total - shared)
