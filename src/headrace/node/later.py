"""A value that comes later, by callback. No loop, no task: the state machines' only notion of waiting."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")

_UNSET = object()


class Later(Generic[T]):
    """Resolved once, watched by one."""

    __slots__ = ("_value", "_watcher", "held_bytes", "hurry")

    def __init__(self, *, hurry: Callable[[], None] | None = None, held_bytes: int = 0) -> None:
        self._value: object = _UNSET
        self._watcher: Callable[[T], None] | None = None
        # Brings the value at once, for one who cannot wait any longer; None where it cannot come any sooner.
        self.hurry = hurry
        # About what the wait keeps in memory, for whoever keeps account of it.
        self.held_bytes = held_bytes

    def resolve(self, value: T) -> None:
        assert self._value is _UNSET
        self._value = value
        self.hurry = None
        if self._watcher is not None:
            self._watcher(value)

    def then(self, watcher: Callable[[T], None]) -> None:
        assert self._watcher is None
        self._watcher = watcher
        if self._value is not _UNSET:
            watcher(self._value)  # type: ignore[arg-type]

    def map(self, change: Callable[[T], U]) -> "Later[U]":
        changed: Later[U] = Later(hurry=self.hurry, held_bytes=self.held_bytes)
        self.then(lambda value: changed.resolve(change(value)))
        return changed


def resolved(value: T) -> Later[T]:
    """A value that is there already, where one that may come later is expected."""
    later: Later[T] = Later()
    later.resolve(value)
    return later


def gather(laters: list[Later[T]]) -> Later[list[T]]:
    """All values, in order, once the last has come."""
    gathered: Later[list[T]] = Later()
    values: list[T | None] = [None] * len(laters)
    outstanding = len(laters)
    if not laters:
        gathered.resolve([])

    def one(index: int, value: T) -> None:
        nonlocal outstanding
        values[index] = value
        outstanding -= 1
        if outstanding == 0:
            gathered.resolve(values)  # type: ignore[arg-type]

    for index, later in enumerate(laters):
        later.then(lambda value, index=index: one(index, value))  # type: ignore[misc]
    return gathered
