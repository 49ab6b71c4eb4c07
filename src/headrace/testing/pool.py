"""Brokers in the time that a fork takes, for tests that want one each.

    with BrokerPool() as pool:
        with pool.broker() as broker:
            ...

A pool is one process that has imported everything that a broker needs; its brokers are forks of it. Starting the pool
takes as long as starting one broker, and can go on in the background while the test session collects its tests.
"""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

from headrace.testing.broker import Broker, Setting
from headrace.testing.launching import Spawner


class BrokerPool:
    def __init__(self) -> None:
        """The process is started at once, and not waited for."""
        self._spawner = Spawner()
        self._brokers: WeakSet[Broker] = WeakSet()

    def broker(
        self, config: Mapping[str, Setting] | None = None, *, data: str | Path | None = None, log_level: str = "info"
    ) -> Broker:
        """As `Broker(...)`: not started yet, and on its own from then on, restarts included."""
        broker = Broker(config, data=data, log_level=log_level, launch=self._spawner.launch)
        self._brokers.add(broker)
        return broker

    def close(self) -> None:
        """End the process, and the brokers that are left."""
        for broker in tuple(self._brokers):
            broker.close()
        self._spawner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
