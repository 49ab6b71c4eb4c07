"""A node under its shell, that can be taken away and replaced by another without a client losing its connection.

Everything that a broker remembers is in its data directory or in its node. So emptying a broker, and taking it back to
a snapshot, are the same: change the directory, and go on with a node that has just been started on it. Nothing can be
forgotten to be reset, and nothing is waited for: it takes a few milliseconds.
"""

import asyncio
import os
import resource
import shutil
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Final

from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace.node.node import PRODUCER_IDS, Loaded
from headrace.server.cleaner import CleanerProcess
from headrace.server.config import load_config
from headrace.server.logs import EventLog
from headrace.server.main import LOCK_FILE, lock_data, raise_descriptor_limit
from headrace.server.options import ServeOptions, parse_host_port
from headrace.server.shell import Shell
from headrace.server.timers import LoopTimers
from headrace.storage.checkpoints import META_PROPERTIES
from headrace.storage.data_directory import DELETE_SUFFIX
from headrace.store.local import Put
from headrace.testing.inside.clocks import MovableClock
from headrace.testing.inside.disk import EmbeddedDisk
from headrace.testing.inside.fault_table import FaultTable
from headrace.testing.inside.node import EmbeddedNode
from headrace.testing.messages import Setup

# What makes a test quick to run and is otherwise as good: groups need not wait for members that might come, and one
# partition is enough for their offsets. Whoever asks for something else gets it.
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
# Stays when the rest of the directory goes: who holds it, and which cluster it is.
_TRASH: Final = ".trash"
_LASTING: Final = frozenset({LOCK_FILE, META_PROPERTIES, _TRASH})
# Callbacks that follow from one another, one a turn: never so many in a row.
_TURNS_TO_SETTLE: Final = 8
_POLL_S: Final = 0.002
_FILES_MAX: Final = 1024


class EmbeddedServer:
    """It holds its data directory from when it is made, and serves once it was started."""

    def __init__(self, setup: Setup, events: EventLog, loop: asyncio.AbstractEventLoop) -> None:
        self._events = events
        self._loop = loop
        self._config = load_config(
            ServeOptions(
                listen=parse_host_port(setup.listen), data=Path(setup.data), overrides=SETTINGS | setup.settings
            )
        )
        self._data = self._config.data
        descriptors = raise_descriptor_limit() if setup.owns_process else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._files_max = min(max(descriptors // 2, 64), _FILES_MAX)
        self._heaps = count()
        self.faults = FaultTable()
        self.clock = MovableClock()
        self._timers: LoopTimers
        self._disk: EmbeddedDisk
        self._cleaner: CleanerProcess
        self._lock = lock_data(self._data)
        try:
            self._take_out_trash()
            self.node = self._make_node()
        except BaseException:
            os.close(self._lock)
            raise
        self.shell = Shell(
            node=self.node,
            config=self._config.broker,
            loop=loop,
            # Connections idle in real time, wherever the clocks of the node stand.
            clock=SystemClock(),
            events=events,
            connections_per_address=self._config.connections_per_address,
        )

    def _make_node(self) -> EmbeddedNode:
        """With ports of its own: what another still waits for cannot reach it."""
        self._timers = LoopTimers(self._loop, self.clock, after=lambda: self.shell.finish_turn())
        self._disk = EmbeddedDisk(str(self._data), loop=self._loop, faults=self.faults, descriptors_max=self._files_max)
        self._cleaner = CleanerProcess(self._loop, str(self._data))
        return EmbeddedNode(
            faults=self.faults,
            config=self._config.broker,
            clock=self.clock,
            timers=self._timers,
            disk=self._disk,
            random_bytes=os.urandom,
            events=self._events,
            cleaner=self._cleaner,
        )

    # --- Starting and stopping -------------------------------------------------------------------------------

    async def start(self) -> str:
        """Where clients find it."""
        for name in self._config.broker.names_without_effect():
            self._events.warning("setting without effect here", name=name)
        bound = self.shell.listen(self._config.listeners)
        await self._start_node()
        self.shell.accept_clients(self._config.listeners)
        return str(bound[0])

    async def _start_node(self) -> None:
        started: asyncio.Future[Loaded | HeadraceError] = self._loop.create_future()
        self.node.start().then(started.set_result)
        found = await started
        if isinstance(found, HeadraceError):
            raise found
        self._events.info("loaded", **found._asdict())

    def stop(self) -> bool:
        """As an operator stops a broker; whether everything was written."""
        self.shell.close()
        is_clean = self.node.close()
        self._let_go()
        return is_clean

    def abandon(self) -> None:
        """As a crash leaves it."""
        self.shell.close()
        self._let_go()

    def _let_go(self) -> None:
        self._timers.close()
        self._cleaner.close()
        self._disk.close()
        os.close(self._lock)

    # --- Time ------------------------------------------------------------------------------------------------

    async def advance(self, *, wall_us: int, mono_us: int) -> None:
        """Move the clocks, and do what has become due."""
        # What happened before happened at the old time; so begin the sessions of members that a start finds.
        while self.node.is_loading_groups:
            await asyncio.sleep(_POLL_S)
        await _settle()
        self.clock.wall_ahead_ms += wall_us // 1000
        self.clock.mono_ahead_us += mono_us
        self._timers.catch_up()
        if wall_us:
            self.node.look_for_expired()
        await _settle()
        await self._compact()
        self.shell.finish_turn()

    async def _compact(self) -> None:
        """All that is dirty enough. What is written meanwhile, or cannot be cleaned, is the next look's business."""
        failures, ends = self.node.passing_failures, self.node.log_ends()
        for _ in range(2):  # The first look has what a start did not trust put on disk. Only the second finds it dirty.
            while self.node.passing_failures <= failures and self.node.look_for_dirt(ends):
                while self.node.is_compacting:
                    await asyncio.sleep(_POLL_S)
            await _settle()

    # --- Other states ----------------------------------------------------------------------------------------

    async def clear(self) -> None:
        """Nothing is there, nothing goes wrong, and the clocks are right."""
        self.faults.clear()
        self.clock = MovableClock()
        await self._go_on_with(())

    def snapshot(self, into: Path) -> None:
        """What a crash at this moment would leave."""
        _copy(self._content(), into)

    async def restore(self, snapshot: Path) -> None:
        await self._go_on_with(os.scandir(snapshot))

    async def _go_on_with(self, content: Iterable[os.DirEntry[str]]) -> None:
        """Another node, on a directory that holds this and nothing else."""
        given_ids = self.node.store.read(PRODUCER_IDS)
        cleaner = self._cleaner

        def make_node() -> EmbeddedNode:
            self._timers.close()
            self._disk.close()
            heap = self._data / _TRASH / str(next(self._heaps))
            heap.mkdir(parents=True)
            for entry in self._content():
                os.rename(entry.path, heap / entry.name)
            _copy(content, self._data)
            self.node = self._make_node()
            return self.node

        self.node.is_ending = True
        self.shell.go_on_with(make_node)
        await self._start_node()
        if given_ids is not None:
            self._keep_ids(int(given_ids.value))
        # Not while somebody waits for it.
        self._loop.call_soon(cleaner.close)
        self._loop.call_soon(self._take_out_trash)

    def _keep_ids(self, end: int) -> None:
        """Producers that are still there keep the ids that they were given; nobody else may get one of those."""
        found = self.node.store.read(PRODUCER_IDS)
        if found is None or int(found.value) < end:
            self.node.store.multi_then([Put(PRODUCER_IDS, str(end))], lambda error: None)

    def _content(self) -> list[os.DirEntry[str]]:
        return [
            entry
            for entry in os.scandir(self._data)
            if entry.name not in _LASTING and not entry.name.endswith(DELETE_SUFFIX)
        ]

    def _take_out_trash(self) -> None:
        shutil.rmtree(self._data / _TRASH, ignore_errors=True)


async def _settle() -> None:
    """Let callbacks run that wait for nothing but their turn."""
    for _ in range(_TURNS_TO_SETTLE):
        await asyncio.sleep(0)


def _copy(entries: Iterable[os.DirEntry[str]], into: Path) -> None:
    for entry in entries:
        copy = shutil.copytree if entry.is_dir() else shutil.copy2
        copy(entry.path, into / entry.name)
