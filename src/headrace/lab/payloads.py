"""What is sent: the values of messages, looped from memory or read as they are needed.

A file gives its lines, a generator what it makes. In memory (`Ring`, the 'read-in-ram' of published experiments)
reading costs a sender nothing while it sends; a `Stream` reads each message from a file when its turn comes, and the
sender pays for that. What a generator makes is in a temporary file by then (`from_disk`): a generator in Python is
slower than any file, and what is measured must not be how fast it is. Message number i of a run is always the same one,
from however many processes: each takes every n-th.

Engines take messages one by one (`take`), or as columns: `reserve` counts the next ones in, `columns` shows those that
were reserved and not yet released, `release` is done with the oldest of them.
"""

import gzip
import tempfile
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from headrace.columnar.record_columns import ByteColumn
from headrace.errors import ConfigError

Int64s = npt.NDArray[np.int64]

# Of a generator, so many messages are kept in memory and looped, or fewer where they are large.
RING_MESSAGES: Final = 1 << 16
RING_BYTES: Final = 64 << 20
# So many are put into a temporary file, or fewer where they are large: it takes a generator two seconds or so.
DISK_MESSAGES: Final = 1 << 18
DISK_BYTES: Final = 128 << 20
# A ring of less is repeated, so that a batch can be filled from it.
_RING_MESSAGES_MIN: Final = 1 << 13


class Payloads(Protocol):
    columns_max: int  # So many messages at a time.

    @property
    def mean_bytes(self) -> float: ...

    def take(self, count: int) -> Sequence[bytes]:
        """The next messages."""
        ...

    def reserve(self, count: int) -> int:
        """Count the next messages in; their size in bytes."""
        ...

    def columns(self, count: int) -> tuple[ByteColumn, Int64s]:
        """The oldest that are reserved: a column and which rows of it, none of them twice."""
        ...

    def release(self, count: int) -> None: ...


class Ring:
    """Messages in memory, over and over."""

    def __init__(self, messages: Iterable[bytes], *, first: int = 0, step: int = 1) -> None:
        """The share of one sender of several is every `step`-th message, from `first` on."""
        every = list(messages)
        if not every:
            raise ConfigError("there is no message to send: the file has no line")
        self._values = [every[(first + n * step) % len(every)] for n in range(len(every))]
        sizes = np.fromiter(map(len, self._values), np.int64, len(self._values))
        times = _repeats(len(sizes), int(sizes.sum()))
        self._values *= times
        self._ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.tile(sizes, times))])
        self._column: ByteColumn | None = None
        self._next = 0
        self._oldest = 0
        self.columns_max = len(self._values)

    @property
    def mean_bytes(self) -> float:
        return float(self._ends[-1]) / len(self._values)

    def take(self, count: int) -> Sequence[bytes]:
        taken: list[bytes] = []
        while len(taken) < count:
            begin = self._next % len(self._values)
            some = self._values[begin : begin + count - len(taken)]
            self._next += len(some)
            taken = taken + some if taken else some
        return taken

    def reserve(self, count: int) -> int:
        before = self._bytes_before(self._next)
        self._next += count
        return self._bytes_before(self._next) - before

    def _bytes_before(self, number: int) -> int:
        rounds, place = divmod(number, len(self._values))
        return rounds * int(self._ends[-1]) + int(self._ends[place])

    def columns(self, count: int) -> tuple[ByteColumn, Int64s]:
        assert self._oldest + count <= self._next
        assert count <= self.columns_max
        if self._column is None:
            self._column = _column(self._values, self._ends)
        return self._column, np.arange(self._oldest, self._oldest + count) % len(self._values)

    def release(self, count: int) -> None:
        self._oldest += count


class Stream:
    """Messages as they come."""

    columns_max = 1 << 16

    def __init__(self, messages: Iterable[bytes], *, first: int = 0, step: int = 1) -> None:
        self._messages: Iterator[bytes] = islice(messages, first, None, step)
        self._reserved: deque[bytes] = deque()
        self._taken = 0
        self._taken_bytes = 0
        ahead = list(islice(self._messages, 1))  # So that a mean is known from the beginning.
        self._first_bytes = len(ahead[0])
        self._messages = chain(ahead, self._messages)

    @property
    def mean_bytes(self) -> float:
        return self._taken_bytes / self._taken if self._taken else float(self._first_bytes)

    def take(self, count: int) -> Sequence[bytes]:
        taken = list(islice(self._messages, count))
        assert len(taken) == count, "a stream has no end"
        self._taken += count
        self._taken_bytes += sum(map(len, taken))
        return taken

    def reserve(self, count: int) -> int:
        before = self._taken_bytes
        self._reserved += self.take(count)
        return self._taken_bytes - before

    def columns(self, count: int) -> tuple[ByteColumn, Int64s]:
        values = list(islice(self._reserved, count))
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        return _column(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])), np.arange(count)

    def release(self, count: int) -> None:
        for _ in range(count):
            self._reserved.popleft()


class Timed:
    """Payloads, and how long it took to make them: what a sender needs before it has anything to send."""

    def __init__(self, payloads: Payloads, now_ns: Callable[[], int]) -> None:
        self._payloads = payloads
        self._now_ns = now_ns
        self.columns_max = payloads.columns_max
        self.making_ns = 0

    @property
    def mean_bytes(self) -> float:
        return self._payloads.mean_bytes

    def take(self, count: int) -> Sequence[bytes]:
        began_ns = self._now_ns()
        taken = self._payloads.take(count)
        self.making_ns += self._now_ns() - began_ns
        return taken

    def reserve(self, count: int) -> int:
        began_ns = self._now_ns()
        size_bytes = self._payloads.reserve(count)
        self.making_ns += self._now_ns() - began_ns
        return size_bytes

    def columns(self, count: int) -> tuple[ByteColumn, Int64s]:
        return self._payloads.columns(count)

    def release(self, count: int) -> None:
        self._payloads.release(count)


def file_lines(path: Path) -> Iterator[bytes]:
    """Without their ends, \\n or \\r\\n. A name that ends with .gz is unpacked."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        for line in lines:
            yield line.rstrip(b"\r\n")


def looped(read: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """From the beginning whenever the end is reached."""
    while True:
        count = 0
        for count, message in enumerate(read(), 1):  # noqa: B007
            yield message
        if not count:
            raise ConfigError("there is no message to send: the file has no line")


def from_disk(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Over and over out of a temporary file, which is written before the first is given.

    The file has no name, so nothing of it is left however the process ends. Messages may have any bytes in them, line
    ends too, so it is their sizes that tell them apart; lines would be read as fast.
    """
    with tempfile.TemporaryFile(prefix="headrace-lab-") as file:
        sizes = array("I")
        for message in messages:
            file.write(message)
            sizes.append(len(message))
        if not sizes:
            raise ConfigError("there is no message to send")
        while True:
            file.seek(0)
            yield from map(file.read, sizes)


def some_of(
    messages: Iterable[bytes], *, messages_max: int = RING_MESSAGES, bytes_max: int = RING_BYTES
) -> Iterator[bytes]:
    """Of an endless generator, as many as a ring keeps, or as it is told."""
    size_bytes = 0
    for message in islice(messages, messages_max):
        yield message
        size_bytes += len(message)
        if size_bytes >= bytes_max:
            return


def _repeats(count: int, size_bytes: int) -> int:
    wanted = -(-_RING_MESSAGES_MIN // count)
    affordable = RING_BYTES // max(1, size_bytes)
    return max(1, min(wanted, affordable))


def _column(values: Sequence[bytes], ends: Int64s) -> ByteColumn:
    return ByteColumn(offsets=ends, data=np.frombuffer(b"".join(values), np.uint8), valid=None)
