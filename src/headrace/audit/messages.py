"""What is published to the audit topic: JSON, one object per message, each with its version and kind.

`sent` is what a sender says of one of its spans, `seen` is what a consumer has counted of a block of one, `reached` is
how far that consumer is in a partition. Each says all there is to say of its subject and names it by the message's
key, so that the newest is enough: the topic may be compacted, and a message that arrives twice or out of order does no
harm.

A kind or a version that is not known is an error, not skipped: an audit that overlooks something is none.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from headrace.audit.runs import Runs, minus, run, runs_of
from headrace.audit.stamps import SpanId
from headrace.audit.windows import Window
from headrace.errors import HeadraceError

AUDIT_TOPIC: Final = "headrace-audit"
VERSION: Final = 1


class BadAuditMessage(HeadraceError):
    """A message in the audit topic that is not one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Of a span: sequences below `handed` were given to the client, below `reserved` may have been meanwhile.

    `reserved` equal to `handed` means that the sender will use no more. `told_by` is the incarnation that says so: a
    later one than the span's own speaks after the span's sender has died, and knows better.
    """

    span: SpanId
    topic: str
    window: Window
    host: str
    handed: int
    reserved: int
    in_doubt: Runs
    refused: Runs
    told_by: int
    revision: int

    @property
    def key(self) -> str:
        return f"sent/{self.span}"

    @property
    def newness(self) -> tuple[int, int]:
        return self.told_by, self.revision

    @property
    def acknowledged(self) -> Runs:
        return minus(minus(run(0, self.handed), self.in_doubt), self.refused)

    @property
    def possible(self) -> Runs:
        """All that may exist."""
        return minus(run(0, max(self.handed, self.reserved)), self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Of a block of a span: which sequences one counter of a tier has seen, and how many messages beyond that."""

    tier: str
    counter: str
    span: SpanId
    topic: str
    block: int
    runs: Runs
    again: int
    time_ms_max: int
    revision: int

    @property
    def key(self) -> str:
        return f"seen/{self.tier}/{self.counter}/{self.topic}/{self.span}/{self.block}"

    @property
    def newness(self) -> tuple[int, int]:
        return 0, self.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Of a partition, what one counter of a tier has gone through: from the first offset up to, not with, the next."""

    tier: str
    counter: str
    topic: str
    partition: int
    first: int
    next: int
    revision: int

    @property
    def key(self) -> str:
        return f"reached/{self.tier}/{self.counter}/{self.topic}/{self.partition}"

    @property
    def newness(self) -> tuple[int, int]:
        return 0, self.revision


AuditMessage = Sent | Seen | Reached


def encode(message: AuditMessage) -> tuple[bytes, bytes]:
    """Key and value."""
    fields: dict[str, Any] = {"version": VERSION}
    match message:
        case Sent():
            fields |= {
                "kind": "sent",
                **_span_fields(message.span),
                "host": message.host,
                "topic": message.topic,
                "window_start_ms": message.window.start_ms,
                "window_ms": message.window.length_ms,
                "handed": message.handed,
                "reserved": message.reserved,
                "in_doubt": message.in_doubt,
                "refused": message.refused,
                "told_by": message.told_by,
            }
        case Seen():
            fields |= {
                "kind": "seen",
                "tier": message.tier,
                "counter": message.counter,
                **_span_fields(message.span),
                "topic": message.topic,
                "block": message.block,
                "runs": message.runs,
                "again": message.again,
                "time_ms_max": message.time_ms_max,
            }
        case Reached():
            fields |= {
                "kind": "reached",
                "tier": message.tier,
                "counter": message.counter,
                "topic": message.topic,
                "partition": message.partition,
                "first": message.first,
                "next": message.next,
            }
    fields["revision"] = message.revision
    return message.key.encode(), json.dumps(fields, separators=(",", ":")).encode()


def parse(value: bytes | None) -> AuditMessage:
    try:
        fields = json.loads(value or b"")
        if fields["version"] != VERSION:
            raise BadAuditMessage(f"version {fields['version']!r} of the audit's messages is not known here")
        return _KINDS[fields["kind"]](fields)
    except (ValueError, KeyError, TypeError) as error:
        raise BadAuditMessage(f"{(value or b'')[:200]!r} is no message of the audit: {error!r}") from None


def newest(messages: Iterable[AuditMessage]) -> list[AuditMessage]:
    """Of each subject what was said last."""
    found: dict[str, AuditMessage] = {}
    for message in messages:
        known = found.get(message.key)
        if known is None or known.newness < message.newness:
            found[message.key] = message
    return list(found.values())


# --- Fields -------------------------------------------------------------------------------------------------------


def _span_fields(span: SpanId) -> dict[str, Any]:
    return {"producer": span.producer, "incarnation": span.incarnation, "span": span.number}


def _number(fields: dict[str, Any], name: str) -> int:
    number = fields[name]
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{name} is not a number from 0 on")
    return number


def _text(fields: dict[str, Any], name: str) -> str:
    text = fields[name]
    if not isinstance(text, str):
        raise ValueError(f"{name} is not a text")
    return text


def _runs(fields: dict[str, Any], name: str) -> Runs:
    given = fields[name]
    runs = runs_of((first, end) for first, end in given)
    if len(runs) != len(given) or any(type(place) is not int or place < 0 for pair in runs for place in pair):
        raise ValueError(f"{name} are not runs of sequences")
    return runs


def _span(fields: dict[str, Any]) -> SpanId:
    return SpanId(_text(fields, "producer"), _number(fields, "incarnation"), _number(fields, "span"))


def _parse_sent(fields: dict[str, Any]) -> Sent:
    length_ms = _number(fields, "window_ms")
    start_ms = fields["window_start_ms"]
    if length_ms < 1 or not isinstance(start_ms, int) or start_ms % length_ms:
        raise ValueError(f"{start_ms} does not begin a window of {length_ms} ms")
    return Sent(
        span=_span(fields),
        topic=_text(fields, "topic"),
        window=Window(start_ms, length_ms),
        host=_text(fields, "host"),
        handed=_number(fields, "handed"),
        reserved=_number(fields, "reserved"),
        in_doubt=_runs(fields, "in_doubt"),
        refused=_runs(fields, "refused"),
        told_by=_number(fields, "told_by"),
        revision=_number(fields, "revision"),
    )


def _parse_seen(fields: dict[str, Any]) -> Seen:
    return Seen(
        tier=_text(fields, "tier"),
        counter=_text(fields, "counter"),
        span=_span(fields),
        topic=_text(fields, "topic"),
        block=_number(fields, "block"),
        runs=_runs(fields, "runs"),
        again=_number(fields, "again"),
        time_ms_max=_number(fields, "time_ms_max"),
        revision=_number(fields, "revision"),
    )


def _parse_reached(fields: dict[str, Any]) -> Reached:
    return Reached(
        tier=_text(fields, "tier"),
        counter=_text(fields, "counter"),
        topic=_text(fields, "topic"),
        partition=_number(fields, "partition"),
        first=_number(fields, "first"),
        next=_number(fields, "next"),
        revision=_number(fields, "revision"),
    )


_KINDS: Final[dict[str, Callable[[dict[str, Any]], AuditMessage]]] = {
    "sent": _parse_sent,
    "seen": _parse_seen,
    "reached": _parse_reached,
}
