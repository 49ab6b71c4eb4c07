"""The load of one cell: everything that is sent and consumed, with every value known. Whoever holds one can run it.

By the lab's own senders and consumers, or by programs that are told all of it at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, Self

from headrace.errors import ConfigError
from headrace.lab.engines import Terms
from headrace.lab.faults import Fault
from headrace.lab.programs import PROGRAMS
from headrace.lab.scenario import PROFILES, Payload, Scenario, check_possible
from headrace.lab.sender_places import REMOTE, places_of

UNPACED: Final = "max"
NOBODY: Final = "none"  # The engine where nothing is sent: a target is started, and left alone.
CONSUME: Final = ("during", "after")
_WARM_UP_S: Final = 5
_DURATION_S: Final = 30.0


class Share(NamedTuple):
    """A rate that is known once another was measured."""

    percent: float
    row: str  # Whose rate: a workload, or a cell of one as `row_name` has it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The names are those of `workload.KEYS`."""

    topic: str = "lab"
    partitions: int = 1
    replication: int | None = None
    broker: str | None = None  # Its name or id: it alone has the topic, or leads it.
    topic_config: Mapping[str, str] = field(default_factory=dict)
    engine: str = "librdkafka"
    processes: int = 1
    sender: str | None = None  # Where they are: `sender_places` has the words.
    partition: int | None = None
    rate: float | str | Share | None = None
    schedule: str = "constant"
    burst: int = 1000
    speed: float = 1.0
    duration: float | None = None
    messages: int | None = None
    payload: str = "sensor"
    file: str | None = None
    read_in_ram: bool = True
    size: str = "200"
    compressible: float = 0.0
    seed: int = 1
    profile: str | None = None
    acks: str | None = None
    batch_size: int | None = None
    batch_messages: int | None = None
    linger: float | None = None
    buffer: int | None = None
    compression: str | None = None
    stagger: float = 0.0
    client: Mapping[str, str] = field(default_factory=dict)
    groups: int = 0
    consumers: int = 1  # Of each group.
    consumer_engine: str = "librdkafka"
    consume: str = "during"
    consumer_stagger: float = 0.0
    behind: float = 0.0  # The last group begins so many seconds after the senders, with what there is by then.
    consumer_client: Mapping[str, str] = field(default_factory=dict)
    restart: bool = False
    warm_up: float | None = None
    readings: bool = True
    record: bool = False  # Each request, by proxies before the brokers, into the readings.
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if self.record and (self.engine == NOBODY or self.is_by_program):
            raise ConfigError(f"record: only the lab's own engines are read, and {self.engine} is none of them")
        if self.engine == NOBODY:
            return
        if self.rate is None and self.schedule != "replay":
            raise ConfigError(f"rate is missing: how many messages a second? 500, 100K or {UNPACED}")
        if isinstance(self.rate, float):
            check_possible(self.rate, processes=self.processes)
        if self.rate == UNPACED and self.schedule != "constant":
            raise ConfigError(f"rate: {UNPACED} has no schedule, so it cannot be {self.schedule}")
        if self.partition is not None and self.partition >= self.partitions:
            raise ConfigError(f"partition: there is no {self.partition} in a topic of {self.partitions}")
        if self.file is not None and not Path(self.file).is_file():
            raise ConfigError(f"file: there is no file {self.file}")
        if self.measured_s is not None and self.measured_s <= 0:
            raise ConfigError(f"duration: of {self.measured_s:g} s nothing can be told")
        if self.behind:
            self._check_behind()
        if self.record and not self.readings:
            raise ConfigError("record: what is recorded is a part of the readings, and there are to be none")
        for fault in self.faults:
            if self.duration is not None and fault.at_s >= self.send_s:
                raise ConfigError(f"faults: {fault} comes after the end, {self.send_s:g} s after the start")
        places_of(self.sender, processes=self.processes)
        if self.is_by_program:
            self._check_programs()
        elif self.consumer_engine in PROGRAMS:
            raise ConfigError(f"consumer_engine: {self.consumer_engine} consumes what a program has sent, see engine")
        elif not isinstance(self.rate, Share):
            self.scenario(topic=self.topic, seed=self.seed)

    def _check_behind(self) -> None:
        if not self.groups or self.consume != "during" or self.is_by_program:
            raise ConfigError("behind: is for a group of the lab's own consumers, while messages are sent")
        if self.measured_s is not None and self.behind >= self.send_s:
            raise ConfigError(f"behind: {self.behind:g} s after the start is after the end, {self.send_s:g} s after it")

    def _check_programs(self) -> None:
        if not self.size.isdigit():
            raise ConfigError(f"size: {self.size!r}; what a program sends is all of one size, in bytes")
        if self.rate == UNPACED and self.messages is None:
            raise ConfigError(f"messages is missing: how many is {self.engine} to send as fast as it goes?")
        if self.groups and self.consumer_engine not in PROGRAMS:
            raise ConfigError(f"consumer_engine: what {self.engine} sends is consumed by {', '.join(PROGRAMS)}")
        if self.is_exchange:
            return
        if PROGRAMS[self.engine].send is None or self.rate != UNPACED:
            raise ConfigError(f"engine: {self.engine} does not send without consuming, or not at a rate")
        if self.groups and PROGRAMS[self.consumer_engine].consuming is None:
            raise ConfigError(f"consumer_engine: {self.consumer_engine} does not consume")

    @property
    def is_by_program(self) -> bool:
        return self.engine in PROGRAMS

    @property
    def is_exchange(self) -> bool:
        """Whether one program sends and consumes at once."""
        is_one = self.groups == 1 and self.consume == "during" and self.engine == self.consumer_engine
        return is_one and self.is_by_program and PROGRAMS[self.engine].exchange is not None

    @property
    def places(self) -> list[str]:
        """Where each process is."""
        return places_of(self.sender, processes=self.processes)

    @property
    def has_remote(self) -> bool:
        """Whether a sender is on another host, or at the far end of a link."""
        return REMOTE in self.places

    @property
    def warm_up_s(self) -> int:
        """Whole seconds, for everything is counted by the second. None for a number of messages, if not said."""
        if self.warm_up is not None:
            return math.ceil(self.warm_up)
        return 0 if self.measured_s is None else _WARM_UP_S

    @property
    def measured_s(self) -> float | None:
        """None for as long as the messages take."""
        return _DURATION_S if self.duration is None and self.messages is None else self.duration

    @property
    def send_s(self) -> float:
        """With the warm-up; a guess where messages are counted."""
        if self.measured_s is not None:
            return self.warm_up_s + self.measured_s
        assert self.messages is not None
        return self.warm_up_s + (self.messages / self.rate if isinstance(self.rate, float) else _DURATION_S)

    @property
    def terms(self) -> Terms:
        return Terms(**(PROFILES[self.profile] if self.profile is not None else {})).with_changes(
            {
                "acks": self.acks,
                "batch_bytes": self.batch_size,
                "batch_messages": self.batch_messages,
                "linger_ms": self.linger,
                "buffer_bytes": self.buffer,
                "compression": self.compression,
            }
        )

    def scenario(self, *, topic: str, seed: int) -> Scenario:
        is_unpaced = self.rate == UNPACED
        return Scenario(
            topic=topic,
            partition=self.partition,
            engine=self.engine,
            processes=self.processes,
            schedule="unpaced" if is_unpaced else self.schedule,
            rate_per_s=self.rate if isinstance(self.rate, float) else None,
            burst_messages=self.burst,
            speed=self.speed,
            stagger_s=self.stagger,
            duration_s=None if self.measured_s is None else self.send_s,
            messages=self.messages,
            seed=seed,
            payload=Payload(
                generator=self.payload,
                file=self.file,
                in_ram=self.read_in_ram,
                size=self.size,
                compressible=self.compressible,
            ),
            terms=self.terms,
        )

    def scaled(self, scale: float) -> Self:
        """So much of the work; but latencies need some time to mean anything, however little it is."""
        return replace(
            self,
            messages=None if self.messages is None else max(2, round(self.messages * scale)),
            duration=None if self.duration is None else max(1.0, self.duration * scale),
            warm_up=None if self.warm_up is None else min(self.warm_up, max(1.0, self.warm_up * scale)),
        )
