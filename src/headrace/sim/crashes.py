"""One node, its clients, and a series of disasters: a seed is a history.

    python -m headrace.sim.crashes 4711          run a seed and say what happened
    python -m headrace.sim.crashes 0-999         run many

Producers write to topics of every durability there is, consumers read them, an administrator makes and deletes topics,
changes settings and deletes records. Meanwhile the power fails, between operations and inside them, the process is
killed or stopped, syncs and writes fail, the disk fills up, connections break. In the end everything is put right, all
that is unanswered is sent again, and everything is read.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from headrace.node.node import Node
from headrace.sim.administrator import Administrator
from headrace.sim.checker import Anomaly, Checker, Kind, Place, Promise
from headrace.sim.clients import IN_FLIGHT_MAX, Consumer, Ledger, Producer, Reader, Target, Topic
from headrace.sim.disk import Operation, PowerLost, Survival
from headrace.sim.machine import Machine
from headrace.sim.world import World

SECOND_US: Final = 1_000_000
TROUBLE_US: Final = 30 * SECOND_US
PATIENCE_US: Final = 60 * SECOND_US
FAULTS_LEAST, FAULTS_MOST = 6, 12
ACKNOWLEDGED_LEAST: Final = 500
# About how often a producer sends a batch, and a consumer asks for more.
BATCH_US, POLL_US = 360_000, 200_000
SURVIVAL_WEIGHTS: Final = [{"BY_CHANCE": 7, "NOTHING": 2, "EVERYTHING": 1}[survival.name] for survival in Survival]
CHANGES: Final = tuple(operation for operation in Operation if operation is not Operation.READ)
EXPIRING: Final = 0.5  # The share of topics with retention.
LASTING_MAX: Final = 3
SAMPLES: Final = 3  # Reads at any offset of each partition, in the end.

# Settings, and what they promise.
DURABILITIES: Final[Mapping[str, tuple[dict[str, str], Promise]]] = {
    "flushed": ({"flush.messages": "1"}, Promise(acknowledged_stays=True, read_stays=False)),
    "shown": ({"flush.before.expose": "true"}, Promise(acknowledged_stays=False, read_stays=True)),
    "both": (
        {"flush.messages": "1", "flush.before.expose": "true"},
        Promise(acknowledged_stays=True, read_stays=True),
    ),
    "timed": ({"flush.ms": "100"}, Promise(acknowledged_stays=False, read_stays=False)),
    "lazy": ({}, Promise(acknowledged_stays=False, read_stays=False)),
}
PASSING: Final = ("passing-0", "passing-1")

# What goes wrong, and how often beside the others.
FAULTS: Final[Mapping[str, int]] = {
    "lose power": 2,
    "lose power inside": 3,
    "lose power when told": 4,
    "kill": 3,
    "stop": 1,
    "fail sync": 2,
    "fail directory sync": 1,
    "fail write": 1,
    "fill disk": 2,
    "cut connections": 1,
    "evict cache": 1,
}


class Plan(NamedTuple):
    """What a run is about; less than everything for those who look for something."""

    faults: Mapping[str, int] = FAULTS
    durabilities: Sequence[str] = tuple(DURABILITIES)


EVERYTHING: Final = Plan()


class Outcome(NamedTuple):
    seed: int
    trace_hash: str
    virtual_s: float
    acknowledged: int
    served: int
    starts: int
    faults: dict[str, int]
    anomalies: tuple[Anomaly, ...]

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        lines = [
            f"seed {self.seed}: {self.acknowledged} batches acknowledged, {self.served} records served, "
            f"{self.starts} starts, {self.virtual_s:.1f} virtual s; {faults}; trace {self.trace_hash}"
        ]
        lines += [f"  {anomaly}" for anomaly in self.anomalies]
        if self.anomalies:
            lines.append(f"  again: python -m headrace.sim.crashes {self.seed}")
        return "\n".join(lines)


class CrashRun:
    def __init__(self, seed: int, *, plan: Plan = EVERYTHING, tell: Callable[[str], None] | None = None) -> None:
        """`tell` is given a line for everything that happens."""
        self.world = World(seed)
        self._plan = plan
        self._tell = tell
        chance = self._chance = self.world.random
        settings = {
            "log.retention.check.interval.ms": str(chance.choice((1000, 8000))),
            "log.flush.offset.checkpoint.interval.ms": str(chance.choice((300, 2000, 60_000))),
            "log.index.interval.bytes": str(chance.choice((0, 100, 1000))),
            "log.segment.delete.delay.ms": str(chance.choice((0, 500, 60_000))),
            "auto.create.topics.enable": "false",
        }
        self.checker = Checker()
        self.machine = Machine(self.world, settings=settings, told=self._told)
        self.machine.on_end = self._process_ended
        self.machine.disk.sync_us_most = chance.choice((5_000, 20_000, 400_000))
        self.ledger = Ledger(self.machine, self.checker)
        self.admin = Administrator(self.ledger)
        self.faults: Counter[str] = Counter()
        # Enough to get in each other's way; the more there are, the longer a restart takes.
        self._lasting = chance.sample(list(plan.durabilities), min(LASTING_MAX, len(plan.durabilities)))
        self._producers: dict[Topic, list[Producer]] = {}
        self._consumers: dict[Topic, list[Consumer]] = {}
        self._is_over = False

    def run(self) -> Outcome:
        self.machine.start()
        self._await(lambda: self.machine.is_up)
        for name in self._lasting:
            self._make_topic(name, name, partitions=self._chance.choice((1, 2)))
        self._await(lambda: len(self.admin.topics) == len(self._lasting))
        self._plan_faults()
        self._administrate_later()
        self._run_to(self.world.mono_us() + TROUBLE_US)
        if not self._await(lambda: self.checker.acknowledged_count >= ACKNOWLEDGED_LEAST):
            self.checker.found(Kind.STUCK, "node", f"{self.checker.acknowledged_count} batches were acknowledged")
        while self.faults.total() < FAULTS_LEAST:
            # A fault that was planned inside some operation may have waited for it in vain.
            self._await(lambda: self.machine.is_up)
            self._kill()
        self._put_right()
        if self._await(lambda: self.machine.is_up):
            self._read_everything()
        else:
            self.checker.found(Kind.STUCK, "node", "it does not start any more")
        return Outcome(
            seed=self.world.seed,
            trace_hash=self.world.trace_hash(),
            virtual_s=self.world.mono_us() / SECOND_US,
            acknowledged=self.checker.acknowledged_count,
            served=self.checker.served_count,
            starts=self.machine.starts,
            faults=dict(self.faults),
            anomalies=tuple(self.checker.anomalies),
        )

    # --- Clients ---------------------------------------------------------------------------------------------

    def _make_topic(
        self, name: str, durability: str, *, partitions: int, done: Callable[[], None] = lambda: None
    ) -> None:
        settings, promise = DURABILITIES[durability]
        chance = self._chance
        settings = {"internal.segment.bytes": str(chance.choice((1_500, 6_000, 50_000))), **settings}
        if chance.random() < EXPIRING:
            settings["retention.bytes"] = "5000"
            promise = promise._replace(expires=True)

        def made(topic: Topic | None) -> None:
            if topic is not None:
                self._populate(topic)
            done()

        self.admin.create(name, partitions=partitions, settings=settings, promise=promise, done=made)

    def _populate(self, topic: Topic) -> None:
        """Give a topic its producers and its consumer."""
        chance = self._chance
        targets = [Target(topic, partition) for partition in range(topic.partitions)]
        producers = self._producers[topic] = []
        for target in targets:
            kinds = [(True, -1), (False, chance.choice((-1, 1, 1, 0)))]
            for idempotent, acks in kinds[: chance.choice((1, 1, 2))]:
                in_flight_max = chance.randint(1, IN_FLIGHT_MAX) if idempotent else 1
                producer = Producer(
                    self.ledger,
                    target,
                    acks=acks,
                    idempotent=idempotent,
                    pause_us=BATCH_US * (1 + in_flight_max) // 2,
                    records_max=chance.choice((1, 4)),
                    pad_bytes_max=chance.choice((20, 200, 2000)),
                    in_flight_max=in_flight_max,
                )
                producers.append(producer)
        bytes_max = chance.choice((500, 50_000))
        consumer = Consumer(self.ledger, targets, pause_us=POLL_US, wait_ms=300, bytes_max=bytes_max)
        self._consumers[topic] = [consumer]

    def _depopulate(self, name: str) -> None:
        topic = self.admin.topics.get(name)
        if topic is not None:
            for producer in self._producers.pop(topic, ()):
                producer.abandon()
            for consumer in self._consumers.pop(topic, ()):
                consumer.abandon()

    def _administrate_later(self) -> None:
        self.world.after(self._chance.randrange(200_000, 2 * SECOND_US), self._administrate)

    def _administrate(self) -> None:
        if self._is_over:
            return
        chance, admin, done = self._chance, self.admin, self._administered
        lasting = admin.topics[chance.choice(self._lasting)]
        match chance.randrange(7):
            case 0 | 1 | 2:
                name = chance.choice(PASSING)
                if name in admin.topics or name in admin.unsure:
                    self._depopulate(name)
                    admin.delete(name, partial(self._deleted, name))
                else:
                    self._make_passing(name)
            case 3:
                admin.configure(lasting, str(chance.randrange(100_000, 1_000_000)), done)
            case 4:
                target = Target(lasting, chance.randrange(lasting.partitions))
                admin.delete_records(target, chance.choice((None, chance.randrange(100), chance.randrange(300))), done)
            case 5:
                admin.look_at_configs(lasting, done)
            case _:
                admin.list_topics(done)

    def _make_passing(self, name: str) -> None:
        durability = self._chance.choice(list(DURABILITIES))
        self._make_topic(name, durability, partitions=self._chance.choice((1, 2)), done=self._administered)

    def _deleted(self, name: str) -> None:
        if self._chance.random() < 0.4 and name not in self.admin.unsure:
            self._make_passing(name)  # At once, under the name of the one that is gone.
        else:
            self._administered()

    def _administered(self) -> None:
        # What was just acknowledged is what is most easily lost.
        if self._chance.random() < 0.1 and self.machine.is_up and not self._is_over:
            self._lose_power(Survival.NOTHING)
        self._administrate_later()

    # --- Faults ----------------------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        causes = {
            "lose power": self._lose_power,
            "lose power inside": self._lose_power_inside,
            "lose power when told": self._lose_power_when_told,
            "kill": self._kill,
            "stop": self._stop,
            "fail sync": self._fail_sync,
            "fail directory sync": self._fail_sync_of_directory,
            "fail write": self._fail_write,
            "fill disk": self._fill_disk,
            "cut connections": self._cut_connections,
            "evict cache": self._evict,
        }
        names, weights = zip(*self._plan.faults.items(), strict=True)
        for name in self._chance.choices(names, weights, k=self._chance.randint(FAULTS_LEAST, FAULTS_MOST)):
            self.world.after(self._chance.randrange(TROUBLE_US), partial(self._break, causes[name]))

    def _break(self, fault: Callable[[], None]) -> None:
        if self._is_over:
            return
        if self.machine.is_up or fault == self._lose_power:
            fault()
        else:
            self.world.after(SECOND_US // 10, partial(self._break, fault))

    def _count(self, fault: str) -> None:
        self.faults[fault] += 1
        self._told(f"fault: {fault}", {})

    def _lose_power(self, survival: Survival | None = None) -> None:
        self._count("power lost")
        (by_chance,) = self._chance.choices(list(Survival), SURVIVAL_WEIGHTS)
        self.machine.lose_power(survival or by_chance)

    def _lose_power_inside(self) -> None:
        """In the middle of some operation of the disk that is to come, of a frequent kind or a rare one."""
        operation = self._chance.choice(CHANGES)
        self.machine.disk.lose_power_near(operation, changes=self._chance.choice((0, 1, 2, 3, 5, 10, 60)))

    def _lose_power_when_told(self) -> None:
        """The moment a client is told something, and all at once: what was told too early is lost now or never."""
        counted = self._chance.choice(("acknowledged_count", "served_count"))
        known: int = getattr(self.checker, counted)

        def look() -> None:
            if getattr(self.checker, counted) > known and self.machine.is_up:
                self.machine.on_delivered = _nothing
                self._lose_power(Survival.NOTHING)

        self.machine.on_delivered = look

    def _kill(self) -> None:
        self._count("kill")
        self.machine.kill()

    def _stop(self) -> None:
        self._count("stop")
        if self.machine.stop():
            self.checker.stopped_cleanly()

    def _fail_sync(self) -> None:
        self._count("failed sync")
        self.machine.disk.fail(
            Operation.SYNC, nth=self._chance.randint(1, 5), path_end=self._chance.choice((".log", ".log", ".index", ""))
        )
        self._restart_after_failure()

    def _fail_sync_of_directory(self) -> None:
        self._count("failed directory sync")
        self.machine.disk.fail(Operation.SYNC_DIR, nth=self._chance.randint(1, 3))
        self._restart_after_failure()

    def _fail_write(self) -> None:
        self._count("failed write")
        operation = self._chance.choice((Operation.APPEND, Operation.APPEND, Operation.CREATE, Operation.RENAME))
        self.machine.disk.fail(operation, nth=self._chance.randint(1, 10))
        self._restart_after_failure()

    def _restart_after_failure(self) -> None:
        """Somebody notices, in a while, that partitions are offline."""
        how = self._chance.choice((self._kill, self._stop, self._lose_power))
        self.world.after(self._chance.randrange(SECOND_US, 3 * SECOND_US), partial(self._break, how))

    def _fill_disk(self) -> None:
        self._count("full disk")
        disk = self.machine.disk
        disk.capacity_bytes = 1 << 40
        disk.capacity_bytes -= disk.free_bytes() - self._chance.randrange(3000)

        def make_room() -> None:
            self.machine.disk.capacity_bytes = None

        self.world.after(self._chance.randrange(SECOND_US // 10, 3 * SECOND_US), make_room)

    def _cut_connections(self) -> None:
        self._count("cut connections")
        self.machine.cut_connections()

    def _evict(self) -> None:
        self._count("evicted cache")
        self.machine.disk.evict()

    def _process_ended(self, node: Node | None, power_lost: bool) -> None:
        if power_lost:
            self.checker.lost_unflushed()
        elif node is not None:
            for topic in node.topics:
                for partition in topic.partitions:
                    if partition.log.offline is not None:
                        self.checker.lost_unflushed(Place(topic.id, partition.index))

    # --- The end ---------------------------------------------------------------------------------------------

    def _put_right(self) -> None:
        """Nothing breaks any more; whoever has something unanswered gets it answered."""
        self._is_over = True
        self.machine.on_delivered = _nothing
        self.machine.disk.capacity_bytes = None
        if self.machine.node is not None:
            # A new process, so that what was ordered to fail does not, and what went offline is back.
            self.machine.kill()
        producers = [producer for each in self._producers.values() for producer in each]
        for producer in producers:
            producer.is_stopped = True
        if not self._await(lambda: self.machine.is_up and all(producer.is_idle for producer in producers)):
            self.checker.found(Kind.STUCK, "node", "producers wait for answers that do not come")
        for consumers in self._consumers.values():
            for consumer in consumers:
                consumer.abandon()
        self._run_to(self.world.mono_us() + SECOND_US)
        if self._chance.random() < 0.7:
            self._lose_power()
            self._await(lambda: self.machine.is_up)
            self._run_to(self.world.mono_us() + SECOND_US)

    def _read_everything(self) -> None:
        outstanding = 1

        def one_done() -> None:
            nonlocal outstanding
            outstanding -= 1

        self.admin.list_topics(one_done)
        for topic in self.admin.topics.values():
            if topic.name not in self.admin.unsure:
                outstanding += 1 + topic.partitions
                self.admin.look_at_configs(topic, one_done)
                for partition in range(topic.partitions):
                    Reader(self.ledger, Target(topic, partition), samples=SAMPLES, done=one_done)
        if not self._await(lambda: outstanding == 0):
            self.checker.found(Kind.STUCK, "node", "a log cannot be read to its end")

    # --- Time ------------------------------------------------------------------------------------------------

    def _run_to(self, mono_us: int) -> None:
        while self.world.mono_us() < mono_us:
            try:
                self.world.run_until(mono_us)
            except PowerLost:
                self._lose_power()

    def _await(self, condition: Callable[[], bool]) -> bool:
        """Let time pass until it holds; whether it did in good time."""
        deadline_us = self.world.mono_us() + PATIENCE_US
        while not condition() and self.world.mono_us() < deadline_us:
            try:
                self.world.run_until_true(lambda: condition() or self.world.mono_us() >= deadline_us)
            except PowerLost:
                self._lose_power()
        return condition()

    def _told(self, event: str, fields: Mapping[str, object]) -> None:
        if self._tell is not None:
            words = " ".join(f"{key}={value}" for key, value in fields.items())
            self._tell(f"{self.world.mono_us() / SECOND_US:9.4f} {event} {words}")


def _nothing() -> None:
    pass


def run_seed(seed: int, plan: Plan = EVERYTHING) -> Outcome:
    return CrashRun(seed, plan=plan).run()


def main(argument: str) -> None:
    first, _, last = argument.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    for seed in seeds:
        tell = (lambda line: print(line)) if len(seeds) == 1 else None  # noqa: T201
        outcome = CrashRun(seed, tell=tell).run()
        if outcome.anomalies or len(seeds) == 1:
            print(outcome)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
