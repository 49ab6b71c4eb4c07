"""A real broker inside your tests: `from headrace.testing import Broker`.

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        ...
        assert [record.value for record in broker.log("orders", 0)] == [b"1", b"2"]

What is here is public. `docs/embedded.md` shows it at work; the pytest fixtures are in `headrace.testing.plugin`.

Names are brought in when they are first used: whoever runs a node in a process of its own needs none of them, nor does
pytest while it starts.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.errors import ErrorCode
    from headrace.protocol.records import Record
    from headrace.testing.broker import Broker, Snapshot
    from headrace.testing.clock import BrokerClock
    from headrace.testing.control import BrokerError
    from headrace.testing.faults import Fault, Faults
    from headrace.testing.pool import BrokerPool
    from headrace.testing.views import Committed, Group, Log, Member, Producer, Statistics, Traffic

_MODULES = {
    "Broker": "headrace.testing.broker",
    "BrokerClock": "headrace.testing.clock",
    "BrokerError": "headrace.testing.control",
    "BrokerPool": "headrace.testing.pool",
    "Committed": "headrace.testing.views",
    "ErrorCode": "headrace.errors",
    "Fault": "headrace.testing.faults",
    "Faults": "headrace.testing.faults",
    "Group": "headrace.testing.views",
    "Log": "headrace.testing.views",
    "Member": "headrace.testing.views",
    "Producer": "headrace.testing.views",
    "Record": "headrace.protocol.records",
    "Snapshot": "headrace.testing.broker",
    "Statistics": "headrace.testing.views",
    "Traffic": "headrace.testing.views",
}

__all__ = [
    "Broker",
    "BrokerClock",
    "BrokerError",
    "BrokerPool",
    "Committed",
    "ErrorCode",
    "Fault",
    "Faults",
    "Group",
    "Log",
    "Member",
    "Producer",
    "Record",
    "Snapshot",
    "Statistics",
    "Traffic",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
