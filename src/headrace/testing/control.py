"""The test's end of the control socket: a command goes out, its answer is waited for.

Calls may come from any thread; they take turns. A broker that ends instead of answering is an error, with what it
logged last, and so is one that does not answer in time.
"""

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from headrace.errors import ErrorCode, HeadraceError
from headrace.testing.messages import LENGTH, Answer, Request, pack, unpack

ANSWER_S_MAX: Final = 30.0


class BrokerError(HeadraceError):
    """The broker did not do as told. `code` is Kafka's, where it has one for the reason."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


class Control:
    def __init__(self, sock: socket.socket, *, last_words: Callable[[], str]) -> None:
        self._socket = sock
        self._last_words = last_words
        self._turn = threading.Lock()

    def call(self, command: str, /, *, timeout_s: float = ANSWER_S_MAX, **arguments: Any) -> Any:
        """The answer's value, or BrokerError."""
        with self._turn:
            deadline_s = time.monotonic() + timeout_s
            try:
                self._socket.settimeout(timeout_s)
                self._socket.sendall(pack(Request(command, arguments)))
                (size,) = LENGTH.unpack(self._receive(LENGTH.size, deadline_s))
                answer: Answer = unpack(self._receive(size, deadline_s))
            except TimeoutError:
                # Whatever comes now would be taken for the answer to the next command.
                self._socket.close()
                raise BrokerError(f"no answer to {command!r} in {timeout_s} s{self._last_words()}") from None
            except OSError as error:
                raise BrokerError(f"the broker is gone{self._last_words()}") from error
            except BaseException:
                self._socket.close()  # Interrupted in the middle: the same.
                raise
        if answer.error is not None:
            raise BrokerError(answer.error, None if answer.code is None else ErrorCode(answer.code))
        return answer.value

    def _receive(self, size: int, deadline_s: float) -> bytes:
        received = bytearray()
        while len(received) < size:
            self._socket.settimeout(max(deadline_s - time.monotonic(), 0.001))
            data = self._socket.recv(min(size - len(received), 1 << 20))
            if not data:
                raise ConnectionResetError("the control socket was closed")
            received += data
        return bytes(received)

    def close(self) -> None:
        self._socket.close()
