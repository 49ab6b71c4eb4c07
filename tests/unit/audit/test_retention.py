import pytest

from headrace.audit.retention import UNKNOWN, Kept, Retention, kept, latest, parse_retention

NOW_MS = 1_000_000
BY_TIME = Retention(400_000, is_by_time_alone=True)
BY_BOTH = Retention(400_000, is_by_time_alone=False)


@pytest.mark.parametrize(
    ("policy", "time", "size", "retention"),
    [
        ("delete", "400000", "-1", BY_TIME),
        ("compact,delete", "400000", "-1", BY_TIME),
        ("delete", "400000", "1000", BY_BOTH),
        ("delete", "-1", "1000", UNKNOWN),
        ("delete", "-1", "-1", UNKNOWN),
        ("compact", "400000", "-1", UNKNOWN),  # Then nothing is deleted by time.
    ],
)
def test_what_a_topic_is_set_to_delete(policy: str, time: str, size: str, retention: Retention) -> None:
    configs: dict[str, str | None] = {"cleanup.policy": policy, "retention.ms": time, "retention.bytes": size}
    assert parse_retention(configs) == retention


def test_settings_that_are_not_told_explain_nothing() -> None:
    assert parse_retention({}) == parse_retention({"retention.ms": None}) == UNKNOWN


@pytest.mark.parametrize(
    ("retention", "oldest_ms", "since"),
    [
        (BY_TIME, None, Kept(600_000, None)),
        (BY_TIME, 999_000, Kept(600_000, None)),
        (BY_TIME, 500_000, Kept(500_000, None)),  # Segments are deleted whole.
        (BY_BOTH, None, Kept(600_000, NOW_MS)),
        (BY_BOTH, 999_000, Kept(600_000, 999_000)),
        (UNKNOWN, None, Kept(None, NOW_MS)),
        (UNKNOWN, 500_000, Kept(None, 500_000)),
    ],
)
def test_since_when_a_partition_is_judged_whose_beginning_is_gone(
    retention: Retention, oldest_ms: int | None, since: Kept
) -> None:
    assert kept(retention, oldest_ms=oldest_ms, now_ms=NOW_MS) == since


def test_the_least_that_any_partition_keeps_is_what_can_be_judged() -> None:
    assert latest([Kept(5, None), Kept(3, 9), Kept(None, 7)]) == Kept(5, 9)
    assert latest([]) == Kept()
