"""The embedded broker, as a test holds it.

A real broker on a real socket, in a process of its own: a test that polls in the same process starves a broker beside
it, and `kill` must not take the test with it. The test tells it what to do and looks into it over a control socket.
"""

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Self

from headrace.testing.clock import BrokerClock
from headrace.testing.control import BrokerError, Control
from headrace.testing.faults import Faults
from headrace.testing.launching import Launch, Running, launch_process, launch_thread
from headrace.testing.messages import Setup
from headrace.testing.ports import lasting_ports
from headrace.testing.views import Group, Log, Statistics

if TYPE_CHECKING:
    from headrace.protocol.records import Record

Setting = str | int | float | bool
Text = str | bytes

# Settings that a broker which a test holds has no choice about, and what to do instead.
_OURS: Final = {
    "advertised.listeners": "clients are told what `bootstrap` is",
    "http.listen": "`statistics()` tells what the HTTP port would",
    "listeners": "choose with port=",
    "log.dir": "choose with data=",
    "log.dirs": "choose with data=",
}
_LOG_TAIL_BYTES: Final = 4096
_PORTS_TRIED_MAX: Final = 5
_POLL_S: Final = 0.005


class Snapshot:
    """All data of a broker at one moment. It is there until it is closed, or nobody holds it any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="headrace-snapshot-"))
        self._remove = weakref.finalize(self, _remove_tree, str(self.path), os.getpid())

    def close(self) -> None:
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Broker:
    """`with Broker() as broker:` and `async with Broker() as broker:` start it and leave nothing behind.

    Without them: `start`, then `close` when all is done. Methods may be called from any thread. They wait for the
    broker, which takes a fraction of a millisecond for most, so they may be called from a coroutine as well; only
    `wait_for_records` waits for others, and there belongs into `asyncio.to_thread`.
    """

    def __init__(
        self,
        config: Mapping[str, Setting] | None = None,
        *,
        data: str | Path | None = None,
        port: int | None = None,
        in_thread: bool = False,
        log_level: str = "info",
        launch: Launch | None = None,
    ) -> None:
        """`config` has Kafka's names of broker settings, which are also the defaults of topics.

        `data` is kept; without it there is a temporary directory, which is removed. `in_thread` runs the broker in a
        thread of this process, for a debugger; a test that polls hard slows it down. `launch` is for pools.
        """
        self.faults = Faults(self)
        self.clock = BrokerClock(self)
        self._config = {name: _setting_text(value) for name, value in (config or {}).items()}
        for name in self._config.keys() & _OURS.keys():
            raise ValueError(f"{name} is not for config to say: {_OURS[name]}")
        self._asked_data = data
        self._data: Path | None = None
        self._remove_data: Any = None
        self._port = port
        self._in_thread = in_thread
        self._log_level = log_level
        self._launch = launch or (launch_thread if in_thread else launch_process)
        self._log: IO[bytes] | None = None
        self._running: Running | None = None
        self._control: Control | None = None
        self._address = ""

    # --- Where and what --------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT`, for `bootstrap.servers`. The same over restarts."""
        if not self._address:
            raise BrokerError("the broker was not started yet")
        return self._address

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def data(self) -> Path:
        """The data directory, in Kafka's own format."""
        if self._data is None:
            raise BrokerError("the broker was not started yet")
        return self._data

    @property
    def is_running(self) -> bool:
        return self._running is not None

    @property
    def pid(self) -> int:
        """Of the broker's process, or of this one where the broker is a thread of it."""
        if self._running is None:
            raise BrokerError("the broker is not running")
        return self._running.pid

    def log_text(self) -> str:
        """What the broker logged, over all its starts."""
        if self._log is None:
            return ""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    # --- Life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it, for the first time or again: on the same port, with the data that is there."""
        if self._running is not None:
            raise BrokerError("the broker is running already")
        self._prepare()
        assert self._log is not None
        self._running = self._launch(self._log)
        self._control = Control(self._running.control, last_words=self._log_tail)
        try:
            self._address = self._start_on_a_port()
        except BaseException:
            self._put_away()
            raise

    def _prepare(self) -> None:
        if self._log is None:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115  # Lives as long as the broker.
        if self._data is None:
            if self._asked_data is None:
                self._data = Path(tempfile.mkdtemp(prefix="headrace-"))
                self._remove_data = weakref.finalize(self, _remove_tree, str(self._data), os.getpid())
            else:
                self._data = Path(self._asked_data)

    def _start_on_a_port(self) -> str:
        """On the one that it has; if it has none yet, on one that is free, and stays free when the broker is down."""
        if self._port is not None:
            return self._start_on(self._port)
        *others, last = lasting_ports(_PORTS_TRIED_MAX)
        for port in others:
            try:
                return self._start_on(port)
            except BrokerError as error:
                if "cannot listen" not in str(error):
                    raise
                # Somebody else was given it since it was looked for.
        return self._start_on(last)

    def _start_on(self, port: int) -> str:
        setup = Setup(
            data=str(self.data),
            listen=f"127.0.0.1:{port}",
            settings=self._config,
            log_level=self._log_level,
            is_temporary=self._asked_data is None,
            owns_process=not self._in_thread,
        )
        address: str = self.command("start", setup=setup)
        self._port = port
        return address

    def stop(self) -> bool:
        """Stop it as an operator would; `start` goes on from there. Whether everything could be written."""
        is_clean: bool = self.command("stop")
        self._put_away()
        return is_clean

    def restart(self) -> None:
        """Stop and start. Clients lose their connections, and find it again."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """SIGKILL: no goodbye, no flush. `start` recovers."""
        if self._running is None:
            raise BrokerError("the broker is not running")
        if self._in_thread:
            self.command("abandon")  # Or it would take its data with it.
        running, self._running, self._control = self._running, None, None
        running.kill()

    def close(self) -> None:
        """End it, whatever state it is in, and remove what is temporary. It can be started again, as new."""
        if self._running is not None and self._asked_data is not None:
            # Somebody may want to go on from there; but one that died already cannot be stopped.
            with suppress(BrokerError):
                self.command("stop")
        self._put_away()
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._remove_data is not None:
            self._remove_data()
            self._remove_data = None
            self._data = None

    def _put_away(self) -> None:
        running, self._running, self._control = self._running, None, None
        if running is not None:
            running.end()

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

    async def __aenter__(self) -> Self:
        import asyncio

        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    # --- Between tests ---------------------------------------------------------------------------------------

    def clear(self) -> None:
        """As if it had just been started for the first time: no topics, groups, offsets, producers or faults, and the
        clocks are right. Clients stay connected; those that wait for something are told or cut off."""
        self.command("clear")

    def snapshot(self) -> Snapshot:
        """All data as it is now. Restored, it is as if the broker had been killed at this moment and started again."""
        snapshot = Snapshot()
        try:
            self.command("snapshot", into=str(snapshot.path))
        except BaseException:
            snapshot.close()
            raise
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Take back all data to what they were, here or in another broker. Faults and clocks stay as they are."""
        self.command("restore", snapshot=str(snapshot.path))

    # --- Looking ---------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, int]:
        """How many partitions each topic has, internal ones left out."""
        topics: dict[str, int] = self.command("topics")
        return topics

    def log(self, topic: str, partition: int = 0) -> Log:
        """A partition: its offsets, its producers and all records that a consumer could read."""
        log: Log = self.command("log", topic=topic, partition=partition)
        return log

    def records(self, topic: str) -> "list[Record]":
        """The records of all partitions, one partition after the other."""
        return [record for partition in range(self.topics().get(topic, 0)) for record in self.log(topic, partition)]

    def groups(self) -> dict[str, Group]:
        """Every consumer group by its id: members, what they were assigned, what was committed."""
        groups: dict[str, Group] = self.command("groups")
        return groups

    def statistics(self) -> Statistics:
        statistics: Statistics = self.command("statistics")
        return statistics

    def wait_for_records(self, topic: str, count: int, *, timeout_s: float = 10.0) -> "list[Record]":
        """The records of all partitions, once there are so many; BrokerError where there are not."""
        deadline_s = time.monotonic() + timeout_s
        looked_at: dict[int, int] | None = None
        while True:
            offsets: dict[int, int] = self.command("counts", topic=topic)
            if sum(offsets.values()) < count:
                found = sum(offsets.values())
            elif offsets != looked_at:
                # Only now, and not again before more came: where something was compacted, there are fewer of them.
                looked_at = offsets
                records = [record for partition in sorted(offsets) for record in self.log(topic, partition)]
                found = len(records)
                if found >= count:
                    return records
            if time.monotonic() > deadline_s:
                raise BrokerError(f"{topic!r} has {found} records after {timeout_s} s, not {count}")
            time.sleep(_POLL_S)

    # --- Doing -----------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, **config: Setting) -> None:
        """With settings under Kafka's names: `create_topic("t", **{"retention.ms": 1000})`, or, since Python's names
        have no dots, `create_topic("t", retention_ms=1000)`."""
        settings = {key.replace("_", "."): _setting_text(value) for key, value in config.items()}
        self.command("create_topic", name=name, partitions=partitions, config=settings)

    def produce(
        self,
        topic: str,
        value: Text | None,
        *,
        key: Text | None = None,
        headers: Mapping[str, Text | None] | Iterable[tuple[str, Text | None]] = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write one record without a client, and no fault can meet it; its offset. The topic is created as for a
        client."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        offset: int = self.command(
            "produce",
            topic=topic,
            partition=partition,
            key=_bytes(key),
            value=_bytes(value),
            headers=tuple((name, _bytes(content)) for name, content in pairs),
            timestamp_ms=timestamp_ms,
        )
        return offset

    def command(self, name: str, /, **arguments: Any) -> Any:
        """One command of the control protocol; the other methods are made of it."""
        if self._control is None:
            raise BrokerError("the broker is not running")
        return self._control.call(name, **arguments)

    def _log_tail(self) -> str:
        tail = self.log_text()[-_LOG_TAIL_BYTES:].strip()
        return f"\n{tail}" if tail else ""


def _setting_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bytes(text: Text | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _remove_tree(path: str, owner: int) -> None:
    # A fork of the test has the same object, and it is not its business.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
