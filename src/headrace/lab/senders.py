"""All senders of a scenario: started, connected, let go at one moment, and their seconds added up as they come.

    with Senders(scenario, settings) as senders:
        senders.connect()
        senders.start()
        for second, row in senders.rows():
            ...
    senders.outcome

Whatever happens, no process is left at the end of the `with`. A sender that dies leaves the others running: what it
told before still counts, and `outcome` says that the run is partial, and why.
"""

import selectors
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from headrace.lab.clocks import ClockOffset, ask_clocks
from headrace.lab.crew import Crew, Member, Processes, Squad
from headrace.lab.errors import LabError
from headrace.lab.scenario import Scenario
from headrace.lab.sender import ANSWERS_S
from headrace.lab.timeline import Second

_MODULE: Final = "headrace.lab.sender_process"
_START_S: Final = 0.3  # From the word to the start: enough for every process to hear it.
_CONNECT_S: Final = 60.0  # A large file is read first.
_GRACE_S: Final = 30.0  # Beyond what a run may take by its own rules.


@dataclass(slots=True)
class Outcome:
    """How the run ended, over all senders."""

    elapsed_s: float = 0.0  # Of sending.
    answered_s: float = 0.0  # Since the start, when the last answer came that is any good.
    unsent: int = 0
    lost_sight: int = 0
    is_stopped: bool = False
    failures: dict[str, int] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)  # What senders died of.
    # Where the time of all senders went, added up.
    no_room_s: float = 0.0  # Messages were due, and the engine had no room for them.
    making_s: float = 0.0  # Messages were read or generated.
    throttled_s: float = 0.0  # Brokers said that they hold back for a quota's sake.


class _Sender:
    """One of them, and how far it has told."""

    def __init__(self, number: int, member: Member) -> None:
        self.number = number
        self.member = member
        self.seconds = 0
        self.is_over = False


class Senders:
    def __init__(
        self, scenario: Scenario, settings: Mapping[str, str], *, timeout_s: float = 10.0, crew: Crew | None = None
    ) -> None:
        """Processes on this machine, unless there is a crew for it."""
        self._scenario = scenario
        self._settings = dict(settings)
        self._timeout_s = timeout_s
        self._crew = crew or Processes()
        self._squad: Squad | None = None
        self._senders: list[_Sender] = []
        self._selector = selectors.DefaultSelector()
        self._rows: dict[int, Second] = {}
        self._told = 0
        self._client_statistics: list[dict[str, Any]] = []
        self.start_utc_ns = 0
        self.clocks: list[ClockOffset | None] = []  # Of those on other hosts, once connected.
        self.outcome = Outcome()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._squad is not None:
            self._squad.end()
        self._senders.clear()
        self._selector.close()

    @property
    def pids(self) -> list[int]:
        """Of those that run on this machine."""
        return [sender.member.pid for sender in self._senders if sender.member.pid is not None]

    def connect(self) -> None:
        """Have all ready to start; LabError where one cannot."""
        orders = [
            {
                "scenario": self._scenario.to_json(),
                "index": number,
                "settings": self._settings,
                "timeout_s": self._timeout_s,
            }
            for number in range(self._scenario.processes)
        ]
        self._squad = self._crew.begin(_MODULE, orders)
        self._senders = [_Sender(number, member) for number, member in enumerate(self._squad.members)]
        for sender in self._senders:
            self._selector.register(sender.member, selectors.EVENT_READ, sender)
        waited = set(self._senders)
        deadline_s = time.monotonic() + _CONNECT_S + self._timeout_s
        while waited:
            events = self._selector.select(max(0.0, deadline_s - time.monotonic()))
            if not events:
                raise LabError(f"{len(waited)} senders were not ready in {_CONNECT_S + self._timeout_s:g} s")
            for key, _ in events:
                sender = key.data
                heard = sender.member.hear()
                for message in [{"trouble": sender.member.last_words()}] if heard is None else heard:
                    if "trouble" in message:
                        raise LabError(message["trouble"])
                    waited.discard(sender)

        self.clocks = ask_clocks([sender.member for sender in self._senders])

    def start(self) -> None:
        """Have all begin at one moment, in a moment."""
        self.start_utc_ns = time.time_ns() + round(_START_S * 1e9)
        for sender in self._senders:
            sender.member.say({"start_utc_ns": self.start_utc_ns})

    def rows(self) -> Iterator[tuple[int, Second]]:
        """Each second, as soon as all senders have told of it."""
        deadline_s = self._deadline_s()
        while not all(sender.is_over for sender in self._senders):
            left_s = None if deadline_s is None else deadline_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                self.outcome.troubles += [
                    f"sender {sender.number} did not end" for sender in self._senders if not sender.is_over
                ]
                break
            for key, _ in self._selector.select(left_s):
                self._listen(key.data)
            yield from self._complete()
        for sender in self._senders:
            sender.is_over = True
        yield from self._complete()

    def pop_client_statistics(self) -> list[dict[str, Any]]:
        """What clients have said of themselves since; nothing unless the settings ask for it."""
        told, self._client_statistics = self._client_statistics, []
        return told

    def stop(self) -> None:
        """End sending now; `rows` goes on until all have told how it went."""
        for sender in self._senders:
            sender.member.say({"stop": True})

    def _deadline_s(self) -> float | None:
        if self._scenario.duration_s is None:
            return None
        return time.monotonic() + self._scenario.duration_s + ANSWERS_S + self._timeout_s + _GRACE_S

    def _listen(self, sender: _Sender) -> None:
        heard = sender.member.hear()
        if heard is None:
            self._selector.unregister(sender.member)
            if not sender.is_over:
                self.outcome.troubles.append(f"sender {sender.number}: {sender.member.last_words()}")
                sender.is_over = True
        for message in heard or []:
            if "row" in message:
                row = self._rows.setdefault(message["second"], Second())
                row.merge(Second.from_json(message["row"]))
                sender.seconds = message["second"] + 1
            elif "client" in message:
                self._client_statistics.append({"sender": sender.number, **message["client"]})
            elif "ending" in message:
                self._note_ending(message["ending"], message["failures"])
                sender.is_over = True
            else:
                self.outcome.troubles.append(f"sender {sender.number}: {message['trouble']}")
                sender.is_over = True

    def _note_ending(self, ending: Mapping[str, Any], failures: Mapping[str, int]) -> None:
        outcome = self.outcome
        outcome.elapsed_s = max(outcome.elapsed_s, ending["elapsed_ns"] / 1e9)
        outcome.answered_s = max(outcome.answered_s, ending["answered_ns"] / 1e9)
        outcome.unsent += ending["unsent"]
        outcome.lost_sight += ending["lost_sight"]
        outcome.is_stopped |= ending["is_stopped"]
        outcome.no_room_s += ending["no_room_ns"] / 1e9
        outcome.making_s += ending["making_ns"] / 1e9
        outcome.throttled_s += ending["throttled_ns"] / 1e9
        for reason, count in failures.items():
            outcome.failures[reason] = outcome.failures.get(reason, 0) + count

    def _complete(self) -> Iterator[tuple[int, Second]]:
        """Seconds of which no sender will tell any more."""
        running = [sender.seconds for sender in self._senders if not sender.is_over]
        end = min(running) if running else max(self._rows, default=-1) + 1
        while self._told < end:
            yield self._told, self._rows.pop(self._told, Second())
            self._told += 1
