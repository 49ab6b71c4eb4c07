"""The names of a simulated disk: directories as programs see them, and as the device has them.

Creating, renaming and deleting change entries of directories. Each is seen at once and is durable once its
directory was synced; until then a crash may undo it, whatever becomes of the others before and after it. One
that concerns two directories is durable in each on its own, and undone as a whole while it is in neither.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from headrace.errors import StorageError
from headrace.sim.inode import Inode


class Directory:
    __slots__ = ("durable", "entries")

    def __init__(self, entries: "dict[str, Node] | None" = None) -> None:
        """A directory at rest: all of its entries are durable."""
        self.entries: dict[str, Node] = entries or {}
        self.durable: dict[str, Node] = dict(self.entries)


Node = Inode | Directory


class _Effect(NamedTuple):
    directory: Directory
    name: str
    node: Node | None

    def apply_to(self, entries: dict[str, Node]) -> None:
        if self.node is None:
            entries.pop(self.name, None)
        else:
            entries[self.name] = self.node


Change = list[_Effect]


class Tree:
    def __init__(self, root: Directory | None = None) -> None:
        self._root = root or Directory()
        self._pending: list[Change] = []

    def find(self, path: str) -> Node | None:
        node: Node = self._root
        for name in split(path):
            if not isinstance(node, Directory) or name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def walk(self) -> Iterator[tuple[str, Node]]:
        """Every file and directory, parents first, in the order of names."""
        stack: list[tuple[str, Node]] = [("", self._root)]
        while stack:
            path, node = stack.pop()
            yield path, node
            if isinstance(node, Directory):
                stack.extend((f"{path}/{name}", node.entries[name]) for name in sorted(node.entries)[::-1])

    def put(self, path: str, node: Node) -> None:
        self._change(self._effect(path, node))

    def remove(self, path: str) -> None:
        self._change(self._effect(path, None))

    def move(self, path: str, to: str) -> None:
        node = self.find(path)
        if node is None:
            raise StorageError(f"{path}: {os.strerror(errno.ENOENT)}")
        replaced = self.find(to)
        if replaced is not None and type(replaced) is not type(node):
            raise StorageError(f"{to}: one is a directory and the other a file")
        if isinstance(replaced, Directory) and replaced.entries:
            raise StorageError(f"{to}: {os.strerror(errno.ENOTEMPTY)}")
        self._change(self._effect(path, None), self._effect(to, node))

    def put_durably(self, path: str, node: Node) -> None:
        """Behind everyone's back, as only a fault does."""
        effect = self._effect(path, node)
        effect.apply_to(effect.directory.entries)
        effect.apply_to(effect.directory.durable)

    def pending(self) -> tuple[Change, ...]:
        """What a sync that begins now covers."""
        return tuple(self._pending)

    def make_durable(self, directory: Directory, changes: Sequence[Change]) -> None:
        """The effects of these changes on one directory, as far as they are still pending."""
        for change in changes:
            for effect in [effect for effect in change if effect.directory is directory]:
                effect.apply_to(directory.durable)
                change.remove(effect)
        self._pending = [change for change in self._pending if change]

    def crashed(self, *, survives: Callable[[], bool], content: Callable[[Inode], bytes]) -> "Tree":
        """The tree at rest that is found after a crash. This one is of no use any more."""
        for change in self._pending:
            if survives():
                for effect in change:
                    effect.apply_to(effect.directory.durable)
        found: dict[Node, Node] = {}  # An inode may be left with two names.

        def survivor(node: Node) -> Node:
            if node not in found:
                found[node] = Inode(content(node)) if isinstance(node, Inode) else survivor_directory(node)
            return found[node]

        def survivor_directory(directory: Directory) -> Directory:
            return Directory({name: survivor(node) for name, node in sorted(directory.durable.items())})

        return Tree(survivor_directory(self._root))

    def _effect(self, path: str, node: Node | None) -> _Effect:
        *above, name = split(path)
        directory = self.find("/".join(above))
        if not isinstance(directory, Directory):
            raise StorageError(f"{path}: {os.strerror(errno.ENOENT)}")
        return _Effect(directory, name, node)

    def _change(self, *effects: _Effect) -> None:
        for effect in effects:
            effect.apply_to(effect.directory.entries)
        self._pending.append(list(effects))


@lru_cache(maxsize=4096)  # Every operation asks, of few paths.
def split(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name not in ("", "."))
