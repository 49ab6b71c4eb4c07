"""The seeded world: one heap of things to come, one source of randomness, one virtual time.

Everything simulated takes its time and its chance from here and nowhere else, so a seed is a history: run
twice, it gives the same trace hash. Callbacks run one at a time in the order of their times, and of their
making where times are equal, which is what an event loop promises too; only latencies are random.

Knows nothing of disks, networks or nodes.
"""

import hashlib
import random
from collections.abc import Callable
from heapq import heappop, heappush

from headrace.ports import Cancel

# An arbitrary but realistic start: a wall clock near zero would hide sign and width mistakes.
WALL_START_MS = 1_700_000_000_000
STEPS_MAX = 10_000_000


class _Event:
    __slots__ = ("fire",)

    def __init__(self, fire: Callable[[], None]) -> None:
        self.fire: Callable[[], None] | None = fire

    def cancel(self) -> None:
        self.fire = None


class World:
    """A clock's monotonic half, the Timers port, and the chance that everything simulated shares."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.steps = 0
        self._mono_us = 0
        self._sequence = 0
        self._heap: list[tuple[int, int, _Event]] = []
        self._trace = hashlib.blake2b(digest_size=16)

    def __repr__(self) -> str:
        return f"<World seed={self.seed} mono_us={self._mono_us} steps={self.steps}>"

    def mono_us(self) -> int:
        return self._mono_us

    def at(self, mono_us: int, fire: Callable[[], None]) -> Cancel:
        """Never fires inside this call: what is already due fires on the next step."""
        event = _Event(fire)
        self._sequence += 1
        heappush(self._heap, (max(mono_us, self._mono_us), self._sequence, event))
        return event.cancel

    def after(self, delay_us: int, fire: Callable[[], None]) -> Cancel:
        return self.at(self._mono_us + delay_us, fire)

    def delay_us(self, *, least: int, most: int) -> int:
        """A random latency, spread evenly over orders of magnitude as those of real devices are."""
        assert 1 <= least <= most
        return min(most, int(least * (most / least) ** self.random.random()))

    def step(self) -> bool:
        """Move to the next event and run it; False where there is none."""
        while self._heap:
            mono_us, sequence, event = heappop(self._heap)
            fire = event.fire
            if fire is None:
                continue
            event.fire = None
            self._mono_us = mono_us
            self.steps += 1
            self._trace.update(b"%d %d\n" % (mono_us, sequence))
            fire()
            return True
        return False

    def run_until(self, mono_us: int) -> None:
        """Run what is due up to and including this time, and let the time pass where nothing is left."""
        while self._next_us() <= mono_us:
            self.step()
        self._mono_us = max(self._mono_us, mono_us)

    def run_until_true(self, condition: Callable[[], bool], *, steps_max: int = STEPS_MAX) -> None:
        """Step until the condition holds. A world that ends or goes on for ever before that is a bug."""
        for _ in range(steps_max):
            if condition():
                return
            if not self.step():
                break
        assert condition(), f"{self!r}: the condition never held"

    def run_until_idle(self, *, steps_max: int = STEPS_MAX) -> None:
        for _ in range(steps_max):
            if not self.step():
                return
        raise AssertionError(f"{self!r}: still busy after {steps_max} steps")

    def trace(self, text: str) -> None:
        """Add what happened to the history that the hash stands for."""
        self._trace.update(text.encode() + b"\n")

    def trace_hash(self) -> str:
        return self._trace.hexdigest()

    def _next_us(self) -> float:
        heap = self._heap
        while heap and heap[0][2].fire is None:
            heappop(heap)
        return heap[0][0] if heap else float("inf")


class SimClock:
    """One machine's clocks: time elapses for all alike, but each wall clock may be wrong in its own way."""

    def __init__(self, world: World, *, wall_shift_ms: int = 0) -> None:
        self._world = world
        self._wall_shift_ms = wall_shift_ms

    def wall_ms(self) -> int:
        return WALL_START_MS + self._wall_shift_ms + self._world.mono_us() // 1000

    def mono_us(self) -> int:
        return self._world.mono_us()

    def move_wall_ms(self, by_ms: int) -> None:
        """As when somebody sets the clock: timestamps jump, and nothing elapses."""
        self._wall_shift_ms += by_ms


class SimTimers:
    """The timers of one process life: once it ended, none of them fires."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ended = False

    def at(self, mono_us: int, fire: Callable[[], None]) -> Cancel:
        def fire_if_alive() -> None:
            if not self._ended:
                fire()

        return self._world.at(mono_us, fire_if_alive)

    def end(self) -> None:
        self._ended = True
