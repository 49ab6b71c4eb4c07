"""One message stream: an iterator that never ends, for `for` and for `async for`.

It blocks while there are no messages. Asking for the next message tells that the last one is done with. A stream has
one reader at a time; for more readers ask for more streams.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

from headrace.client.errors import ClientError, StreamEnded
from headrace.client.exchange import Exchange
from headrace.client.lanes import Feed, Raw
from headrace.client.message import CREATE_TIME, LOG_APPEND_TIME, Claim, Received

# Looked up once: a constant of the client library is an attribute of a module.
_NO_TIMESTAMP: Final = TIMESTAMP_NOT_AVAILABLE
_APPENDED: Final = TIMESTAMP_LOG_APPEND_TIME


class MessageStream(Iterator[Received], AsyncIterator[Received]):
    def __init__(self, feed: Feed, exchange: Exchange) -> None:
        self.topic: Final = feed.topic
        self.index: Final = feed.index
        self._feed = feed
        self._exchange = exchange
        self._arrived = threading.Condition(exchange.lock)
        self._is_read = False
        self._sleeper: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        feed.wake = self._wake

    def __iter__(self) -> "MessageStream":
        return self

    def __next__(self) -> Received:
        try:
            message = self.receive()
        except StreamEnded:
            raise StopIteration from None
        assert message is not None
        return message

    def __aiter__(self) -> "MessageStream":
        return self

    async def __anext__(self) -> Received:
        loop = asyncio.get_running_loop()
        while True:
            with self._exchange.lock:
                try:
                    message = self._take()
                except StreamEnded:
                    raise StopAsyncIteration from None
                if message is not None:
                    return message
                self._begin_reading()
                asleep = loop.create_future()
                self._sleeper = (loop, asleep)
            try:
                await asleep
            finally:
                with self._exchange.lock:
                    self._is_read = False
                    self._sleeper = None

    def receive(self, timeout_s: float | None = None) -> Received | None:
        """The next message, or None if there was none in time. Raises StreamEnded once the consumer is stopped."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._exchange.lock:
            while (message := self._take()) is None:
                left_s = None if deadline_s is None else deadline_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return None
                self._begin_reading()
                try:
                    self._arrived.wait(left_s)
                finally:
                    self._is_read = False
            return message

    def _begin_reading(self) -> None:
        if self._is_read:
            raise ClientError(f"stream {self.index} of {self.topic} is being read elsewhere; ask for more streams")
        self._is_read = True

    def _take(self) -> Received | None:
        if not self._exchange.is_going:
            self._exchange.lanes.finish(self._feed)  # Whoever asks for more is done with what it had.
            self._exchange.check_going()
        taken = self._exchange.lanes.take(self._feed)
        return None if taken is None else _received(*taken)

    def _wake(self) -> None:
        """Called with the lock held, by whichever thread had something for this stream."""
        self._arrived.notify_all()
        if self._sleeper is not None:
            loop, asleep = self._sleeper
            self._sleeper = None
            if not loop.is_closed():
                loop.call_soon_threadsafe(_rouse, asleep)


def _rouse(asleep: asyncio.Future[None]) -> None:
    if not asleep.done():
        asleep.set_result(None)


def _received(raw: Raw, claim: Claim) -> Received:
    topic, partition, offset = raw.topic(), raw.partition(), raw.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    kind, timestamp_ms = raw.timestamp()
    return Received(
        topic,
        partition,
        offset,
        None if kind == _NO_TIMESTAMP else timestamp_ms,
        LOG_APPEND_TIME if kind == _APPENDED else CREATE_TIME,
        raw.key(),
        raw.value(),
        tuple(raw.headers() or ()),
        claim,
    )
