"""Running one node as a process: configuration, the lock on its data, the loop, signals, and the way out.

Whatever goes wrong before clients are accepted is one line on standard error and a non-zero status. An exception that
nobody was prepared for, outside the connection that caused it, ends the process with its traceback: what a node does
after a mistake of its own is anybody's guess, and starting anew is the tested path.
"""

import asyncio
import fcntl
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, NoReturn

from headrace.clock import SystemClock
from headrace.errors import ConfigError, HeadraceError
from headrace.node.node import Loaded, Node
from headrace.server.cleaner import CleanerProcess
from headrace.server.config import ServerConfig, load_config
from headrace.server.disk import SystemDisk
from headrace.server.disk_helper import DiskHelper
from headrace.server.logs import EventLog, open_log
from headrace.server.options import ServeOptions
from headrace.server.shell import Shell
from headrace.server.timers import LoopTimers

LOCK_FILE: Final = ".lock"
# Descriptors that are not files of logs: sockets of the listeners, the helper, the loop's own, and clients.
_DESCRIPTORS_BESIDE_FILES: Final = 256
_DESCRIPTORS_WANTED: Final = 1 << 16
_FILES_OPEN_MAX: Final = 8192


def serve(options: ServeOptions) -> int:
    """Serve until told to stop; the exit status."""
    try:
        config = load_config(options)
        events = open_log(level=options.log_level, environment=os.environ)
        lock = lock_data(config.data)
    except (ConfigError, OSError) as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 1
    try:
        return _run(_serve(config, events))
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 1
    finally:
        os.close(lock)


def _run(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return int(uvloop.run(main))


def lock_data(data: Path) -> int:
    """Take the data directory for this process alone; the kernel frees it however the process ends."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = os.open(data / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(f"cannot use {data} as data directory: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ConfigError(f"{data} is in use by another node; stop it or choose another with --data DIR") from error
    return lock


def raise_descriptor_limit() -> int:
    """As many descriptors as we are allowed and can use; the limit now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            return soft  # macOS has a lower limit of its own; what we have will do.
        return wanted
    return soft


async def _serve(config: ServerConfig, events: EventLog) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    fault: asyncio.Future[NoReturn] = loop.create_future()
    loop.set_exception_handler(lambda _, context: _on_exception(context, events, fault))
    server = Server(config, events, loop)
    try:
        await _unless(fault, server.start())
        print(f"headrace ready on {server.address}", flush=True)
        await _unless(fault, stop.wait())
    except BaseException:
        await server.abandon()
        raise
    events.info("stopping")
    return 0 if await server.stop() else 1


def _on_exception(context: dict[str, Any], events: EventLog, fault: "asyncio.Future[NoReturn]") -> None:
    """What no callback and no task has handled."""
    error = context.get("exception")
    events.error("unexpected", what=context["message"], error=error)
    # One of an HTTP exchange concerns that exchange; one of a callback concerns everybody.
    is_fatal = "handle" in context or isinstance(error, AssertionError)
    if is_fatal and not fault.done():
        fault.set_exception(error or RuntimeError(context["message"]))


async def _unless(fault: "asyncio.Future[NoReturn]", work: Coroutine[Any, Any, object]) -> None:
    """Do the work, or raise the fault that comes in between."""
    task = asyncio.ensure_future(work)
    await asyncio.wait((task, fault), return_when=asyncio.FIRST_COMPLETED)
    if fault.done():
        task.cancel()
        await asyncio.wait((task,))
        fault.result()
    await task


class Server:
    """A node with its shell and helpers, on a loop that somebody else runs."""

    def __init__(self, config: ServerConfig, events: EventLog, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._events = events
        self._loop = loop
        self.address = ""
        self.http_address: str | None = None
        self._clock = SystemClock()
        files_max = min(max(raise_descriptor_limit() - _DESCRIPTORS_BESIDE_FILES, 64), _FILES_OPEN_MAX)
        self._helper = DiskHelper(loop)
        self._cleaner = CleanerProcess(loop, str(config.data))
        self._disk = SystemDisk(str(config.data), helper=self._helper, descriptors_max=files_max)
        self._timers = LoopTimers(loop, self._clock, after=self._after_timers)
        self.shell: Shell | None = None
        self._http: Callable[[], Coroutine[Any, Any, None]] | None = None

    def _after_timers(self) -> None:
        if self.shell is not None:
            self.shell.finish_turn()

    async def start(self) -> None:
        config = self._config
        for name in config.broker.names_without_effect():
            self._events.warning("setting without effect here", name=name)
        node = Node(
            config=config.broker,
            clock=self._clock,
            timers=self._timers,
            disk=self._disk,
            random_bytes=os.urandom,
            events=self._events,
            cleaner=self._cleaner,
        )
        self.shell = Shell(
            node=node,
            config=config.broker,
            loop=self._loop,
            clock=self._clock,
            events=self._events,
            connections_per_address=config.connections_per_address,
        )
        bound = self.shell.listen(config.listeners)
        started: asyncio.Future[Loaded | HeadraceError] = self._loop.create_future()
        node.start().then(started.set_result)
        found = await started
        if isinstance(found, HeadraceError):
            raise found
        self._events.info("loaded", **found._asdict())
        # What was loaded lives as long as the node: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        if config.http is not None:
            await self._start_http(node)
        self.shell.accept_clients(config.listeners)
        self.address = str(bound[0])
        self._events.info("ready", listeners=[str(each) for each in bound], data=config.data)

    async def _start_http(self, node: Node) -> None:
        # Imported only where it is asked for.
        from headrace.server.http import serve_http
        from headrace.server.metrics import collect, find_fault, requests_now
        from headrace.server.request_page import render_each

        assert self._config.http is not None
        assert self.shell is not None
        shell, disk, helper = self.shell, self._disk, self._helper
        http = await serve_http(
            self._config.http,
            lambda: collect(node, shell, disk, helper),
            lambda: find_fault(node),
            lambda begins: render_each(*requests_now(node, begins=begins)),
        )
        self._http = http.close
        self.http_address = str(http.address)
        self._events.info("http ready", address=self.http_address)

    async def stop(self) -> bool:
        """Stop in order; whether everything is safely on disk."""
        assert self.shell is not None
        if self._http is not None:
            await self._http()
        self.shell.close()
        self._timers.close()
        clean = self.shell.node.close()
        self._cleaner.close()
        self._helper.close()
        self._disk.close()
        self._events.info("stopped", clean=clean)
        return clean

    async def abandon(self) -> None:
        """Let go of everything without pretending to a clean stop."""
        if self._http is not None:
            await self._http()
        if self.shell is not None:
            self.shell.close()
        self._timers.close()
        self._cleaner.close()
        self._helper.close()
        self._disk.close()
