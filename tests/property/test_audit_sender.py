"""A sender that dies at any moment: what is published never claims too much, and its next life settles all it can."""

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.audit_topic import AuditUnavailable
from headrace.audit.journal import Journal, settle_former
from headrace.audit.messages import Sent, newest
from headrace.audit.runs import Runs
from headrace.audit.sender import Sender
from headrace.audit.spans import Span, State
from headrace.audit.stamps import SpanId
from headrace.audit.windows import window_of

WINDOW_MS = 100


class Killed(BaseException):
    """Where the process was when it ended."""


class World:
    """An audit topic that fails now and then, having written or not, and what truly became of each message."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.published: list[Sent] = []
        self.kill_after = random.randrange(1, 60)  # So many publications later.
        self.given: set[tuple[SpanId, int]] = set()
        self.acknowledged: set[tuple[SpanId, int]] = set()
        self.refused: set[tuple[SpanId, int]] = set()

    def publish(self, told: Sequence[Sent]) -> None:
        self.kill_after -= 1
        is_killed, is_away = self.kill_after == 0, self.random.random() < 0.2
        if self.random.random() < 0.5 or not (is_killed or is_away):
            self.published += told
        if is_killed:
            raise Killed
        if is_away:
            raise AuditUnavailable("away")

    def newest(self) -> list[Sent]:
        return [told for told in newest(self.published) if isinstance(told, Sent)]

    def check(self) -> None:
        """What holds at every moment, and hence at the moment of a kill."""
        said = {told.span: told for told in self.newest()}
        assert {span for span, _ in self.given} <= set(said)
        for told in said.values():
            claimed = {(told.span, number) for number in numbers(told.acknowledged)}
            assert claimed <= self.acknowledged
            possible = {(told.span, number) for number in numbers(told.possible)}
            assert {each for each in self.given if each[0] == told.span} - self.refused <= possible


def numbers(runs: Runs) -> set[int]:
    return {number for first, end in runs for number in range(first, end)}


def live(sender: Sender, world: World, steps: int) -> None:
    """Take, settle and give back at random, until the steps are done or the world ends."""
    random = world.random
    now_ms = 0
    under_way: list[tuple[Span, int]] = []
    for _ in range(steps):
        now_ms += random.randrange(20)
        match random.choice(["take", "take", "take", "settle", "settle", "tick"]):
            case "take":
                count = random.choice([1, 1, 1, 2, 70])
                window = window_of(now_ms - random.randrange(150) + 150, length_ms=WINDOW_MS)
                try:
                    span, first = sender.take(random.choice(["clicks", "views"]), window, count)
                except AuditUnavailable:
                    continue
                if count == 1 and random.random() < 0.2:
                    sender.give_back(span, first)
                    continue
                taken = [(span, number) for number in range(first, first + count)]
                world.given |= {(each.id, number) for each, number in taken}
                under_way += taken
            case "settle" if under_way:
                span, number = under_way.pop(random.randrange(len(under_way)))
                state = random.choice([State.ACKNOWLEDGED, State.ACKNOWLEDGED, State.REFUSED, State.IN_DOUBT])
                # Known to the world before it is to the sender.
                world.acknowledged |= {(span.id, number)} if state is State.ACKNOWLEDGED else set()
                world.refused |= {(span.id, number)} if state is State.REFUSED else set()
                sender.settle(span, number, state)
            case "tick":
                with suppress(AuditUnavailable):
                    sender.tick(now_ms=now_ms)
        world.check()


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_a_kill_at_any_moment_leaves_the_truth(seed: int, lives: int) -> None:
    world = World(Random(seed))
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(lives):
            journal = Journal(directory, boot_id="the same")
            try:
                incarnation = settle_former(journal, now_us=1, publish=world.publish)
                sender = Sender(producer="web", incarnation=incarnation, host="h", publish=world.publish, shelf=journal)
                live(sender, world, steps=60)
            except (Killed, AuditUnavailable):
                pass
            world.check()
            journal.close()
            world.kill_after = world.random.randrange(1, 60)
        while True:  # The last one to start has the patience to be heard.
            journal = Journal(directory, boot_id="the same")
            try:
                settle_former(journal, now_us=1, publish=world.publish)
                break
            except (Killed, AuditUnavailable):
                pass
            finally:
                journal.close()
    world.check()
    for told in world.newest():
        mine = {number for span, number in world.given if span == told.span}
        acknowledged = {number for span, number in world.acknowledged if span == told.span}
        refused = {number for span, number in world.refused if span == told.span}
        assert told.reserved == told.handed
        assert numbers(told.acknowledged) == acknowledged
        assert numbers(told.possible) == mine - refused
