import pytest

from headrace.audit.runs import size
from headrace.audit.spans import Span, State, recall
from headrace.audit.stamps import SpanId, parse_stamp
from headrace.audit.windows import Window


def make_span(size: int = 16) -> Span:
    span = Span(SpanId("web", 5, 0), topic="clicks", window=Window(0, 1_000), host="h", states=bytearray(size))
    span.reserved = size
    return span


def test_what_became_of_each_message_is_told() -> None:
    span = make_span()
    assert [span.take(), span.take(3), span.take()] == [0, 1, 4]
    span.settle(0, State.ACKNOWLEDGED)
    span.settle(1, State.REFUSED)
    span.settle(2, State.IN_DOUBT)
    told = span.tell(reserved=span.reserved)
    assert (told.handed, told.reserved, told.acknowledged) == (5, 16, ((0, 1),))
    assert (told.refused, told.in_doubt) == (((1, 2),), ((2, 5),))
    assert (span.under_way, span.room) == (2, 11)


def test_a_message_that_the_client_did_not_take_frees_its_sequence() -> None:
    span = make_span()
    span.take(2)
    span.settle(1, State.FREE)
    assert (span.handed, span.take()) == (1, 1)


def test_each_word_is_newer_than_the_one_before() -> None:
    span = make_span()
    first, second = span.tell(reserved=1), span.tell(reserved=2)
    assert first.newness < second.newness < span.tell(reserved=0, told_by=6).newness


def test_more_than_is_reserved_is_never_used() -> None:
    span = make_span(4)
    span.take(4)
    with pytest.raises(AssertionError):
        span.take()


def test_nothing_is_settled_twice() -> None:
    span = make_span()
    span.take()
    span.settle(0, State.ACKNOWLEDGED)
    with pytest.raises(AssertionError):
        span.settle(0, State.IN_DOUBT)


def test_what_is_abandoned_is_in_doubt() -> None:
    span = make_span()
    span.take(5)
    span.settle(2, State.ACKNOWLEDGED)
    span.abandon()
    assert span.under_way == 0
    assert span.tell(reserved=5).in_doubt == ((0, 2), (3, 5))


def test_a_span_is_taken_up_as_its_states_tell() -> None:
    span = make_span()
    span.take(3)
    span.settle(0, State.ACKNOWLEDGED)
    found = make_span()
    found.states[:] = span.states
    recall(found)
    assert (found.handed, found.under_way, found.reserved) == (3, 2, 16)


def test_too_many_runs_claim_less_and_not_more() -> None:
    span = make_span(10_000)
    span.take(10_000)
    for sequence in range(0, 10_000, 4):
        span.settle(sequence, State.ACKNOWLEDGED)
        span.settle(sequence + 1, State.REFUSED)
    told = span.tell(reserved=10_000)
    assert len(told.in_doubt) <= 1_000
    assert len(told.refused) <= 1_000
    claimed = {sequence for first, end in told.acknowledged for sequence in range(first, end)}
    possible = {sequence for first, end in told.possible for sequence in range(first, end)}
    for sequence, state in enumerate(span.states):
        assert sequence not in claimed or state == State.ACKNOWLEDGED
        assert sequence in possible or state == State.REFUSED
    assert size(told.acknowledged) > 0


def test_stamps_are_made_of_a_prefix() -> None:
    span = make_span()
    stamp = parse_stamp(f"{span.prefix}7;900".encode())
    assert (stamp.span, stamp.host, stamp.sequence, stamp.time_ms) == (span.id, "h", 7, 900)
