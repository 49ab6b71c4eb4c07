"""The power fails at every single change of the disk, of a short life that does a bit of everything.

Random histories rarely stop between two operations that follow at once; this one stops between all of them, and again
at every change of the recovery that follows.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from headrace.sim.administrator import Administrator
from headrace.sim.checker import Checker, Promise
from headrace.sim.clients import Ledger, Reader, Target, Topic
from headrace.sim.disk import PowerLost, Survival
from headrace.sim.machine import Machine
from headrace.sim.requests import encode_produce, parse_produced
from headrace.sim.world import World

FLUSHED = Promise(acknowledged_stays=True, read_stays=True)
SETTINGS = {"flush.messages": "1", "flush.before.expose": "true", "internal.segment.bytes": "250"}
Done = Callable[[], None]


class Life:
    """A node, and a client that does one thing after the other."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.checker = Checker()
        settings = {"log.index.interval.bytes": "0", "log.segment.delete.delay.ms": "0"}
        self.machine = Machine(self.world, settings=settings)
        self.machine.on_end = lambda node, power_lost: self.checker.lost_unflushed() if power_lost else None
        self.ledger = Ledger(self.machine, self.checker)
        self.admin = Administrator(self.ledger)
        self.sequence = 0

    def live(self) -> Iterator[Callable[[Done], None]]:
        """What it does, each given what to call when it is done."""
        make = partial(self.admin.create, partitions=1, settings=SETTINGS, promise=FLUSHED)
        yield lambda done: make("orders", done=lambda topic: done())
        orders = self.admin.topics["orders"]
        for _ in range(5):
            yield partial(self.produce, orders)
        yield lambda done: self.admin.delete_records(Target(orders, 0), 3, done)
        yield lambda done: make("bills", done=lambda topic: done())
        bills = self.admin.topics["bills"]
        yield partial(self.produce, bills)
        yield lambda done: self.admin.configure(orders, "500000", done)
        yield lambda done: self.admin.delete("bills", done)
        yield lambda done: make("bills", done=lambda topic: done())
        yield partial(self.produce, self.admin.topics["bills"])
        yield self.stop
        for _ in range(2):
            yield partial(self.produce, orders)
        yield self.kill
        for _ in range(2):
            yield partial(self.produce, orders)

    def produce(self, topic: Topic, done: Done) -> None:
        target = Target(topic, 0)
        data, values = self.ledger.make_batch(
            2, pad_bytes=3, producer_id=1, producer_epoch=0, base_sequence=self.sequence
        )
        if topic.name == "orders":
            self.sequence += 2
        self.checker.sending(1, target.place, values)

        def answered(answer: bytes | None) -> None:
            if answer is not None:
                error, base_offset = parse_produced(answer)
                assert error == 0
                self.checker.acknowledged(target.place, base_offset, values)
                done()

        connection = self.machine.connect()
        assert connection is not None
        connection.send(encode_produce(acks=-1, topic=target.name, partition=0, records=data), answered)

    def stop(self, done: Done) -> None:
        assert self.machine.stop()
        self.checker.stopped_cleanly()
        done()

    def kill(self, done: Done) -> None:
        self.machine.kill()
        done()

    def run(self) -> None:
        """To its end, or to that of the power."""
        self.machine.start()
        for step in self.live_when_up():
            outcome: list[bool] = []
            step(partial(outcome.append, True))
            self.world.run_until_true(lambda: bool(outcome))  # noqa: B023  # Called within the loop.

    def live_when_up(self) -> Iterator[Callable[[Done], None]]:
        steps = self.live()
        while True:
            self.world.run_until_true(lambda: self.machine.is_up)
            step = next(steps, None)
            if step is None:
                return
            yield step

    def check(self) -> None:
        """Start again, and hold what is there against what was promised."""
        self.world.run_until_true(lambda: self.machine.is_up)
        self.world.run_until(self.world.mono_us() + 200_000)
        outstanding: list[Any] = [None]
        done = outstanding.pop
        self.admin.list_topics(done)
        for topic in self.admin.topics.values():
            if topic.name not in self.admin.unsure:
                outstanding += [None, None]
                self.admin.look_at_configs(topic, done)
                Reader(self.ledger, Target(topic, 0), samples=2, done=done)
        self.world.run_until_true(lambda: not outstanding)
        assert self.checker.anomalies == []


def changes_of_a_whole_life() -> int:
    life = Life(1)
    total = 0
    end = life.machine.on_end

    def count(node: Any, power_lost: bool) -> None:
        nonlocal total
        total += life.machine.disk.changes
        end(node, power_lost)

    life.machine.on_end = count
    life.run()
    return total + life.machine.disk.changes


def lived_until(change: int) -> Life:
    """A life whose power failed at this change, and what it left is not looked at yet."""
    life = Life(1)
    left = change
    end = life.machine.on_end
    start = life.machine.start

    def count(node: Any, power_lost: bool) -> None:
        nonlocal left
        left -= life.machine.disk.changes
        end(node, power_lost)

    def start_armed() -> None:
        if left >= 0:
            life.machine.disk.lose_power_at(left)
        start()

    life.machine.on_end = count
    life.machine.start = start_armed  # type: ignore[method-assign]
    with pytest.raises(PowerLost):
        life.run()
    left = -1
    return life


def test_a_life_without_trouble() -> None:
    life = Life(1)
    life.run()
    life.check()
    assert life.checker.acknowledged_count == 11
    assert set(life.admin.topics) == {"orders", "bills"}
    assert changes_of_a_whole_life() > 200


@pytest.mark.parametrize("survival", [Survival.NOTHING, Survival.BY_CHANCE])
def test_the_power_fails_at_every_change(survival: Survival) -> None:
    for change in range(changes_of_a_whole_life()):
        life = lived_until(change)
        life.machine.lose_power(survival)
        life.check()


@pytest.mark.parametrize("survival", [Survival.NOTHING, Survival.BY_CHANCE])
def test_it_fails_again_at_every_change_of_the_recovery(survival: Survival) -> None:
    for change in range(20, changes_of_a_whole_life(), 37):
        again = 0
        while True:
            life = lived_until(change)
            life.machine.lose_power(survival)
            life.machine.disk.lose_power_at(again)
            try:
                life.world.run_until_true(lambda: life.machine.is_up)  # noqa: B023  # Called within the loop.
            except PowerLost:
                life.machine.lose_power(survival)
                life.check()
                again += 1
            else:
                break
        assert again > 0
