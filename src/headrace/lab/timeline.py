"""What happened, second by second: planned, sent, answered, failed, how late and how long.

A second's row tells of what happened within it: `planned` of messages that were to be sent then, `sent` of those that
were, `acknowledged` and `failed` of those whose fate became known, whenever they were planned or sent. Rows of several
senders with one start add up.

Three durations, each in a histogram: lateness, planned to sent, is the sender's own; `latency_planned`, planned to
acknowledged, is what somebody waits whose message was due then, and the headline; `latency_sent`, sent to
acknowledged, is what tools show that forget the messages which a stall kept from being sent.

Moments are nanoseconds since the start.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from headrace.lab.histogram import Histogram
from headrace.lab.schedule import SECOND_NS

Int64s = npt.NDArray[np.int64]

COUNTS: Final = ("planned", "sent", "sent_bytes", "acknowledged", "unanswered", "answered_bytes", "failed")
DURATIONS: Final = ("lateness", "latency_planned", "latency_sent")


@dataclass(slots=True)
class Second:
    """One second's row, or the sum of several."""

    planned: int = 0
    sent: int = 0
    sent_bytes: int = 0  # Of values alone.
    acknowledged: int = 0
    unanswered: int = 0  # With acks=0: given to the network, which nobody answers for.
    answered_bytes: int = 0  # Of the values of both.
    failed: int = 0
    lateness: Histogram = field(default_factory=Histogram)
    latency_planned: Histogram = field(default_factory=Histogram)
    latency_sent: Histogram = field(default_factory=Histogram)

    def merge(self, other: Self) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in DURATIONS:
            getattr(self, name).merge(getattr(other, name))

    def to_json(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in COUNTS}
        return counts | {name: getattr(self, name).to_json() for name in DURATIONS}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        made = cls()
        for name in COUNTS:
            setattr(made, name, value[name])
        for name in DURATIONS:
            setattr(made, name, Histogram.from_json(value[name]))
        return made


class _Answered(NamedTuple):
    planned: Int64s
    sent: Int64s
    at: Int64s
    is_acknowledged: bool


class Timeline:
    """Fill it as things happen; `fold` does the counting, for many messages at a time."""

    def __init__(self) -> None:
        self._seconds: dict[int, Second] = {}
        self._sent: list[tuple[Int64s, Int64s]] = []
        self._answered: list[_Answered] = []
        self.answered_ns = 0  # When the last message was acknowledged, or given to the network.
        self.failures: dict[str, int] = {}  # Reasons, and how many messages each has cost.

    def sent(self, planned: Int64s, sent: Int64s, size_bytes: int) -> None:
        self._sent.append((planned, sent))
        self._second(int(sent[-1])).sent_bytes += size_bytes

    def acknowledged(self, planned: Int64s, sent: Int64s, at: Int64s, size_bytes: int) -> None:
        self._second(int(at[-1])).answered_bytes += size_bytes
        self._answered.append(_Answered(planned, sent, at, is_acknowledged=True))

    def unanswered(self, planned: Int64s, sent: Int64s, at: Int64s, size_bytes: int) -> None:
        """Given to the network. The latencies end there, for want of anything better."""
        self._second(int(at[-1])).answered_bytes += size_bytes
        self._answered.append(_Answered(planned, sent, at, is_acknowledged=False))

    def failed(self, messages: int, at_ns: int, reason: str) -> None:
        self._second(at_ns).failed += messages
        self.failures[reason] = self.failures.get(reason, 0) + messages

    def unsent(self, planned: Int64s, now_ns: int) -> None:
        """Never sent, and at least so late."""
        self._second(now_ns).lateness.add(now_ns - planned)

    def planned(self, second: int, messages: int) -> None:
        self._second(second * SECOND_NS).planned += messages

    def _second(self, at_ns: int) -> Second:
        return self._seconds.setdefault(at_ns // SECOND_NS, Second())

    def fold(self) -> None:
        if self._sent:
            planned, sent = (np.concatenate(parts) for parts in zip(*self._sent, strict=True))
            self._sent.clear()
            for row, (late,) in self._rows(sent, sent - planned):
                row.sent += len(late)
                row.lateness.add(late)
        for is_acknowledged in (True, False):
            parts = [part for part in self._answered if part.is_acknowledged is is_acknowledged]
            if not parts:
                continue
            at = np.concatenate([part.at for part in parts])
            self.answered_ns = max(self.answered_ns, int(at.max()))
            since_planned = at - np.concatenate([part.planned for part in parts])
            since_sent = at - np.concatenate([part.sent for part in parts])
            for row, (whole, own) in self._rows(at, since_planned, since_sent):
                if is_acknowledged:
                    row.acknowledged += len(whole)
                else:
                    row.unanswered += len(whole)
                row.latency_planned.add(whole)
                row.latency_sent.add(own)
        self._answered.clear()

    def _rows(self, at: Int64s, *values: Int64s) -> Iterator[tuple[Second, list[Int64s]]]:
        seconds = at // SECOND_NS
        first = int(seconds[0])
        if (seconds == first).all():  # Nearly always.
            yield self._seconds.setdefault(first, Second()), list(values)
            return
        for second in np.unique(seconds).tolist():
            where = seconds == second
            yield self._seconds.setdefault(second, Second()), [each[where] for each in values]

    def pop(self, second: int) -> Second:
        """A row that is over and done with."""
        return self._seconds.pop(second, Second())
