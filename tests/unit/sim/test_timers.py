"""The simulated timers keep the contract of the Timers port."""

import pytest

from headrace.sim.world import SimClock, SimTimers, World
from tests.unit.timers_contract import TimersContract


class SimStage:
    def __init__(self) -> None:
        self._world = World(1)
        self.clock = SimClock(self._world)
        self.timers = SimTimers(self._world)
        self._world.run_until(5_000_000)

    def pass_us(self, elapsed_us: int) -> None:
        self._world.run_until(self._world.mono_us() + elapsed_us)


class TestContract(TimersContract):
    @pytest.fixture
    def stage(self) -> SimStage:
        return SimStage()


def test_none_fires_after_the_process_ended() -> None:
    stage = SimStage()
    fired: list[str] = []
    stage.timers.at(stage.clock.mono_us() + 1_000, lambda: fired.append("before"))
    stage.timers.end()
    stage.pass_us(10_000)
    assert fired == []
