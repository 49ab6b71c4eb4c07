"""What one counter of a tier has seen, topic by topic, what of it is to be published, and what many of them add up to.

Needs no client: messages are told to it, and what it tells is published by someone else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.audit.messages import AuditMessage, Reached, Seen
from headrace.audit.seen import Counts, SeenSpan
from headrace.audit.stamps import SpanId


class Tally:
    """One counter: a consumer in one of its lives."""

    def __init__(self, *, tier: str, counter: str) -> None:
        self._tier = tier
        self._counter = counter
        self._counts: dict[str, Counts] = {}
        self._extents: dict[tuple[str, int], tuple[int, int]] = {}
        self._moved: set[tuple[str, int]] = set()
        self._revision = 0

    @property
    def span_count(self) -> int:
        return sum(len(counts.spans) for counts in self._counts.values())

    def add(
        self, topic: str, partition: int, offset: int, headers: Iterable[tuple[str, bytes | str | None]] | None
    ) -> None:
        self._counts.setdefault(topic, Counts()).add_message(headers)
        first, reached = self._extents.get((topic, partition), (offset, 0))
        self._extents[topic, partition] = min(first, offset), max(reached, offset + 1)
        self._moved.add((topic, partition))

    def take_changed(self) -> list[AuditMessage]:
        """All that has changed since this was last asked."""
        self._revision += 1
        told: list[AuditMessage] = []
        for topic, counts in self._counts.items():
            for span, seen in counts.spans.items():
                told += [
                    Seen(
                        tier=self._tier,
                        counter=self._counter,
                        span=span,
                        topic=topic,
                        block=block.number,
                        runs=block.runs,
                        again=block.again,
                        time_ms_max=seen.time_ms_max,
                        revision=self._revision,
                    )
                    for block in seen.take_changed()
                ]
        moved, self._moved = sorted(self._moved), set()
        told += [
            Reached(
                tier=self._tier,
                counter=self._counter,
                topic=topic,
                partition=partition,
                first=self._extents[topic, partition][0],
                next=self._extents[topic, partition][1],
                revision=self._revision,
            )
            for topic, partition in moved
        ]
        return told

    def restore(self, told: Sequence[AuditMessage]) -> None:
        """It did not get through: it is told again next time."""
        for message in told:
            match message:
                case Seen():
                    self._counts[message.topic].spans[message.span].restore_changed([message.block])
                case Reached():
                    self._moved.add((message.topic, message.partition))


@dataclass(slots=True)
class Counted:
    """What a tier has seen of a topic, and of each partition from which offset up to which."""

    spans: dict[SpanId, SeenSpan] = field(default_factory=dict)
    extents: dict[int, tuple[int, int]] = field(default_factory=dict)
    unstamped: int = 0
    malformed: int = 0
    # Of a lake, by partition: the rows in the ranges that its ledger tells of, and how many of those are gone since.
    rows: dict[int, int] = field(default_factory=dict)
    gone: int = 0
    # Of a lake, by partition that does not begin with its first offset: that of the first row, and its time. And before
    # which time there was nothing of it to be had any more, or to be had at all.
    first_rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    began_ms: dict[int, int] = field(default_factory=dict)

    def extend(self, partition: int, first: int, end: int) -> None:
        known_first, known_end = self.extents.get(partition, (first, end))
        self.extents[partition] = min(known_first, first), max(known_end, end)

    def note_row(self, partition: int, offset: int, time_ms: int) -> None:
        self.first_rows[partition] = min(self.first_rows.get(partition, (offset, time_ms)), (offset, time_ms))


def add_up(messages: Iterable[AuditMessage], *, topic: str) -> dict[str, Counted]:
    """By tier. `messages` has the newest word of each counter on everything."""
    tiers: dict[str, Counted] = {}
    for message in messages:
        match message:
            case Seen() if message.topic == topic:
                counted = tiers.setdefault(message.tier, Counted())
                seen = counted.spans.setdefault(message.span, SeenSpan())
                seen.add_runs(message.runs, again=message.again)
                seen.time_ms_max = max(seen.time_ms_max, message.time_ms_max)
            case Reached() if message.topic == topic:
                counted = tiers.setdefault(message.tier, Counted())
                counted.extend(message.partition, message.first, message.next)
            case _:
                pass
    return tiers
