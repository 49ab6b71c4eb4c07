"""Periodic commits come when they are due."""

from headrace.client.pacing import CommitPace


def test_due_every_period_however_often_it_is_asked() -> None:
    pace = CommitPace(5.0, now_s=100.0)
    due = [now for now in range(100, 121) if pace.is_due(float(now))]
    assert due == [105, 110, 115, 120]


def test_a_late_question_does_not_shift_the_beat() -> None:
    pace = CommitPace(5.0, now_s=0.0)
    assert pace.is_due(6.5)
    assert not pace.is_due(9.9)
    assert pace.is_due(10.0)


def test_missed_periods_are_not_made_up_for() -> None:
    pace = CommitPace(5.0, now_s=0.0)
    assert pace.is_due(27.0)
    assert not pace.is_due(27.1)
    assert not pace.is_due(31.9)
    assert pace.is_due(32.0)


def test_none_is_never() -> None:
    pace = CommitPace(None, now_s=0.0)
    assert not pace.is_due(1e9)
