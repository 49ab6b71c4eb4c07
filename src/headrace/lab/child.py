"""A process that is told and tells in lines of JSON: what a sender or a consumer is to whoever runs it."""

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

from headrace.errors import HeadraceError

_LAST_WORDS_BYTES: Final = 2000


class Lines:
    """Lines of JSON, both ways: our end of them."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._buffer = b""

    def fileno(self) -> int:
        """Readable when something was said, or nothing will be any more."""
        return self._incoming.fileno()

    def say(self, message: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError, ConnectionError):  # If it is dead, its output tells.
            self._outgoing.write(json.dumps(message).encode() + b"\n")
            self._outgoing.flush()

    def hear(self) -> list[dict[str, Any]] | None:
        """What it said since, once there is something; None at the end."""
        try:
            data = os.read(self._incoming.fileno(), 1 << 20)
        except ConnectionError:
            data = b""
        if not data:
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        with suppress(BrokenPipeError, ConnectionError):  # There may be something left to be said to it.
            self._outgoing.close()
        self._incoming.close()


class Child(Lines):
    """A process, on this machine."""

    def __init__(self, module: str, *, wrapper: Sequence[str] = ()) -> None:
        """`wrapper` is a command that becomes the process by `exec`, after putting it somewhere."""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [*wrapper, sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            process_group=0,  # Ctrl-C is for whoever started them, who then stops them.
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        super().__init__(self._process.stdout, self._process.stdin)
        self.pid: int | None = self._process.pid

    def last_words(self) -> str:
        """Why it went without having told how it ended."""
        text = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")
        return text[-_LAST_WORDS_BYTES:].strip() or f"exit status {self._process.poll()}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self.close()
        self._log.close()


class Pipe:
    """The other end of it, within the process."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes], *, heard: Any = None) -> None:
        """`incoming` is not buffered, so that what select sees is what is left to read. `heard` has come another
        way, and is what is heard first."""
        self._incoming = incoming
        self._outgoing = outgoing
        self._heard = heard

    @classmethod
    def standard(cls) -> "Pipe":
        incoming = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
        return cls(incoming, sys.stdout.buffer)

    def hear(self) -> Any:
        if self._heard is not None:
            heard, self._heard = self._heard, None
            return heard
        line = self._incoming.readline()
        if not line:
            raise EOFError
        return json.loads(line)

    def say(self, message: Mapping[str, Any]) -> None:
        self._outgoing.write(json.dumps(message).encode() + b"\n")
        self._outgoing.flush()

    def is_spoken_to(self, *, within_s: float = 0.0) -> bool:
        return bool(select.select([self._incoming], [], [], within_s)[0])


def run_child(run: Callable[[Pipe], None]) -> None:
    """The life of such a process."""
    sys.exit(0 if serve(run, Pipe.standard()) else 1)


def serve(run: Callable[[Pipe], None], pipe: Pipe) -> bool:
    """Whether it came to its end. What goes wrong is told to whoever asked for it, if that one is still there."""
    try:
        run(pipe)
    except (HeadraceError, OSError) as error:
        with suppress(OSError):
            pipe.say({"trouble": str(error)})
        return False
    except EOFError:
        return False
    return True
