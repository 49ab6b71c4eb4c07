"""Ctrl-C and SIGTERM as something to look at between two steps, for commands that must not be cut off inside one.

Not an exception from the handler: the client library loses one that is raised in its callbacks, and what was
just printed would not be counted as printed.
"""

import signal
from types import FrameType
from typing import Any, Final, Self

import typer

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether somebody has told the command to stop. A second Ctrl-C does not wait until it looks."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._handlers_before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._handlers_before = {number: signal.signal(number, self._remember) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)

    def __bool__(self) -> bool:
        return self._number is not None

    def check(self) -> None:
        """Leave the command, with the status that a shell gives to the signal, once it was told to stop."""
        if self._number is not None:
            raise typer.Exit(128 + self._number)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self._number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._number = number
