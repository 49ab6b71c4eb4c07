"""What is sent: in memory or as it comes, one by one or as columns, whole or shared among senders."""

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.lab.payloads import (
    RING_BYTES,
    RING_MESSAGES,
    Payloads,
    Ring,
    Stream,
    Timed,
    file_lines,
    from_disk,
    looped,
    some_of,
)

LINES = [b"a", b"bb", b"", b"dddd", b"eeeee"]
KINDS: dict[str, Callable[[int, int], Payloads]] = {
    "ring": lambda first, step: Ring(LINES, first=first, step=step),
    "stream": lambda first, step: Stream(looped(lambda: LINES), first=first, step=step),
    "disk": lambda first, step: Stream(from_disk(LINES), first=first, step=step),
    "timed": lambda first, step: Timed(Ring(LINES, first=first, step=step), lambda: 0),
}


def shown(payloads: Payloads, count: int) -> list[bytes]:
    column, rows = payloads.columns(count)
    assert len(set(rows.tolist())) == len(rows) == count
    return [bytes(column.data[column.offsets[row] : column.offsets[row + 1]]) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_looped(kind: str) -> None:
    payloads = KINDS[kind](0, 1)
    assert [*payloads.take(3), *payloads.take(4)] == [*LINES, *LINES[:2]]
    assert [*payloads.take(30_000)][-5:] == [*LINES[2:], *LINES[:2]]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_the_same_messages_and_wait_until_they_are_released(kind: str) -> None:
    payloads = KINDS[kind](0, 1)
    assert payloads.reserve(4) == 7
    assert shown(payloads, 4) == LINES[:4]
    payloads.release(3)
    assert payloads.reserve(3) == 5 + 1 + 2
    assert shown(payloads, 2) == LINES[3:]
    assert shown(payloads, 4) == [*LINES[3:], *LINES[:2]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("senders", [1, 2, 3, 5, 7])
def test_message_i_is_the_same_from_however_many_senders(kind: str, senders: int) -> None:
    shares = [KINDS[kind](number, senders).take(40) for number in range(senders)]
    together = [shares[i % senders][i // senders] for i in range(40 * senders)]
    assert together == [LINES[i % len(LINES)] for i in range(40 * senders)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_size(kind: str) -> None:
    payloads = KINDS[kind](0, 1)
    payloads.take(1_000)
    assert payloads.mean_bytes == pytest.approx(12 / 5)


def test_making_messages_is_timed() -> None:
    now_ns = [0]

    def slowly() -> Iterator[bytes]:
        while True:
            now_ns[0] += 100
            yield b"message"

    payloads = Timed(Stream(slowly()), lambda: now_ns[0])
    payloads.take(10)
    assert payloads.making_ns == 900  # The first was there, for the mean.
    payloads.reserve(10)
    assert payloads.making_ns == 1_900
    now_ns[0] += 5_000
    payloads.columns(10)
    payloads.release(10)
    assert payloads.making_ns == 1_900


def test_a_small_ring_fills_a_batch_and_a_ring_of_large_messages_is_not_repeated() -> None:
    assert Ring(LINES).columns_max >= 8_192
    assert Ring([bytes(RING_BYTES)]).columns_max == 1


def test_the_same_ring_gives_columns_beyond_its_end_and_sizes_too() -> None:
    ring = Ring(LINES)
    length = ring.columns_max
    ring.reserve(length - 2)
    ring.release(length - 2)
    assert ring.reserve(4) == sum(len(LINES[(length - 2 + n) % 5]) for n in range(4))
    assert shown(ring, 4) == [LINES[(length - 2 + n) % 5] for n in range(4)]


def test_nothing_to_send_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no message to send"):
        Ring([])
    with pytest.raises(ConfigError, match="no message to send"):
        Stream(looped(list))
    with pytest.raises(ConfigError, match="no message to send"):
        Stream(from_disk([]))


def test_lines_have_no_ends_and_may_be_packed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "log", tmp_path / "log.gz"
    plain.write_bytes(b"one\r\ntwo\n\nlast")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [*file_lines(plain)] == [*file_lines(packed)] == [b"one", b"two", b"", b"last"]


def test_of_an_endless_generator_a_ring_keeps_some() -> None:
    numbers: Iterator[bytes] = (b"%d" % n for n in count())
    assert len([*some_of(numbers)]) == RING_MESSAGES
    large = (bytes(RING_BYTES // 4) for _ in count())
    assert len([*some_of(large)]) == 4


def test_a_stream_reads_no_further_than_it_must() -> None:
    read: list[int] = []

    def numbers() -> Iterator[bytes]:
        for n in count():
            read.append(n)
            yield b"%d" % n

    stream = Stream(numbers())
    stream.take(10)
    assert len(read) == 10
    assert [*islice(stream.take(2), 2)] == [b"10", b"11"]


def test_what_is_generated_is_on_disk_before_the_first_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made: list[int] = []

    def numbers() -> Iterator[bytes]:
        for n in range(1000):
            made.append(n)
            yield b"%d\r\n\0" % n

    stream = Stream(from_disk(numbers()))
    assert len(made) == 1000
    [file] = opened_in(tmp_path)
    assert file.endswith("(deleted)")
    assert [*tmp_path.iterdir()] == []  # Whatever ends this process, nothing is left.
    assert [*stream.take(1002)][-3:] == [b"999\r\n\0", b"0\r\n\0", b"1\r\n\0"]
    assert len(made) == 1000
    del stream
    assert opened_in(tmp_path) == []


def opened_in(directory: Path) -> list[str]:
    """Files that this process has open there, also those without a name."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # The one that lists them is closed by now.
            found.append(os.readlink(descriptor))
    return [path for path in found if path.startswith(f"{directory}/")]


def test_sizes_of_a_column_are_whole() -> None:
    column, rows = (ring := Ring(LINES)).columns(0)
    assert np.diff(column.offsets).tolist()[:5] == [len(line) for line in LINES]
    assert len(rows) == 0
    assert ring.columns_max == len(column)
