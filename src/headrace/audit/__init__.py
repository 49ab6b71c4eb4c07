"""An audit after the Kafka paper (NetDB'11, section 4): did every message arrive, at every tier, exactly once?

    with AuditedProducer({"bootstrap.servers": "localhost:9092"}, producer_id="web-7") as producer:
        producer.produce("clicks", b"...")

    headrace audit clicks

Senders stamp each message and publish, for each topic and window of event time, how many they sent; every tier counts
what it has seen by those stamps. `docs/audit.md` says what can be known from that, and what cannot.

Names are brought in when they are first used: a producer needs no Arrow, and `headrace --help` none of them.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.audit.audit_topic import AuditUnavailable
    from headrace.audit.consumer import AuditedConsumer
    from headrace.audit.producer import AuditedProducer
    from headrace.audit.writer import AuditedWriter

_MODULES = {
    "AuditUnavailable": "headrace.audit.audit_topic",
    "AuditedConsumer": "headrace.audit.consumer",
    "AuditedProducer": "headrace.audit.producer",
    "AuditedWriter": "headrace.audit.writer",
}

__all__ = ["AuditUnavailable", "AuditedConsumer", "AuditedProducer", "AuditedWriter"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
