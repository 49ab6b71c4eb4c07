import pytest

from headrace.audit.messages import Sent
from headrace.audit.reconcile import Audit, Finding, Tier, reconcile
from headrace.audit.runs import Runs
from headrace.audit.seen import SeenSpan
from headrace.audit.stamps import SpanId
from headrace.audit.windows import Window

SPAN = SpanId("web", 5, 0)
WINDOW = Window(60_000, 60_000)
LONG_AFTER_MS = 10_000_000


def sent(
    handed: int = 100,
    *,
    span: SpanId = SPAN,
    topic: str = "clicks",
    window: Window = WINDOW,
    reserved: int | None = None,
    in_doubt: Runs = (),
    refused: Runs = (),
) -> Sent:
    return Sent(
        span=span,
        topic=topic,
        window=window,
        host="host-a",
        handed=handed,
        reserved=handed if reserved is None else reserved,
        in_doubt=in_doubt,
        refused=refused,
        told_by=span.incarnation,
        revision=1,
    )


def seen(*runs: tuple[int, int], again: int = 0) -> SeenSpan:
    span = SeenSpan("host-a")
    span.add_runs(runs, again=again)
    span.time_ms_max = WINDOW.start_ms
    return span


def tier(name: str, *runs: tuple[int, int], again: int = 0, ahead: Runs = ()) -> Tier:
    return Tier(name=name, seen={SPAN: seen(*runs, again=again)}, ahead={SPAN: seen(*ahead)})


def findings(audit: Audit) -> dict[str, Finding]:
    assert all((row.topic, row.window) == ("clicks", WINDOW) for row in audit.rows)
    return {row.tier: row.finding for row in audit.rows}


def judge(published: Sent, *tiers: Tier, now_ms: int = LONG_AFTER_MS) -> dict[str, Finding]:
    return findings(reconcile("clicks", [published], tiers, now_ms=now_ms))


def test_all_that_was_sent_has_arrived() -> None:
    audit = reconcile("clicks", [sent()], [tier("node", (0, 100)), tier("lake", (0, 100))], now_ms=LONG_AFTER_MS)
    assert findings(audit) == dict.fromkeys(["node", "lake"], Finding(expected=100, arrived=100))
    assert [row.finding.statuses for row in audit.rows] == [("complete",)] * 2
    assert audit.is_well


def test_one_lost_and_one_doubled_do_not_cancel() -> None:
    audit = reconcile("clicks", [sent()], [tier("node", (0, 50), (51, 100), again=1)], now_ms=LONG_AFTER_MS)
    (row,) = audit.rows
    assert row.finding == Finding(expected=100, arrived=99, missing=1, duplicated=1)
    assert row.finding.statuses == ("missing", "duplicated")
    assert [(each.span, each.host, each.missing) for each in row.senders] == [(SPAN, "host-a", ((50, 51),))]
    assert not audit.is_well


def test_a_tier_is_blamed_for_its_own_loss_alone() -> None:
    found = judge(sent(), tier("node", (0, 100)), tier("billing", (0, 99)), tier("lake", (0, 100), again=3))
    assert [each.statuses for each in found.values()] == [("complete",), ("missing",), ("duplicated",)]


def test_a_sender_that_said_nothing_more_is_neither_lost_nor_complete() -> None:
    found = judge(sent(80, reserved=128, in_doubt=((70, 80),)), tier("node", (0, 90)))
    assert found["node"] == Finding(expected=90, arrived=90, uncertain=38)


def test_what_was_in_doubt_and_is_in_the_log_is_expected_of_the_tiers_behind() -> None:
    found = judge(sent(80, in_doubt=((70, 80),)), tier("node", (0, 80)), tier("lake", (0, 75)))
    assert found["node"].statuses == ("complete",)
    assert found["lake"] == Finding(expected=80, arrived=75, missing=5)


def test_a_loss_beside_doubt_is_still_exact() -> None:
    found = judge(sent(80, in_doubt=((79, 80),)), tier("node", (0, 40), (41, 79)))
    assert found["node"] == Finding(expected=79, arrived=78, missing=1, uncertain=1)


def test_what_was_refused_is_not_expected() -> None:
    assert judge(sent(80, refused=((10, 20),)), tier("node", (0, 10), (20, 80)))["node"].statuses == ("complete",)


def test_what_a_tier_has_not_come_to_is_late_and_not_well_for_ever() -> None:
    tiers = [tier("node", (0, 100)), tier("lake", (0, 60), ahead=((61, 100),))]
    audit = reconcile("clicks", [sent()], tiers, now_ms=LONG_AFTER_MS)
    assert findings(audit)["lake"] == Finding(expected=100, arrived=60, late=39, missing=1)
    audit = reconcile("clicks", [sent()], [tier("lake", (0, 60), ahead=((60, 100),))], now_ms=LONG_AFTER_MS)
    assert findings(audit)["lake"].statuses == ("late",)
    assert not audit.is_well


def test_before_a_window_is_due_nothing_is_missing_and_nothing_uncertain() -> None:
    published, at_work = sent(80, reserved=128), tier("node", (0, 70), again=1)
    assert judge(published, at_work, now_ms=WINDOW.end_ms + 59_999)["node"] == Finding(
        expected=80, arrived=70, late=10, duplicated=1
    )
    assert judge(published, at_work, now_ms=WINDOW.end_ms + 60_000)["node"] == Finding(
        expected=80, arrived=70, missing=10, duplicated=1, uncertain=48
    )


def test_what_is_late_in_a_window_that_is_not_due_is_well() -> None:
    assert reconcile("clicks", [sent()], [tier("node", (0, 70))], now_ms=WINDOW.end_ms).is_well


@pytest.mark.parametrize(("keeps_since_ms", "status"), [(60_001, "expired"), (60_000, "missing")])
def test_what_is_older_than_what_a_tier_keeps_is_not_missing_there(keeps_since_ms: int, status: str) -> None:
    kept = Tier(name="node", seen={SPAN: seen((50, 100))}, keeps_since_ms=keeps_since_ms)
    audit = reconcile("clicks", [sent()], [kept], now_ms=LONG_AFTER_MS)
    assert audit.rows[0].finding.statuses == (status,)
    assert audit.is_well == (status == "expired")


@pytest.mark.parametrize(("judged_since_ms", "status"), [(60_001, "unjudged"), (60_000, "missing")])
def test_what_may_have_been_deleted_for_no_known_reason_is_not_judged_and_not_well(
    judged_since_ms: int, status: str
) -> None:
    kept = Tier(name="node", seen={SPAN: seen((50, 100))}, judged_since_ms=judged_since_ms)
    audit = reconcile("clicks", [sent()], [kept], now_ms=LONG_AFTER_MS)
    assert audit.rows[0].finding.statuses == (status,)
    assert audit.not_judged == ({"node": 1} if status == "unjudged" else {})
    assert not audit.is_well
    both = Tier(name="node", seen={SPAN: seen((50, 100))}, judged_since_ms=judged_since_ms, keeps_since_ms=60_001)
    assert reconcile("clicks", [sent()], [both], now_ms=LONG_AFTER_MS).rows[0].finding.statuses == ("expired",)


def test_what_lies_before_where_a_tier_began_is_expired_and_the_rest_of_its_window_is_judged() -> None:
    began = Tier(name="billing", seen={SPAN: seen((40, 90))}, passed={SPAN: seen((0, 30))})
    audit = reconcile("clicks", [sent()], [tier("node", (0, 100)), began], now_ms=LONG_AFTER_MS)
    assert findings(audit)["billing"] == Finding(expected=100, arrived=50, missing=20, expired=30)
    assert audit.rows[1].senders[0].missing == ((30, 40), (90, 100))
    assert audit.not_judged == {"billing": 1}


def test_spans_of_one_window_are_one_row_and_windows_are_several() -> None:
    others = [SpanId("web", 6, 0), SpanId("app", 1, 0), SpanId("web", 5, 1)]
    published = [sent(10), sent(20, span=others[0]), sent(30, span=others[1])]
    published.append(sent(40, span=others[2], window=Window(0, 60_000)))
    counted = Tier(
        name="node", seen={SPAN: seen((0, 10)), others[0]: seen((0, 20)), others[1]: seen((0, 29)), others[2]: seen()}
    )
    first, second = reconcile("clicks", published, [counted], now_ms=LONG_AFTER_MS).rows
    assert (first.window.start_ms, first.finding.missing) == (0, 40)
    assert second.finding == Finding(expected=60, arrived=59, missing=1)
    assert [each.span.producer for each in second.senders] == ["app"]


def test_messages_that_nobody_told_of_are_reported_once_they_are_old_enough() -> None:
    stranger = Tier(name="node", seen={SPAN: seen((0, 7), again=1)}, unstamped=3)
    (told,) = reconcile("clicks", [], [stranger], now_ms=LONG_AFTER_MS).strangers
    assert (told.unaccounted, told.foreign, told.unstamped) == (8, 0, 3)
    assert not reconcile("clicks", [], [stranger], now_ms=LONG_AFTER_MS).is_well
    assert reconcile("clicks", [], [stranger], now_ms=WINDOW.start_ms + 1).is_well


def test_messages_of_another_topic_that_were_sent_on_are_not_expected() -> None:
    audit = reconcile("clicks", [sent(topic="views")], [tier("node", (0, 7))], now_ms=LONG_AFTER_MS)
    assert audit.rows == ()
    assert audit.strangers[0].foreign == 7
    assert audit.is_well


def test_a_header_of_our_name_that_is_no_stamp_is_not_well() -> None:
    broken = Tier(name="node", seen={}, malformed=1)
    assert not reconcile("clicks", [], [broken], now_ms=LONG_AFTER_MS).is_well
