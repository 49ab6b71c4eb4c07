"""What comes to be read after the first look."""

import pytest
from confluent_kafka import KafkaError

from headrace.cli.kafka_scripts.arrivals import GLANCE_S, LOOK_EVERY_S, Arrivals, wait_for
from headrace.cli.output import CommandError
from headrace.cli.topic_facts import ClusterRefusal
from headrace.ids import TopicName, TopicPartition

ONE, TWO, THREE = (TopicPartition(TopicName("t"), number) for number in range(3))
BEGINNING = -2


class World:
    """What is there, the time, and how often somebody looked."""

    def __init__(self, *there: TopicPartition) -> None:
        self.there: set[TopicPartition] | CommandError = set(there)
        self.now_s = 5.0
        self.looks = 0

    def look(self, timeout_s: float) -> set[TopicPartition]:
        assert timeout_s == GLANCE_S
        self.looks += 1
        if isinstance(self.there, CommandError):
            raise self.there
        return set(self.there)

    def arrivals(self, *, offset: int | None = None) -> Arrivals:
        return Arrivals(self.look, {ONE}, offset=offset, now_s=lambda: self.now_s)


def test_what_comes_is_told_once_and_from_its_beginning() -> None:
    world = World(ONE, TWO)
    arrivals = world.arrivals()
    assert (arrivals(), world.looks) == ({}, 0)
    world.now_s += LOOK_EVERY_S
    assert arrivals() == {TWO: BEGINNING}
    world.there = {TWO, THREE}
    assert (arrivals(), world.looks) == ({}, 1)
    world.now_s += LOOK_EVERY_S
    assert arrivals() == {THREE: BEGINNING}


def test_an_offset_that_was_asked_for_is_kept() -> None:
    world = World(TWO)
    arrivals = world.arrivals(offset=7)
    world.now_s += LOOK_EVERY_S
    assert arrivals() == {TWO: 7}


def test_a_cluster_that_is_away_is_looked_at_again_and_one_that_refuses_is_not() -> None:
    world = World()
    arrivals = world.arrivals()
    world.there = CommandError("cannot reach b:1")
    world.now_s += LOOK_EVERY_S
    assert arrivals() == {}
    world.there = ClusterRefusal("t", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    world.now_s += LOOK_EVERY_S
    with pytest.raises(ClusterRefusal):
        arrivals()


def test_waiting_has_an_end_where_one_was_asked_for() -> None:
    world = World()
    assert not wait_for(world.look, quiet_s=0)
    world.there = CommandError("cannot reach b:1")
    assert not wait_for(world.look, quiet_s=0)
    world.there = {ONE}
    assert wait_for(world.look, quiet_s=None)
