"""A process that is told and tells in lines of JSON: what a sender or a consumer is to whoever runs it."""

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any, Final

from headrace.errors import HeadraceError

_LAST_WORDS_BYTES: Final = 2000


class Child:
    def __init__(self, module: str, number: int) -> None:
        self.number = number
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            process_group=0,  # Ctrl-C is for whoever started them, who then stops them.
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.stdin, self.stdout = self._process.stdin, self._process.stdout
        self.pid = self._process.pid
        self._buffer = b""

    def say(self, message: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError):  # If it is dead, its output tells.
            self.stdin.write(json.dumps(message).encode() + b"\n")
            self.stdin.flush()

    def hear(self) -> list[dict[str, Any]] | None:
        """What it said since, once there is something; None at the end."""
        data = os.read(self.stdout.fileno(), 1 << 20)
        if not data:
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def last_words(self) -> str:
        text = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")
        return text[-_LAST_WORDS_BYTES:].strip() or f"exit status {self._process.poll()}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):  # There may be something left to be said to it.
            self.stdin.close()
        self.stdout.close()
        self._log.close()


class Pipe:
    """The other end of it, within the process."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        """`incoming` is not buffered, so that what select sees is what is left to read."""
        self._incoming = incoming
        self._outgoing = outgoing

    @classmethod
    def standard(cls) -> "Pipe":
        incoming = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
        return cls(incoming, sys.stdout.buffer)

    def hear(self) -> Any:
        line = self._incoming.readline()
        if not line:
            raise EOFError
        return json.loads(line)

    def say(self, message: Mapping[str, Any]) -> None:
        self._outgoing.write(json.dumps(message).encode() + b"\n")
        self._outgoing.flush()

    def is_spoken_to(self) -> bool:
        return bool(select.select([self._incoming], [], [], 0)[0])


def run_child(run: Callable[[Pipe], None]) -> None:
    """The life of such a process: what goes wrong is told to whoever started it, if that one is still there."""
    pipe = Pipe.standard()
    try:
        run(pipe)
    except (HeadraceError, OSError) as error:
        with suppress(OSError):
            pipe.say({"trouble": str(error)})
        sys.exit(1)
    except EOFError:
        sys.exit(1)
