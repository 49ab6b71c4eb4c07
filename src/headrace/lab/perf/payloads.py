"""What a producer sends: random letters, lines of a file, or numbers in a row. Endless, and the same in every run."""

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from typing import Final

from headrace.errors import ConfigError

# Longer than what a codec looks back on, so that no batch holds the same letters twice.
_POOL_BYTES_MIN: Final = 4 << 20
_CHOSEN_AT_ONCE: Final = 1024
_LETTERS: Final = bytes(ord("A") + number % 26 for number in range(256))


def random_letters(size_bytes: int) -> Iterator[bytes]:
    """Values of capital letters, cut one after the other from a long row of them.

    Kafka's tool makes every letter anew, at a cost that the broker has no part in; what a codec makes of them is the
    same.
    """
    assert size_bytes > 0
    pool = random.Random(0).randbytes(max(_POOL_BYTES_MIN, 4 * size_bytes)).translate(_LETTERS)
    whole = range(0, len(pool) - size_bytes + 1, size_bytes)
    return (pool[start : start + size_bytes] for start in itertools.cycle(whole))


def chosen(payloads: Sequence[bytes]) -> Iterator[bytes]:
    """One of them by chance each time."""
    assert payloads
    choices = random.Random(0).choices
    while True:
        yield from choices(payloads, k=_CHOSEN_AT_ONCE)


def numbers() -> Iterator[bytes]:
    return (str(number).encode() for number in itertools.count())


def split_payloads(text: str, delimiter: str) -> list[bytes]:
    """As Java's Scanner does: the delimiter is a regular expression, and at either end it delimits nothing."""
    try:
        pattern = re.compile("\n" if delimiter == r"\n" else delimiter)
    except re.error as error:
        raise ConfigError(f"--payload-delimiter {delimiter!r} is not a regular expression: {error}") from error
    delimiters = [match.span() for match in pattern.finditer(text)]
    starts = [0, *(end for _, end in delimiters)]
    ends = [*(start for start, _ in delimiters), len(text)]
    pieces = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    if pieces and not pieces[0]:
        pieces = pieces[1:]
    if pieces and not pieces[-1]:
        pieces = pieces[:-1]
    return [piece.encode() for piece in pieces]
