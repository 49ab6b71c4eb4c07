"""A node as a subprocess: started, stopped, killed, and started again on the same port and data.

A subprocess and not a thread: a test that polls in the same process starves the node, and `kill -9` must not
take the test with it.
"""

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headrace.errors import HeadraceError
from headrace.testing.ports import lasting_ports

_READY: Final = re.compile(rb"headrace ready on (\S+)\n")
_LOG_TAIL_BYTES: Final = 4096


class NodeProcessError(HeadraceError):
    """The node did not do as told; the text ends with what it logged last."""


class NodeProcess:
    """One node over one data directory. It keeps its port over restarts."""

    def __init__(
        self,
        data: Path,
        *,
        listen: str | None = None,
        settings: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
        advertise: str | None = None,
    ) -> None:
        """On a free loopback port unless told where to `listen`; clients are told to come there, or to `advertise`.

        `wrapper` is a command that becomes the node by `exec`, after limiting it in some way.
        """
        self.data = data
        self.settings = dict(settings or {})
        self.wrapper = tuple(wrapper)
        self.advertise = advertise
        self.bootstrap = listen or f"127.0.0.1:{lasting_ports(1)[0]}"
        self.ready_s = 0.0  # How long the last start took until clients were accepted.
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # Lives as long as the object.

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def has_ended(self) -> bool:
        """Whether it was killed or gave up since it was launched; `kill` then tidies up after it."""
        return self._running().poll() is not None

    def start(self, *, timeout_s: float = 20) -> None:
        began_s = time.monotonic()
        self.launch()
        try:
            self.bootstrap = self._wait_ready(began_s + timeout_s)
        except BaseException:
            self.kill()
            raise
        self.ready_s = time.monotonic() - began_s

    def launch(self) -> None:
        """Without waiting until it is ready: for a test that will not let it get so far."""
        assert self._process is None, "already running"
        command = [*self.wrapper, sys.executable, "-P", "-m", "headrace.cli.main", "serve"]
        command += ["--listen", self.bootstrap, "--data", str(self.data)]
        if self.advertise is not None:
            command += ["--advertise", self.advertise]
        for key, value in self.settings.items():
            command += ["-o", f"{key}={value}"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            process_group=0,  # Ctrl-C is for whoever started it, who then ends the node as it sees fit.
        )

    def stop(self, *, timeout_s: float = 20) -> None:
        """SIGTERM, as an operator stops it; anything but a clean exit is an error."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeProcessError(f"still running {timeout_s} s after SIGTERM{self._log_tail()}") from None
        self._forget()
        if status != 0:
            raise NodeProcessError(f"exit status {status} after SIGTERM{self._log_tail()}")

    def kill(self) -> None:
        """SIGKILL: no goodbye, no flush."""
        process = self._running()
        process.kill()
        process.wait()
        self._forget()

    def log_text(self) -> str:
        """Everything the node wrote to standard error, over all its starts."""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    def close(self) -> None:
        """Leave nothing running, whatever state the node is in."""
        if self._process is not None:
            self.kill()
        self._log.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not running"
        return self._process

    def _forget(self) -> None:
        process = self._running()
        assert process.stdout is not None
        process.stdout.close()
        self._process = None

    def _wait_ready(self, deadline_s: float) -> str:
        stdout = self._running().stdout
        assert stdout is not None
        seen = b""
        while (ready := _READY.match(seen)) is None:
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0 or not select.select([stdout], [], [], remaining_s)[0]:
                raise NodeProcessError(f"not ready in time; it printed {seen!r}{self._log_tail()}")
            chunk = os.read(stdout.fileno(), 4096)
            if not chunk:
                status = self._running().wait()
                raise NodeProcessError(f"exit status {status} before it was ready{self._log_tail()}")
            seen += chunk
        return ready[1].decode()

    def _log_tail(self) -> str:
        return f"\n{tail}" if (tail := self.log_text()[-_LOG_TAIL_BYTES:].strip()) else ""
