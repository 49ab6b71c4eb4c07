from itertools import pairwise

import pytest

from headrace.audit.audit_topic import AuditUnavailable
from headrace.audit.sender import RESERVED_MIN, RESERVED_STEP_MAX, MemoryShelf, Sender
from headrace.audit.spans import State
from headrace.audit.windows import Window
from tests.unit.audit.fakes import FakeTopic

WINDOW = Window(0, 1_000)


@pytest.fixture
def topic() -> FakeTopic:
    return FakeTopic()


@pytest.fixture
def sender(topic: FakeTopic) -> Sender:
    return Sender(producer="web", incarnation=5, host="h", publish=topic.publish, shelf=MemoryShelf())


def test_a_sequence_is_used_only_after_it_was_reserved(sender: Sender, topic: FakeTopic) -> None:
    topic.is_away = True
    with pytest.raises(AuditUnavailable):
        sender.take("clicks", WINDOW)
    topic.is_away = False
    span, sequence = sender.take("clicks", WINDOW)
    assert sequence == 0
    (told,) = topic.published
    assert (told.span, told.handed, told.reserved) == (span.id, 0, RESERVED_MIN)


def test_a_reservation_that_may_have_been_written_is_taken_back(sender: Sender, topic: FakeTopic) -> None:
    topic.is_away = True
    with pytest.raises(AuditUnavailable):
        sender.take("clicks", WINDOW)
    topic.is_away = False
    sender.tick(now_ms=0)
    (told,) = topic.published
    assert (told.handed, told.reserved) == (0, 0)
    assert told.revision > 1


def test_reservations_double_up_to_a_limit(sender: Sender, topic: FakeTopic) -> None:
    for _ in range(3 * RESERVED_STEP_MAX):
        sender.take("clicks", WINDOW)
    steps = [told.reserved for told in topic.published]
    assert steps[:4] == [RESERVED_MIN, 2 * RESERVED_MIN, 4 * RESERVED_MIN, 8 * RESERVED_MIN]
    assert max(after - before for before, after in pairwise(steps)) == RESERVED_STEP_MAX


@pytest.mark.parametrize("count", [1, 7, RESERVED_MIN - 1, RESERVED_MIN, 1000])
def test_one_more_is_always_reserved_than_was_used(sender: Sender, topic: FakeTopic, count: int) -> None:
    """So a sender that dies at any moment is not taken for one that was done."""
    for _ in range(2 * RESERVED_MIN):
        span, _ = sender.take("clicks", WINDOW, count)
        assert topic.published[-1].reserved > span.handed


def test_many_are_taken_at_once(sender: Sender, topic: FakeTopic) -> None:
    span, first = sender.take("clicks", WINDOW, 1_000_000)
    assert (first, span.handed, topic.published[0].reserved) == (0, 1_000_000, 1_000_001)
    assert sender.take("clicks", WINDOW, 5)[1] == 1_000_000


def test_topics_and_windows_have_spans_of_their_own(sender: Sender) -> None:
    spans = {
        sender.take(topic, Window(start_ms, 1_000))[0].id for topic in ("clicks", "views") for start_ms in (0, 1_000)
    }
    assert len(spans) == 4


def test_a_tick_publishes_what_has_changed(sender: Sender, topic: FakeTopic) -> None:
    span, sequence = sender.take("clicks", WINDOW)
    sender.settle(span, sequence, State.ACKNOWLEDGED)
    sender.tick(now_ms=0)
    (told,) = topic.newest()
    assert (told.handed, told.acknowledged, told.reserved) == (1, ((0, 1),), RESERVED_MIN)
    count = len(topic.published)
    sender.tick(now_ms=1)
    assert len(topic.published) == count


def test_a_span_is_closed_when_its_window_is_over_and_it_is_still(sender: Sender, topic: FakeTopic) -> None:
    span, sequence = sender.take("clicks", WINDOW)
    sender.tick(now_ms=1_000)
    sender.tick(now_ms=1_001)
    assert topic.newest()[0].reserved == RESERVED_MIN  # One is under way.
    sender.settle(span, sequence, State.ACKNOWLEDGED)
    sender.tick(now_ms=1_002)
    sender.tick(now_ms=1_003)
    (told,) = topic.newest()
    assert (told.handed, told.reserved) == (1, 1)
    later, first = sender.take("clicks", WINDOW)
    assert (later.id != span.id, first) == (True, 0)


def test_a_window_that_is_not_over_stays_open(sender: Sender, topic: FakeTopic) -> None:
    span, sequence = sender.take("clicks", WINDOW)
    sender.settle(span, sequence, State.ACKNOWLEDGED)
    for now_ms in range(5):
        sender.tick(now_ms=now_ms)
    assert sender.take("clicks", WINDOW)[0] is span


def test_what_could_not_be_published_is_published_next_time(sender: Sender, topic: FakeTopic) -> None:
    span, sequence = sender.take("clicks", WINDOW)
    sender.settle(span, sequence, State.ACKNOWLEDGED)
    topic.is_away = True
    with pytest.raises(AuditUnavailable):
        sender.tick(now_ms=0)
    topic.is_away = False
    sender.tick(now_ms=0)
    assert topic.newest()[0].acknowledged == ((0, 1),)
    topic.is_away = True
    with pytest.raises(AuditUnavailable):
        sender.tick(now_ms=1_000)  # It would have been closed.
    topic.is_away = False
    sender.tick(now_ms=1_001)
    assert topic.newest()[0].reserved == 1


def test_the_last_word_leaves_nothing_reserved(sender: Sender, topic: FakeTopic) -> None:
    span, first = sender.take("clicks", WINDOW, 3)
    sender.settle(span, first, State.ACKNOWLEDGED)
    sender.close()
    (told,) = topic.newest()
    assert (told.handed, told.reserved, told.acknowledged, told.in_doubt) == (3, 3, ((0, 1),), ((1, 3),))
    sender.settle(span, 1, State.ACKNOWLEDGED)  # Too late: all is told.
    assert topic.newest() == [told]


def test_a_message_that_the_client_did_not_take_is_not_expected(sender: Sender, topic: FakeTopic) -> None:
    span, first = sender.take("clicks", WINDOW)
    _, second = sender.take("clicks", WINDOW)
    sender.give_back(span, first)  # By another thread than the second one's.
    sender.give_back(span, second)
    assert sender.take("clicks", WINDOW) == (span, second)
    sender.settle(span, second, State.ACKNOWLEDGED)
    sender.close()
    (told,) = topic.newest()
    assert (told.refused, told.acknowledged, told.possible) == (((0, 1),), ((1, 2),), ((1, 2),))
