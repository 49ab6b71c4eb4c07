"""Kafka's murmur2 in numpy: four bytes of all keys at a time."""

from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.columnar.kernel import Int32s
from headrace.columnar.record_columns import ByteColumn

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
# Below so many keys that go on, Python hashes them faster one by one.
_IN_STEP_MIN: Final = 16


def murmur2(keys: ByteColumn) -> Int32s:
    """The longest keys go first, so that those that go on lie side by side."""
    sizes = np.maximum(keys.sizes(), 0)
    order = np.argsort(-sizes, kind="stable")
    sizes, at = sizes[order], keys.offsets[:-1][order]
    words = np.ndarray((max(0, len(keys.data) - 3),), np.dtype("<u4"), keys.data.data, strides=(1,))
    factor = np.uint32(_FACTOR)
    hashes = np.uint32(_SEED) ^ sizes.astype(np.uint32)
    steps = int(sizes[_IN_STEP_MIN - 1]) // 4 if len(sizes) >= _IN_STEP_MIN else 0
    widths = np.searchsorted(-(sizes // 4), -np.arange(steps), side="left").tolist()
    for step, width in enumerate(widths):
        word = words[at[:width] + 4 * step] * factor
        word ^= word >> np.uint32(24)
        word *= factor
        hashes[:width] *= factor
        hashes[:width] ^= word
    for index in range(len(sizes)):  # The few that are longer than all the others, which may be very long.
        if sizes[index] // 4 <= steps:
            break
        begin = int(at[index])
        hashes[index] = _hash_words(int(hashes[index]), words[begin + 4 * steps : begin + int(sizes[index]) - 3 : 4])
    tails, rests = at + sizes // 4 * 4, sizes % 4
    for index in (2, 1, 0):
        chosen = np.flatnonzero(rests > index)
        hashes[chosen] ^= keys.data[tails[chosen] + index].astype(np.uint32) << np.uint32(8 * index)
    hashes[rests > 0] *= factor
    hashes ^= hashes >> np.uint32(13)
    hashes *= factor
    hashes ^= hashes >> np.uint32(15)
    ordered = np.empty(len(hashes), np.int32)
    ordered[order] = hashes.view(np.int32)
    return ordered


def _hash_words(value: int, words: npt.NDArray[np.uint32]) -> int:
    for word in words.tolist():
        word = word * _FACTOR & 0xFFFFFFFF
        word = (word ^ word >> 24) * _FACTOR & 0xFFFFFFFF
        value = value * _FACTOR & 0xFFFFFFFF ^ word
    return value
