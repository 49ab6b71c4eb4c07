"""A TCP proxy that can cut what goes through it, all connections at once or each after so many bytes of answers, and
have it recorded.

Stands where a broker tells its clients to find it, so that connections can be broken that neither side broke, and
requests be counted at brokers that do not count them. In Python, on threads of whoever made it: not for speed.
"""

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from headrace.lab.readings.recorder import (
    REQUEST_HEAD_BYTES,
    FrameHeads,
    RecordedConnection,
    RequestRecorder,
    api_key_of,
)
from headrace.testing.ports import lasting_ports

_CHUNK_BYTES: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)  # Linger for no time at all: what is under way is thrown away.


class Proxy:
    """Listens from the start; whether anybody is behind it is found out by each connection."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.port = lasting_ports(1)[0]
        self.cuts: Counter[int] = Counter()  # By the API key of the request that was sent last.
        # How many bytes of answers the next connection lets through before it breaks; None for all.
        self.answer_bytes: Callable[[], int | None] = lambda: None
        self.recorder: RequestRecorder | None = None  # Of the connections that are made from now on.
        self._is_off = False
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listening = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break every connection, in the middle of whatever it carries."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._break(pair)

    def cut_off(self) -> None:
        """Break every connection and take no other, as a link that is down does, until `restore`."""
        self._is_off = True
        self.cut()

    def restore(self) -> None:
        self._is_off = False

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # Wakes the thread that accepts.
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if (broker := self._reach()) is None:
                client.close()
                continue
            pair = client, broker
            for one in pair:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.add(pair)
            requests = FrameHeads(REQUEST_HEAD_BYTES)
            recorded = None if self.recorder is None else self.recorder.connection()
            threading.Thread(target=self._pump_requests, args=(pair, requests, recorded), daemon=True).start()
            answers = (pair, requests, recorded, self.answer_bytes())
            threading.Thread(target=self._pump_answers, args=answers, daemon=True).start()
            if self._is_off:  # Cut off between being asked and being counted in.
                self._break(pair)

    def _reach(self) -> socket.socket | None:
        """A connection to the broker; None where there is nobody, or nobody is to be reached."""
        if self._is_off:
            return None
        try:
            return socket.create_connection(self.target)
        except OSError:
            return None

    def _pump_requests(
        self, pair: tuple[socket.socket, socket.socket], requests: FrameHeads, recorded: RecordedConnection | None
    ) -> None:
        client, broker = pair
        with suppress(OSError):
            while data := client.recv(_CHUNK_BYTES):
                requests.feed(data)
                if recorded is not None:
                    recorded.asked(data, now_ns=time.monotonic_ns())
                broker.sendall(data)
        self._break(pair)

    def _pump_answers(
        self,
        pair: tuple[socket.socket, socket.socket],
        requests: FrameHeads,
        recorded: RecordedConnection | None,
        left: int | None,
    ) -> None:
        client, broker = pair
        with suppress(OSError):
            while data := broker.recv(_CHUNK_BYTES):
                if recorded is not None:
                    recorded.answered(data, now_ns=time.monotonic_ns())
                if left is not None and len(data) > left:
                    client.sendall(data[:left])
                    self.cuts[-1 if requests.latest is None else api_key_of(requests.latest)] += 1
                    break
                left = None if left is None else left - len(data)
                client.sendall(data)
        self._break(pair)

    def _break(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            if pair not in self._pairs:
                return
            self._pairs.remove(pair)
        for one in pair:
            with suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                one.shutdown(socket.SHUT_RDWR)  # Wakes the thread that reads from it.
            one.close()
