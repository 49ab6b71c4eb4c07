from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.splitting import OffsetRange
from headrace.pipeline.triggers import Triggers

DELAY_MS = 1000


def waiting(count: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition(TopicName("t"), 0), 100, 100 + count)]


def taken(triggers: Triggers, count: int, *, now_ms: float, waits: bool = True) -> int | None:
    found = triggers.take(waiting(count), now_ms=now_ms, waits=waits)
    return None if found is None else sum(each.size for each in found)


def test_without_limits_everything_is_taken() -> None:
    triggers = Triggers(least=None, most=None, delay_ms=DELAY_MS)
    assert taken(triggers, 7, now_ms=0) == 7
    assert taken(triggers, 0, now_ms=0) == 0


def test_at_most() -> None:
    assert taken(Triggers(least=None, most=3, delay_ms=DELAY_MS), 7, now_ms=0) == 3


def test_the_first_takes_what_there_is_and_the_next_wait_for_enough() -> None:
    triggers = Triggers(least=5, most=None, delay_ms=DELAY_MS)
    assert taken(triggers, 2, now_ms=0) == 2
    assert taken(triggers, 4, now_ms=1) is None
    assert taken(triggers, 5, now_ms=2) == 5


def test_not_longer_than_the_delay_after_the_last_that_took_something() -> None:
    triggers = Triggers(least=5, most=None, delay_ms=DELAY_MS)
    assert taken(triggers, 2, now_ms=0) == 2
    assert taken(triggers, 4, now_ms=DELAY_MS - 1) is None
    assert taken(triggers, 4, now_ms=DELAY_MS) == 4
    assert taken(triggers, 4, now_ms=2 * DELAY_MS - 1) is None


def test_a_trigger_that_found_nothing_does_not_begin_the_delay_anew() -> None:
    triggers = Triggers(least=5, most=None, delay_ms=DELAY_MS)
    assert taken(triggers, 2, now_ms=0) == 2
    assert taken(triggers, 0, now_ms=DELAY_MS) == 0
    assert taken(triggers, 1, now_ms=DELAY_MS + 1) == 1


def test_at_least_and_at_most_together() -> None:
    triggers = Triggers(least=3, most=4, delay_ms=DELAY_MS)
    assert taken(triggers, 9, now_ms=0) == 4
    assert taken(triggers, 2, now_ms=1) is None
    assert taken(triggers, 9, now_ms=2) == 4


def test_who_reads_what_is_available_never_waits() -> None:
    triggers = Triggers(least=5, most=None, delay_ms=DELAY_MS)
    assert taken(triggers, 2, now_ms=0, waits=False) == 2
    assert taken(triggers, 2, now_ms=1, waits=False) == 2
