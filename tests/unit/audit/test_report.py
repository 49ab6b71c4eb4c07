import json
from dataclasses import replace

from headrace.audit.messages import Sent
from headrace.audit.reconcile import Audit, Finding, Tier, reconcile
from headrace.audit.report import bar, full_bar, gone_notes, report_fields, status_text, stranger_notes, verdict
from headrace.audit.seen import SeenSpan
from headrace.audit.stamps import SpanId
from headrace.audit.windows import Window

SPAN = SpanId("web", 5, 0)


def sent() -> Sent:
    return Sent(
        span=SPAN,
        topic="clicks",
        window=Window(60_000, 60_000),
        host="host-a",
        handed=100,
        reserved=110,
        in_doubt=(),
        refused=(),
        told_by=5,
        revision=1,
    )


def test_a_status_says_everything_with_its_number() -> None:
    assert status_text(Finding(expected=5, arrived=5)) == "complete"
    assert status_text(Finding(missing=1_000, duplicated=1, uncertain=7)) == (
        "missing 1,000, duplicated 1, uncertain at most 7"
    )


def test_one_message_among_millions_is_seen_in_a_bar() -> None:
    parts = bar(Finding(expected=1_000_000, arrived=999_999, missing=1), full=1_000_000, width=10)
    assert [(part.kind, part.cells) for part in parts] == [("arrived", 10), ("missing", 1)]
    assert bar(Finding(), full=0, width=10) == []


def test_a_report_for_programs_names_tier_topic_window_count_and_sender() -> None:
    seen = SeenSpan("host-a")
    seen.add_runs(((0, 40), (42, 100)), again=1)
    audit = reconcile("clicks", [sent()], [Tier(name="node", seen={SPAN: seen}, unstamped=2)], now_ms=10**9)
    assert full_bar(audit) == 110
    fields = json.loads(json.dumps(report_fields(audit)))
    assert (fields["topic"], fields["well"]) == ("clicks", False)
    (row,) = fields["rows"]
    assert (row["tier"], row["window_start_ms"], row["window"]) == ("node", 60_000, "1970-01-01 00:01:00 +60s")
    assert row["statuses"] == ["missing", "duplicated", "uncertain"]
    assert (row["missing"], row["duplicated"], row["uncertain_max"]) == (2, 1, 10)
    (sender,) = row["senders"]
    assert (sender["producer"], sender["host"], sender["missing_sequences"]) == ("web", "host-a", [[40, 41]])
    assert fields["strangers"] == [{"tier": "node", "unaccounted": 0, "malformed": 0, "foreign": 0, "unstamped": 2}]


def test_the_last_word_tells_what_is_lost_from_what_nobody_knows() -> None:
    def word(*runs: tuple[int, int], reserved: int = 100, again: int = 0) -> str:
        seen = SeenSpan()
        seen.add_runs(runs, again=again)
        tiers = [Tier(name=name, seen={SPAN: seen}) for name in ("node", "lake")]
        return verdict(reconcile("clicks", [replace(sent(), reserved=reserved)], tiers, now_ms=10**9))

    assert word((0, 100)) == "all is well"
    assert word((0, 99)) == word((0, 100), again=1) == word((0, 99), reserved=110) == "not all is well"
    assert word((0, 100), reserved=110).startswith(
        "everything that is known to have been sent is there, once; of up to 10 more messages nobody knows"
    )


def test_the_last_word_never_says_that_all_is_well_where_something_was_not_judged() -> None:
    def word(**since: int) -> str:
        seen = SeenSpan()
        seen.add_runs(((0, 60),), again=0)
        tiers = [Tier(name=name, seen={SPAN: seen}, **since) for name in ("node", "lake")]
        tiers[1] = replace(tiers[1], seen={SPAN: seen, SpanId("web", 5, 1): SeenSpan()})
        published = replace(sent(), reserved=100 + since.get("judged_since_ms", 0) % 2)
        audit = reconcile("clicks", [published], tiers, now_ms=10**9)
        assert report_fields(audit)["verdict"] == verdict(audit)
        assert report_fields(audit)["not_judged"] == {"node": 1, "lake": 1}
        return verdict(audit)

    older = "all is well that tiers are meant to have; older, and not judged: 1 window of node, 1 window of lake"
    assert word(keeps_since_ms=60_001) == older
    assert word(judged_since_ms=60_002).startswith("not all could be judged (1 window of node, 1 window of lake): ")
    assert "; of up to 1 more messages nobody knows" in word(judged_since_ms=60_001)


def test_what_is_not_judged_is_in_table_and_bar() -> None:
    finding = Finding(expected=10, arrived=5, unjudged=5)
    assert status_text(finding) == "unjudged 5"
    assert [part.kind for part in bar(finding, full=10, width=10)] == ["arrived", "unjudged"]


def test_messages_that_no_count_tells_of_are_told_in_a_sentence() -> None:
    seen = SeenSpan()
    seen.add(0)
    tiers = [Tier(name="node", seen={SpanId("who", 1, 0): seen, SPAN: seen}, unstamped=1_000, malformed=2)]
    notes = stranger_notes(reconcile("views", [sent()], tiers, now_ms=10**9))
    assert [note.split(" ")[1] for note in notes] == ["1", "2", "1", "1,000"]


def test_what_was_loaded_and_is_gone_is_a_sentence() -> None:
    audit = Audit(topic="clicks", rows=(), strangers=(), gone={"lake": 1, "attic": 1_200})
    assert gone_notes(audit) == [
        "lake: 1 row was loaded, by the ledger, and is gone from the table since",
        "attic: 1,200 rows were loaded, by the ledger, and are gone from the table since",
    ]
    assert report_fields(audit)["gone"] == {"lake": 1, "attic": 1_200}
