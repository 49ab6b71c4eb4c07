"""The last offset of each key, in bounded memory.

Compaction keeps the last record of each key. It learns which that is by reading the dirty part of a log as far as the
keys fit in here: what lies behind waits for the next cleaning, so that memory is bounded whatever the log holds.

Long keys are known by a digest, as in Kafka. Two keys of one digest would be taken for one; with 128 bits that takes
more keys than any log can hold.
"""

from array import array
from bisect import bisect_left
from hashlib import blake2b
from typing import Final

from headrace.protocol.record_walk import NO_KEY, walk_records

# What one key takes in the worst case, while the table doubles; a test holds it.
KEY_BYTES: Final = 200
_DIGEST_BYTES: Final = 16


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


class KeyMap:
    """`end_offset` is up to where the log was read: nothing is known of what lies behind."""

    __slots__ = ("_last", "_offsets", "end_offset", "keys_max", "start_offset")

    def __init__(self, *, start_offset: int, bytes_max: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.keys_max = bytes_max // KEY_BYTES
        self._last: dict[bytes, int] = {}
        self._offsets: array[int] | None = None

    def __len__(self) -> int:
        return len(self._last)

    def put(self, base_offset: int, payload: bytes, count: int) -> bool:
        """Take the keys of a batch's records, whose offsets rise; whether there was room for all of them.

        Those that were taken before there was none do no harm: nothing is said of offsets behind `end_offset`, and what
        they supersede is superseded. A loop of its own: every record of the dirty part comes here.
        """
        last, start_offset, keys_max = self._last, self.start_offset, self.keys_max
        for _, _, delta, key_at, key_end in walk_records(payload, count):
            if key_at != NO_KEY and base_offset + delta >= start_offset:
                if len(last) >= keys_max:
                    return False
                key = payload[key_at:key_end]
                last[key if key_end - key_at < _DIGEST_BYTES else _digest(key)] = base_offset + delta
        return True

    def is_last(self, key: bytes, offset: int) -> bool:
        """Whether no later record of this key is known."""
        last = self._last.get(key if len(key) < _DIGEST_BYTES else _digest(key))
        return last is None or offset >= last

    def last_offsets(self, first: int, last: int) -> "array[int]":
        """Which of these offsets hold the last record of a key, of a range that was read: its keys need not be."""
        if self._offsets is None:
            self._offsets = array("q", sorted(self._last.values()))
        offsets = self._offsets
        return offsets[bisect_left(offsets, first) : bisect_left(offsets, last + 1)]
