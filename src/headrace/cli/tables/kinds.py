"""Which kinds of files tables are exported to and imported from, and how one is known by its name.

Loads nothing: the options of commands are made of it.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from headrace.errors import ConfigError


class Kind(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    ARROW = "arrow"
    ARROWS = "arrows"  # Arrow's stream: the same without a table of contents at the end.


class Facts(NamedTuple):
    suffixes: Sequence[str]
    compressions: Sequence[str]  # The first is used where none is asked for.


KINDS: Final = {
    Kind.PARQUET: Facts((".parquet", ".pq"), ("zstd", "snappy", "gzip", "lz4", "none")),
    Kind.CSV: Facts((".csv",), ("none",)),
    Kind.JSONL: Facts((".jsonl", ".ndjson"), ("none",)),
    Kind.ARROW: Facts((".arrow", ".feather", ".ipc"), ("none", "lz4", "zstd")),
    Kind.ARROWS: Facts((".arrows",), ("none",)),
}
_BY_SUFFIX: Final = {suffix: kind for kind, facts in KINDS.items() for suffix in facts.suffixes}


def kind_of(path: Path, given: Kind | None) -> Kind:
    """The kind that was asked for, or the one that the name of a file tells."""
    if given is not None:
        return given
    if (kind := _BY_SUFFIX.get(path.suffix.lower())) is not None:
        return kind
    raise ConfigError(f"{path}: the name tells no format; call it {' '.join(_BY_SUFFIX)}, or say --format")


def compression_of(kind: Kind, given: str | None) -> str:
    there = KINDS[kind].compressions
    if given is None:
        return there[0]
    if given not in there:
        raise ConfigError(f"--compression {given}: {kind} has {', '.join(there)}")
    return given
