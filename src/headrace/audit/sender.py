"""The bookkeeping of a sender, whatever it sends with: which sequences are used, what became of them, what to publish.

Rules:

- Before a sequence is used, the audit topic has acknowledged that it may be. Sequences are reserved many at a time,
  first few and then twice as many, so that a sender that dies leaves little in the dark, and a busy one rarely waits.
  The last one reserved is never used: a window is complete only by its sender's word that there is no more.
- A span is closed once its window is over and it has been still for a while. A message that comes for the window later
  opens another span, so that nothing has to be kept of closed ones.
- What could not be published is published with the next word on its span, which says everything anew.

Any thread may call. Given are the time, a way to publish that returns when the cluster has acknowledged, and a shelf
for the states of spans; knows neither clients nor files.
"""

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, Protocol

from headrace.audit.messages import Sent
from headrace.audit.spans import Span, State, States
from headrace.audit.stamps import SpanId
from headrace.audit.windows import Window

Publish = Callable[[Sequence[Sent]], None]

RESERVED_MIN: Final = 64
RESERVED_STEP_MAX: Final = 1 << 16


class Shelf(Protocol):
    """Where the states of spans lie. Bytes are zero until they are set."""

    def open(self, span: SpanId, *, topic: str, window: Window, host: str, size: int) -> States: ...
    def grow(self, span: SpanId, states: States, size: int) -> States: ...
    def discard(self, span: SpanId, states: States) -> None: ...


class MemoryShelf:
    """Lost with the process: what a killed sender had under way stays uncertain."""

    def open(self, span: SpanId, *, topic: str, window: Window, host: str, size: int) -> States:
        return bytearray(size)

    def grow(self, span: SpanId, states: States, size: int) -> States:
        assert isinstance(states, bytearray)
        states.extend(bytes(size - len(states)))
        return states

    def discard(self, span: SpanId, states: States) -> None:
        pass


class Sender:
    def __init__(self, *, producer: str, incarnation: int, host: str, publish: Publish, shelf: Shelf) -> None:
        self._producer = producer
        self._incarnation = incarnation
        self._host = host
        self._publish = publish
        self._shelf = shelf
        self._numbers = count()
        self._open: dict[tuple[str, Window], Span] = {}
        self._closing: list[Span] = []  # No longer used, and not yet told of for the last time.
        self._is_closed = False
        self._state = threading.Lock()  # Guards the above, and is never held while publishing.
        self._publishing = threading.Lock()  # Held by whoever opens, reserves or closes, from beginning to end.

    def take(self, topic: str, window: Window, count: int = 1) -> tuple[Span, int]:
        """Sequences for messages that are about to be sent: their span, and the first. May wait for the audit topic."""
        while True:
            with self._state:
                assert not self._is_closed
                span = self._open.get((topic, window))
                if span is not None and span.room > count:
                    return span, span.take(count)
            self._reserve(topic, window, count)

    def settle(self, span: Span, first: int, state: State, *, count: int = 1) -> None:
        """What became of messages."""
        with self._state:
            if not self._is_closed:  # Afterwards all is told, and what was not known then counts as in doubt.
                span.settle(first, state, count=count)

    def give_back(self, span: Span, sequence: int) -> None:
        """The client did not take the message."""
        with self._state:
            if not self._is_closed:
                span.settle(sequence, State.FREE if sequence + 1 == span.handed else State.REFUSED)

    def tick(self, *, now_ms: int) -> None:
        """Publish what has changed; close what is over. To be called every few seconds."""
        with self._publishing:
            with self._state:
                for key, span in list(self._open.items()):
                    if span.window.end_ms <= now_ms and not span.under_way and not span.is_changed:
                        self._closing.append(self._open.pop(key))
                changed = [span for span in self._open.values() if span.is_changed]
            self._tell(changed)

    def close(self) -> None:
        """Tell of everything for the last time; what is still under way is in doubt for ever."""
        with self._publishing:
            with self._state:
                self._is_closed = True
                self._closing += self._open.values()
                self._open.clear()
                for span in self._closing:
                    span.abandon()
            self._tell([])

    def _tell(self, changed: Sequence[Span]) -> None:
        with self._state:
            over, self._closing = self._closing, []
            told = [span.tell(reserved=span.handed) for span in over]
            told += [span.tell(reserved=span.reserved) for span in changed]
        if not told:
            return
        try:
            self._publish(told)
        except BaseException:
            with self._state:
                self._closing += over
                for span in changed:
                    span.is_changed = True
            raise
        for span in over:
            self._shelf.discard(span.id, span.states)

    def _reserve(self, topic: str, window: Window, count: int) -> None:
        with self._publishing:
            with self._state:
                span = self._open.get((topic, window))
                if span is not None and span.room > count:
                    return  # Another thread was quicker.
            if span is None:
                self._open_span(topic, window, max(RESERVED_MIN, count + 1))
            else:
                doubled = span.reserved + min(span.reserved, RESERVED_STEP_MAX)
                self._extend(span, max(doubled, span.handed + count + 1))

    def _open_span(self, topic: str, window: Window, reserved: int) -> None:
        id_ = SpanId(self._producer, self._incarnation, next(self._numbers))
        # On the shelf before it is published, so that whoever finds it there can always take the reservation back.
        states = self._shelf.open(id_, topic=topic, window=window, host=self._host, size=reserved)
        span = Span(id_, topic=topic, window=window, host=self._host, states=states)
        try:
            self._publish([span.tell(reserved=reserved)])
        except BaseException:
            with self._state:
                self._closing.append(span)  # It may have been written all the same.
            raise
        with self._state:
            span.reserved = reserved
            self._open[topic, window] = span

    def _extend(self, span: Span, reserved: int) -> None:
        with self._state:
            told = span.tell(reserved=reserved)
        try:
            self._publish([told])
        finally:
            with self._state:
                span.is_changed = True  # Messages may have been taken or settled since, or this was not written.
        with self._state:
            span.states = self._shelf.grow(span.id, span.states, max(reserved, len(span.states)))
            span.reserved = reserved
