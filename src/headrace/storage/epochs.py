"""Which leader epoch wrote from which offset on: `leader-epoch-checkpoint`, in Kafka's text format.

Epochs and offsets both rise. Every batch carries its epoch, so what a crash takes from the file is rebuilt by the
same scan that checks the log.
"""

from bisect import bisect_right
from typing import Final

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochs:
    __slots__ = ("_entries", "dirty")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []
        self.dirty = False

    @property
    def latest(self) -> int:
        return self._entries[-1][0] if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """A batch of `epoch` begins at `start_offset`; only a new epoch makes an entry."""
        entries = self._entries
        if entries and epoch <= entries[-1][0]:
            return
        # An epoch that wrote nothing, and whose start is reached again, never was.
        while entries and entries[-1][1] >= start_offset:
            entries.pop()
        entries.append((epoch, start_offset))
        self.dirty = True

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`."""
        index = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[index - 1][0] if index else UNDEFINED_EPOCH

    def end_offset(self, epoch: int, *, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch not above `epoch`, and the offset where it ends."""
        if epoch == UNDEFINED_EPOCH or not self._entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        index = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        if index == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        end = self._entries[index][1]
        return (self._entries[index - 1][0], end) if index else (epoch, end)

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        while self._entries and self._entries[-1][1] >= end_offset:
            self._entries.pop()
            self.dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`; the epoch that wrote it stays, with that start."""
        index = bisect_right(self._entries, start_offset, key=lambda entry: entry[1])
        if index:
            epoch, start = self._entries[index - 1]
            if index > 1 or start < start_offset:
                self._entries[:index] = [(epoch, start_offset)]
                self.dirty = True

    def encode(self) -> bytes:
        lines = ["0", str(len(self._entries)), *(f"{epoch} {start}" for epoch, start in self._entries)]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> "LeaderEpochs":
        """ValueError where the file is torn; the caller rebuilds from the log."""
        epochs = cls()
        version, count, *lines, rest = data.decode("ascii", "replace").split("\n")
        # Without the last line's end, its number may be one that was cut short.
        if version != "0" or rest:
            raise ValueError(f"leader epoch checkpoint of version {version!r}, ending with {rest!r}")
        entries = [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines)]
        if len(entries) != int(count) or entries != sorted(entries):
            raise ValueError(f"{len(entries)} leader epochs, {count} announced")
        epochs._entries = entries
        return epochs
