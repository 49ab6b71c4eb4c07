"""One simulated file: what the page cache shows, what the device holds, and what a crash makes of both.

The model is what POSIX allows rather than what a kind file system does. Between two syncs every page may
reach the device or not, in any order; the size is metadata and reaches it on its own. So after a crash a page
inside the file may hold old bytes or zeros while a later one survived, a page may be torn between sectors,
the file may end at any byte between its sizes since the last sync, and what was truncated may be back.

A sync that fails is modelled on Linux: the pages it should have written count as clean from then on, though
any of them may be lost, and the next sync reports success without them.
"""

import random
from typing import NamedTuple

PAGE_BYTES = 4096
SECTOR_BYTES = 512
_IMAGES_MAX = 4


class Capture(NamedTuple):
    """What a sync has to make durable: the state of the file when the sync began."""

    write_number: int
    size: int
    pages: dict[int, bytes]


class Inode:
    __slots__ = ("_dirty", "_durable", "_images", "_live", "_synced_number", "_warm", "_write_number")

    def __init__(self, content: bytes = b"") -> None:
        """A file with this content at rest: durable, and not in the page cache."""
        self._live = bytearray(content)
        self._durable = bytearray(content)
        self._write_number = 0
        self._synced_number = 0
        self._dirty: dict[int, int] = {}  # Page to the number of the last write that touched it.
        self._images: list[tuple[int, bytes]] = []  # Contents that a truncation since the last sync ended.
        self._warm: set[int] = set()

    @property
    def size(self) -> int:
        return len(self._live)

    def append(self, data: bytes) -> None:
        start = len(self._live)
        self._live += data
        self._touch(start, len(self._live))

    def truncate(self, size: int) -> None:
        self._write_number += 1
        self._images = [*self._images, (self._write_number, bytes(self._live))][-_IMAGES_MAX:]
        del self._live[size:]
        if size % PAGE_BYTES:
            self._touch(size - 1, size)

    def read(self, position: int, size: int) -> bytes:
        self.warm(position, size)
        return bytes(self._live[position : position + size])

    def is_warm(self, position: int, size: int) -> bool:
        return all(page in self._warm for page in self._pages(position, size))

    def warm(self, position: int, size: int) -> None:
        self._warm.update(self._pages(position, size))

    def evict(self) -> None:
        """Drop every clean page from the cache; they now read as the device has them."""
        for page in range(-(-len(self._live) // PAGE_BYTES)):
            if page not in self._dirty:
                start = page * PAGE_BYTES
                end = min(start + PAGE_BYTES, len(self._live))
                self._live[start:end] = _padded(self._durable[start:end], end - start)
        self._warm = set(self._dirty)

    def capture(self) -> Capture:
        pages = {page: bytes(self._live[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]) for page in self._dirty}
        return Capture(self._write_number, len(self._live), pages)

    def commit(self, captured: Capture) -> None:
        """The sync succeeded: the device holds at least what was captured."""
        if self._is_covered(captured):
            return
        self._resize_durable(captured.size)
        for page, content in captured.pages.items():
            self._durable[page * PAGE_BYTES : page * PAGE_BYTES + len(content)] = content
        self._forget(captured)

    def lose(self, captured: Capture, chance: random.Random) -> None:
        """The sync failed: some of it arrived, and the kernel will not try the rest again."""
        if self._is_covered(captured):
            return
        if chance.random() < 0.5:
            self._resize_durable(captured.size)
        for page, content in captured.pages.items():
            room = content[: max(0, len(self._durable) - page * PAGE_BYTES)]
            if chance.random() < 0.5:
                self._durable[page * PAGE_BYTES : page * PAGE_BYTES + len(room)] = room
        self._forget(captured)

    def kept_all(self) -> bytes:
        """The content after a crash before which everything dirty was written back."""
        content = bytearray(_padded(self._durable[: len(self._live)], len(self._live)))
        for page, piece in self.capture().pages.items():
            content[page * PAGE_BYTES : page * PAGE_BYTES + len(piece)] = piece
        return bytes(content)

    def kept_synced(self) -> bytes:
        """The content after a crash that took everything not synced."""
        return bytes(self._durable)

    def kept_by(self, chance: random.Random, *, written_back: float) -> bytes:
        """The content after a crash that took each unsynced page, and the size, by chance."""
        live = bytes(self._live)
        older = [bytes(self._durable), *(image for _, image in self._images)]
        sizes = [len(live), *map(len, older)]
        size = chance.choice(sizes) if chance.random() < 0.5 else chance.randint(min(sizes), max(sizes))
        content = bytearray(_padded(self._durable[:size], size))
        for page in sorted(self._dirty):
            torn = chance.random() < 0.25
            granule = SECTOR_BYTES if torn else PAGE_BYTES
            for start in range(page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, size), granule):
                end = min(start + granule, size)
                image = live if chance.random() < written_back else chance.choice(older)
                content[start:end] = _padded(image[start:end], end - start)
        return bytes(content)

    def _touch(self, start: int, end: int) -> None:
        self._write_number += 1
        for page in self._pages(start, end - start):
            self._dirty[page] = self._write_number
            self._warm.add(page)

    def _pages(self, position: int, size: int) -> range:
        """Every page of the range, as far as the file goes."""
        end = min(position + size, len(self._live))
        return range(position // PAGE_BYTES, -(-end // PAGE_BYTES)) if position < end else range(0)

    def _resize_durable(self, size: int) -> None:
        del self._durable[size:]
        self._durable.extend(bytes(size - len(self._durable)))

    def _is_covered(self, captured: Capture) -> bool:
        """Whether a sync that began no earlier, through another handle, has finished already."""
        return captured.write_number <= self._synced_number

    def _forget(self, captured: Capture) -> None:
        """What was captured is no longer dirty, except where it was written again meanwhile."""
        number = self._synced_number = captured.write_number
        for page in captured.pages:
            if self._dirty[page] <= number:
                del self._dirty[page]
        self._images = [(made, image) for made, image in self._images if made > number]


def _padded(piece: bytes | bytearray, size: int) -> bytes:
    return bytes(piece).ljust(size, b"\0")
