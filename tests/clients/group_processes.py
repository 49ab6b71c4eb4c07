"""Members of groups as processes, seen from the scenario that directs them.

What goes in and out is in `group_member.py`. A member that ends when nobody asked it to, or with a non-zero status,
fails whoever waits for it next, with what it wrote to standard error.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LEAVE_S_MAX = 30.0


class MemberFailed(AssertionError):
    """A member process did not do as told; the text ends with what it wrote last."""


class Delivery(NamedTuple):
    partition: int
    offset: int
    hash: str


class MemberProcess:
    """One running member. Events are read by a thread; whoever waits for something is woken by each of them."""

    def __init__(self, name: str, command: Sequence[str], config: dict[str, Any]) -> None:
        self.name = name
        self.owned: frozenset[int] = frozenset()
        self.owned_before: list[frozenset[int]] = []  # Everything that `owned` was until now.
        self.deliveries: list[Delivery] = []
        self.failures: list[str] = []
        self._done: list[str] = []
        self._changed = threading.Condition()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # Lives as long as the process.
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, process_group=0
        )
        self._send({**config, "name": name})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def tell(self, what: str, **details: Any) -> None:
        """Give an order, and wait until it is carried out."""
        with self._changed:
            self._done.clear()
        self._send({"do": what, **details})
        self.wait(lambda: what in self._done, what)

    def wait(self, is_so: Callable[[], bool], what: str, *, timeout_s: float = 30.0) -> None:
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while not is_so():
                self.check_running()
                if not self._changed.wait(min(0.5, max(deadline_s - time.monotonic(), 0))):
                    assert time.monotonic() < deadline_s, f"{self.name} waits for {what}{self._complaints()}"

    def check_running(self) -> None:
        if (status := self._process.poll()) is not None:
            raise MemberFailed(f"{self.name} ended with status {status}{self._complaints()}")

    def leave(self) -> None:
        """As an application stops its consumer."""
        self._send({"do": "leave"})
        self._end()
        if self._process.returncode != 0:
            raise MemberFailed(f"{self.name} left with status {self._process.returncode}{self._complaints()}")

    def kill(self) -> None:
        """No goodbye: its connections break, and nobody hears of it again."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._end()

    def close(self) -> None:
        """Leave nothing running, whatever state it is in."""
        if self._process.poll() is None:
            self.kill()
        self._close_pipes()
        self._errors.close()

    def _send(self, line: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._process.wait(LEAVE_S_MAX)
            self.check_running()

    def _end(self) -> None:
        """Wait until it is gone, and everything that it said has been read."""
        try:
            self._process.wait(LEAVE_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            raise MemberFailed(f"{self.name} does not leave{self._complaints()}") from None
        finally:
            self._close_pipes()

    def _close_pipes(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._reader.join(LEAVE_S_MAX)
        with contextlib.suppress(BrokenPipeError):  # An order that it did not live to hear.
            self._process.stdin.close()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                break  # It was killed while it spoke.
            event = json.loads(line)
            with self._changed:
                self._take(event)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _take(self, event: dict[str, Any]) -> None:
        match event:
            case {"owned": partitions}:
                self.owned_before.append(self.owned)
                self.owned = frozenset(partitions)
            case {"partition": partition, "offset": first, "hashes": hashes}:
                self.deliveries += [Delivery(partition, first + index, one) for index, one in enumerate(hashes)]
            case {"done": what}:
                self._done.append(what)
            case {"failed": what, "error": error}:
                self.failures.append(f"{what}: {error}")
            case _:
                self.failures.append(f"said {event}")

    def _complaints(self) -> str:
        size = os.fstat(self._errors.fileno()).st_size
        written = os.pread(self._errors.fileno(), size, 0).decode(errors="replace")
        written = written if len(written) < 5000 else f"{written[:2500]}\n...\n{written[-2500:]}"
        return f"\nfailures: {self.failures[-5:]}\n{written}"


def python_member(client: str) -> list[str]:
    """How to start a member with one of the Python clients."""
    return [sys.executable, "-W", "ignore", "-m", "tests.clients.group_member", client]
