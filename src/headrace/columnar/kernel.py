"""The work that is done once per record, behind one interface with two implementations.

`vectorised` is numpy and always there; `compiled` calls an extension that is built where there is a compiler.
They give the same arrays for the same bytes, and refuse the same bytes: tests hold them to that and both to
`protocol.records`. `HEADRACE_KERNEL` (`c` or `numpy`) chooses; without it, the compiled one is taken where it is there.

Positions are those in one joined buffer of less than 2 GiB. A size of -1 is a null.
"""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.columnar.record_columns import ByteColumn, RecordColumns
from headrace.errors import ConfigError

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class Malformed(Exception):
    """Some record in some batch breaks the format. Which, and how, is told by reading them one by one."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Where byte strings are, in rising order."""

    starts: Int32s
    sizes: Int32s

    def take(self, rows: Int64s) -> "Spans":
        return Spans(self.starts[rows], self.sizes[rows])


@dataclass(frozen=True, slots=True)
class Located:
    """Where the fields of every record are. Offsets and timestamps are absolute.

    The headers of all records follow one another in `header_names` and `header_values`; None if nobody asked.
    """

    offsets: Int64s
    timestamps: Int64s
    keys: Spans
    values: Spans
    header_counts: Int32s
    header_names: Spans | None
    header_values: Spans | None


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Batch k begins with row `firsts[k]` of the rows to be written.

    `contents` is what `measure` said of the rows, and `size_bytes_max` what all batches take at most.
    """

    firsts: Int64s
    contents: Int64s
    size_bytes_max: int


@dataclass(frozen=True, slots=True)
class Written:
    """Batch k, beginning with room for its header, is `data[edges[k] : edges[k + 1]]`."""

    data: Bytes
    edges: Int64s


class Kernel(Protocol):
    def locate(self, data: Bytes, batches: npt.NDArray[np.void], *, headers: bool) -> Located:
        """Walk and check every record of these batches (`opening.BATCH`), headers included, whoever asks for them."""
        ...

    def gather(self, data: Bytes, spans: Spans) -> pa.BinaryArray:
        """Copy byte strings into a column of their own."""
        ...

    def measure(self, columns: RecordColumns, rows: Int64s) -> Int64s:
        """How many bytes each of these rows takes as a record, but for its size, timestamp and offset."""
        ...

    def write(self, columns: RecordColumns, rows: Int64s, plan: WritePlan) -> Written:
        """Write these rows as the records of batches."""
        ...

    def murmur2(self, keys: ByteColumn) -> Int32s:
        """The hash by which Kafka's own clients choose a partition. A null is hashed as if empty."""
        ...


def is_compiled() -> bool:
    """Whether the extension was built. One that was and does not load is an error, not a reason to do without."""
    return find_spec("headrace.columnar._kernel") is not None


def choose(name: str | None) -> Kernel:
    """The kernel of that name, or the better one that there is. Both import this module, so not before it is whole."""
    match name or ("c" if is_compiled() else "numpy"):
        case "numpy":
            from headrace.columnar import vectorised

            return vectorised
        case "c":
            if not is_compiled():
                raise ConfigError("HEADRACE_KERNEL is 'c', but it was not built: install again, with a C compiler")
            from headrace.columnar import compiled

            return compiled
        case _:
            raise ConfigError(f"HEADRACE_KERNEL is {name!r}; it may be 'c' or 'numpy'")


KERNEL: Final[Kernel] = choose(os.environ.get("HEADRACE_KERNEL"))
