"""All consumers of a workload: groups of members, each a process; their seconds added up as they come.

    with Consumers(settings, topic, groups=["a", "b"], members=4) as consumers:
        consumers.join()
        consumers.start(start_utc_ns)
        ... consumers.listen() now and then ...
        consumers.drain(expected=1_000_000)  # Of each group.
        consumers.stop()

Whatever happens, no process is left at the end of the `with`. A consumer that dies leaves the others running;
`troubles` says what it died of.
"""

import selectors
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from headrace.lab.clocks import ClockOffset, ask_clocks
from headrace.lab.consumed import Consumed
from headrace.lab.crew import Crew, Member, Processes, Squad
from headrace.lab.errors import LabError

_MODULE: Final = "headrace.lab.consumer_process"
_JOIN_S: Final = 60.0
_STOP_S: Final = 20.0  # To leave a group, with nobody there to be told so.
IDLE_S: Final = 10.0  # Without a message, after which none is expected any more.
_LOOK_S: Final = 0.2


class _Consumer:
    """One of them, and how far it has told."""

    def __init__(self, number: int, member: Member, *, group: str) -> None:
        self.number = number
        self.member = member
        self.group = group
        self.is_ready = False
        self.is_over = False
        self.seconds = 0  # Told so far.
        self.total = 0


class Consumers:
    def __init__(
        self,
        settings: Mapping[str, str],
        topic: str,
        *,
        groups: Sequence[str],
        members: int,
        engine: str = "librdkafka",
        stagger_s: float = 0.0,
        behind_s: float = 0.0,
        crew: Crew | None = None,
    ) -> None:
        """Processes on this machine, unless there is a crew for it. The last group is `behind_s` later than the start,
        and begins with what there is by then."""
        self._settings = dict(settings)
        self._topic = topic
        self._members = [
            {"group": group, "index": index, "members": members, "engine": engine}
            | ({"behind_s": behind_s} if behind_s and group == groups[-1] else {})
            for group in groups
            for index in range(members)
        ]
        self._groups = tuple(groups)
        self._stagger_s = stagger_s
        self._behind_s = behind_s
        self._behind_from_s = 0.0  # When the last group begins, by the monotonic clock.
        self._crew = crew or Processes()
        self._squads: list[Squad] = []
        self._consumers: list[_Consumer] = []
        self._selector = selectors.DefaultSelector()
        self._rows: dict[int, Consumed] = {}
        self.troubles: list[str] = []
        self.clocks: list[ClockOffset | None] = []  # Of those on other hosts, once they have joined and wait.
        # Since the start, and known at the end: when the first consumer was ready, and when the last message came.
        self.ready_ns: int | None = None
        self.last_ns: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for squad in self._squads:
            squad.end()
        self._squads.clear()
        self._consumers.clear()
        self._selector.close()

    @property
    def pids(self) -> list[int]:
        """Of those that run on this machine."""
        return [consumer.member.pid for consumer in self._consumers if consumer.member.pid is not None]

    @property
    def totals(self) -> dict[str, int]:
        """Messages of each group so far, as of the last second that each member has told of."""
        found = dict.fromkeys(self._groups, 0)
        for consumer in self._consumers:
            found[consumer.group] += consumer.total
        return found

    @property
    def told_seconds(self) -> int | None:
        """All have told of so many; None where nobody will tell of any more."""
        return min((consumer.seconds for consumer in self._consumers if not consumer.is_over), default=None)

    def join(self, *, start_utc_ns: int | None = None, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Have all in their groups, one after the other; LabError where one cannot.

        With a start they take what there is at once; without one they wait until they are told.
        """
        orders: list[dict[str, Any]] = [
            {"settings": self._settings, "topic": self._topic, **member, "timeout_s": _JOIN_S}
            | ({} if start_utc_ns is None else {"start_utc_ns": start_utc_ns})
            for member in self._members
        ]
        if self._stagger_s:
            for number, order in enumerate(orders):
                if number:
                    self._wait(self._stagger_s, is_stopped)
                self._begin([order])
        elif orders:
            self._begin(orders)
        deadline_s = time.monotonic() + 2 * _JOIN_S
        while not all(consumer.is_ready for consumer in self._consumers):
            self.listen(_LOOK_S)
            if self.troubles:
                raise LabError(self.troubles[0])
            if is_stopped():
                return
            if time.monotonic() > deadline_s:
                raise LabError(f"the consumers were not ready in {2 * _JOIN_S:g} s")
        if start_utc_ns is None:  # Those that were told it are consuming by now.
            self.clocks = ask_clocks([consumer.member for consumer in self._consumers])

    def _begin(self, orders: Sequence[Mapping[str, Any]]) -> None:
        squad = self._crew.begin(_MODULE, orders)
        self._squads.append(squad)
        for member, order in zip(squad.members, orders, strict=True):
            consumer = _Consumer(len(self._consumers), member, group=order["group"])
            self._consumers.append(consumer)
            self._selector.register(member, selectors.EVENT_READ, consumer)

    def start(self, start_utc_ns: int) -> None:
        if self._behind_s:
            self._behind_from_s = time.monotonic() + (start_utc_ns - time.time_ns()) / 1e9 + self._behind_s
        for consumer in self._consumers:
            consumer.member.say({"start_utc_ns": start_utc_ns})

    def listen(self, timeout_s: float = 0.0) -> None:
        """Learn what there is to learn, for which it waits so long at most."""
        if not self._consumers:
            return
        for key, _ in self._selector.select(timeout_s):
            self._hear(key.data)

    def drain(self, *, expected: int, is_stopped: Callable[[], bool] = lambda: False, idle_s: float = IDLE_S) -> None:
        """Until every group has consumed so many messages, or none came for a while.

        A group that is behind is waited for until it begins, and has joined.
        """
        moved_s, seen = max(time.monotonic(), self._behind_from_s), self.totals
        while min(seen.values()) < expected and not is_stopped() and self.told_seconds is not None:
            self.listen(_LOOK_S)
            is_awaited = self._behind_s > 0 and not seen[self._groups[-1]]
            if (totals := self.totals) != seen:
                moved_s, seen = max(time.monotonic(), moved_s), totals
            elif time.monotonic() - moved_s > (max(idle_s, _JOIN_S) if is_awaited else idle_s):
                return

    def stop(self) -> None:
        """Have all leave, and learn what they have not told."""
        for consumer in self._consumers:
            if not consumer.is_over:
                consumer.member.say({"stop": True})
        deadline_s = time.monotonic() + _STOP_S
        while any(not consumer.is_over for consumer in self._consumers) and time.monotonic() < deadline_s:
            self.listen(_LOOK_S)

    def rows(self, before: int | None = None) -> Iterator[tuple[int, Consumed]]:
        """The seconds that nobody will tell of any more, each once; all there are without `before`."""
        for second in sorted(self._rows):
            if before is None or second < before:
                yield second, self._rows.pop(second)

    def _wait(self, seconds: float, is_stopped: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + seconds
        while not is_stopped() and (left_s := deadline_s - time.monotonic()) > 0:
            self.listen(min(left_s, _LOOK_S))

    def _hear(self, consumer: _Consumer) -> None:
        heard = consumer.member.hear()
        if heard is None:
            self._selector.unregister(consumer.member)
            if not consumer.is_over:
                self.troubles.append(f"consumer {consumer.number}: {consumer.member.last_words()}")
                consumer.is_over = True
        for message in heard or []:
            if "ready" in message:
                consumer.is_ready = True
            elif "row" in message:
                row = Consumed.from_json(message["row"], consumer=consumer.number)
                self._rows.setdefault(message["second"], Consumed()).merge(row)
                consumer.seconds = message["second"] + 1
                consumer.total = message["total"]
            elif "ending" in message:
                self._note_ending(message["ending"])
                consumer.is_over = True
            else:
                self.troubles.append(f"consumer {consumer.number}: {message['trouble']}")
                consumer.is_over = True

    def _note_ending(self, ending: Mapping[str, int | None]) -> None:
        if (ready_ns := ending["ready_ns"]) is not None:
            self.ready_ns = ready_ns if self.ready_ns is None else min(self.ready_ns, ready_ns)
        if (last_ns := ending["last_ns"]) is not None:
            self.last_ns = last_ns if self.last_ns is None else max(self.last_ns, last_ns)
