"""One broker of a target: whether it lives, and what can be done to it while it is measured."""

import os
import signal
import threading
from typing import Protocol

from headrace.lab.errors import LabError
from headrace.lab.targets.proxy import Proxy


class BrokerProcess(Protocol):
    """A broker that was started here."""

    @property
    def pid(self) -> int: ...
    @property
    def has_ended(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


class Member:
    """One thread may do things to it while another asks how it is."""

    def __init__(
        self,
        node_id: int,
        *,
        name: str | None = None,
        process: BrokerProcess | None = None,
        proxy: Proxy | None = None,
        pid: int | None = None,
    ) -> None:
        """A broker of somebody else's has no `process`, and a `pid` where it is found on this machine."""
        self.node_id = node_id
        self.name = name or f"broker{node_id}"
        self._process = process
        self._proxy = proxy
        self._pid = pid
        self._lock = threading.Lock()  # So that nobody asks a process that is being forgotten.
        self._is_killed = False  # By us.
        self._is_paused = False
        self.is_awaited = False  # It was killed, and will be started again.

    @property
    def is_proxied(self) -> bool:
        return self._proxy is not None

    def is_called(self, word: str) -> bool:
        return word in {self.name, str(self.node_id)}

    @property
    def pid(self) -> int | None:
        """Of the running process; None where it is not known, or there is none."""
        if self._process is None:
            return self._pid
        with self._lock:
            return None if self._is_killed or self._process.has_ended else self._process.pid

    @property
    def is_alive(self) -> bool:
        """As far as can be told from here: of somebody else's broker, always."""
        return self._process is None or self.pid is not None

    @property
    def has_died(self) -> bool:
        """By itself, or by somebody else."""
        if self._process is None:
            return False
        with self._lock:
            return not self._is_killed and self._process.has_ended

    def kill(self) -> None:
        process = self._own()
        with self._lock:
            if not self._is_killed:
                self._is_killed = True
                self._is_paused = False
                process.kill()

    def restart(self) -> None:
        """Stop it cleanly, as an operator does, and start it on the same data."""
        process = self._own()
        with self._lock:
            process.stop()
            process.start()

    def start_again(self) -> None:
        try:
            if self._is_killed:
                self._own().start()
                self._is_killed = False
        finally:
            self.is_awaited = False

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        if self._is_paused:
            self._signal(signal.SIGCONT)
            self._is_paused = False

    def cut_off(self) -> None:
        self._own_proxy().cut_off()

    def join_again(self) -> None:
        self._own_proxy().restore()

    def _signal(self, number: signal.Signals) -> None:
        self._own()
        if self.pid is not None:
            os.kill(self.pid, number)

    def _own(self) -> BrokerProcess:
        if self._process is None:
            raise LabError(f"{self.name} was not started here, so nothing can be done to it")
        return self._process

    def _own_proxy(self) -> Proxy:
        if self._proxy is None:
            raise LabError(f"{self.name} cannot be cut off: it has no proxy")
        return self._proxy
