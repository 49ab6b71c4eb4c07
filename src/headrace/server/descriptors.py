"""A limited number of descriptors for an unlimited number of files.

Whoever is given a descriptor holds it until it gives it back or another file needs one. Which file has to give
way is decided by the second-chance rule: the first one not touched again since it was opened, or since the
search last passed it. A true least-recently-used order would cost every append a move in a linked list, and
this costs it one store; nor does a single pass over all files drive out the busy ones.
"""

import errno
import os
from collections import OrderedDict
from typing import Protocol

_TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)


class Holder(Protocol):
    path: str
    held: int  # Its descriptor, or -1 while it has none.
    touched: bool  # Set by the holder at every use but the first.


class DescriptorPool:
    def __init__(self, root: str, *, descriptors_max: int) -> None:
        assert descriptors_max >= 1
        self.root = os.path.abspath(root)
        self.descriptors_max = descriptors_max
        self.opens = 0
        self.evictions = 0
        self._holders: OrderedDict[Holder, str] = OrderedDict()  # Each with the folder of the root that it is below:
        self._by_folder: dict[str, set[Holder]] = {}  # to leave one of thousands must not cost a look at all of them.

    def __len__(self) -> int:
        return len(self._holders)

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def open(self, path: str, flags: int) -> int:
        """A new descriptor, which nobody holds yet: short-lived ones never are."""
        while True:
            try:
                return os.open(self.absolute(path), flags | os.O_CLOEXEC, 0o644)
            except OSError as error:
                # Connections may have taken more than their share of the process's limit; a log gives way.
                if error.errno not in _TOO_MANY_OPEN or not self._holders:
                    raise
            self._evict()

    def hold(self, holder: Holder, descriptor: int) -> None:
        if len(self._holders) >= self.descriptors_max:
            self._evict()
        self.opens += 1
        holder.held, holder.touched = descriptor, False
        folder = self._holders[holder] = _folder(holder.path)
        self._by_folder.setdefault(folder, set()).add(holder)

    def release(self, holder: Holder) -> None:
        if holder.held >= 0:
            folder = self._holders.pop(holder)
            neighbours = self._by_folder[folder]
            neighbours.remove(holder)
            if not neighbours:
                del self._by_folder[folder]
            descriptor, holder.held = holder.held, -1
            os.close(descriptor)

    def release_below(self, directory: str) -> None:
        below = f"{directory}/"
        for holder in tuple(self._by_folder.get(_folder(directory), ())):
            if holder.path.startswith(below):
                self.release(holder)

    def release_all(self) -> None:
        for holder in tuple(self._holders):
            self.release(holder)

    def _evict(self) -> None:
        while (holder := next(iter(self._holders))).touched:
            holder.touched = False
            self._holders.move_to_end(holder)
        self.evictions += 1
        self.release(holder)


def _folder(path: str) -> str:
    return path.partition("/")[0]
