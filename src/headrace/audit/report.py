"""Findings in words, in JSON's values, and in bars. Prints nothing."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from headrace.audit.reconcile import COMPLETE, Audit, Finding, Row, SenderFinding, Strangers

# In a report of one row the gaps of one sender are named, up to so many.
RUNS_MAX: Final = 20


class Part(NamedTuple):
    """A piece of a bar, of one kind of message."""

    kind: str
    cells: int


def status_text(finding: Finding) -> str:
    """`complete`, or all that is to be said besides, each with its number."""
    words = []
    for status in finding.statuses:
        if status == COMPLETE:
            return COMPLETE
        at_most = "at most " if status == "uncertain" else ""
        words.append(f"{status} {at_most}{getattr(finding, status):,}")
    return ", ".join(words)


def bar(finding: Finding, *, full: int, width: int) -> list[Part]:
    """What was expected and what may have been, as parts of a bar that is `width` cells long for `full` messages.

    Trouble of whatever size has a cell, so that one message among millions is seen.
    """
    parts = []
    for kind in ("arrived", "late", "missing", "uncertain", "unjudged", "expired"):
        count = getattr(finding, kind)
        if count:
            parts.append(Part(kind, max(1, round(count * width / max(1, full)))))
    return parts


def full_bar(audit: Audit) -> int:
    """How many messages the longest bar of a report stands for."""
    return max((row.finding.expected + row.finding.uncertain for row in audit.rows), default=0)


def uncertain_max(audit: Audit) -> int:
    """How many messages of all windows nobody knows anything of, at most. Every tier has the same."""
    by_tier: Counter[str] = Counter()
    for row in audit.rows:
        by_tier[row.tier] += row.finding.uncertain
    return max(by_tier.values(), default=0)


def verdict(audit: Audit) -> str:
    """How it stands, in one line. What is merely uncertain is not well, and no loss either: it is said what it is."""
    if audit.is_well:
        if not audit.not_judged:
            return "all is well"
        return f"all is well that tiers are meant to have; older, and not judged: {_windows_text(audit.not_judged)}"
    rows = tuple(replace(row, finding=replace(row.finding, uncertain=0, unjudged=0)) for row in audit.rows)
    if not replace(audit, rows=rows).is_well:
        return "not all is well"
    unjudged = replace(audit, rows=tuple(row for row in audit.rows if row.finding.unjudged)).not_judged
    words = []
    if unjudged:
        words.append(
            f"not all could be judged ({_windows_text(unjudged)}): messages are gone from the log that retention by "
            "time did not delete, and nobody knows whether what is not there was among them; what could be judged is "
            "there, once"
        )
    else:
        words.append("everything that is known to have been sent is there, once")
    if count := uncertain_max(audit):
        words.append(
            f"of up to {count:,} more messages nobody knows whether they were sent: their sender died, or its client "
            "gave up, before that was known"
        )
    return "; ".join(words)


def _windows_text(by_tier: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {'window' if count == 1 else 'windows'} of {tier}" for tier, count in by_tier.items())


def report_fields(audit: Audit) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "topic": audit.topic,
        "well": audit.is_well,
        "verdict": verdict(audit),
        "not_judged": audit.not_judged,
        "rows": [_row_fields(row) for row in audit.rows],
        "strangers": [_stranger_fields(each) for each in audit.strangers],
        "gone": dict(audit.gone),
    }


def gone_notes(audit: Audit) -> list[str]:
    """A sentence for each tier that had rows which are not there any more."""
    return [
        f"{tier}: {count:,} {'row was' if count == 1 else 'rows were'} loaded, by the ledger, and "
        f"{'is' if count == 1 else 'are'} gone from the table since"
        for tier, count in audit.gone.items()
    ]


def stranger_notes(audit: Audit) -> list[str]:
    """A sentence for each kind of message that no count tells of."""
    notes = []
    for each in audit.strangers:
        if each.unaccounted:
            notes.append(
                f"{each.tier}: {each.unaccounted:,} stamped messages of which the audit topic says nothing: "
                "it has lost what their senders published"
            )
        if each.malformed:
            notes.append(f"{each.tier}: {each.malformed:,} messages whose stamp cannot be read")
        if each.foreign:
            notes.append(f"{each.tier}: {each.foreign:,} messages stamped for another topic, not judged")
        if each.unstamped:
            notes.append(f"{each.tier}: {each.unstamped:,} messages of senders that are not audited, not judged")
    return notes


def _row_fields(row: Row) -> dict[str, Any]:
    return {
        "window_start_ms": row.window.start_ms,
        "window_ms": row.window.length_ms,
        "window": str(row.window),
        "tier": row.tier,
        "due": row.is_due,
        "well": row.is_well,
        "statuses": list(row.finding.statuses),
        **_finding_fields(row.finding),
        "senders": [_sender_fields(each) for each in row.senders],
    }


def _finding_fields(finding: Finding) -> dict[str, int]:
    return {
        "expected": finding.expected,
        "arrived": finding.arrived,
        "missing": finding.missing,
        "duplicated": finding.duplicated,
        "uncertain_max": finding.uncertain,
        "unjudged": finding.unjudged,
        "late": finding.late,
        "expired": finding.expired,
    }


def _sender_fields(each: SenderFinding) -> dict[str, Any]:
    return {
        "producer": each.span.producer,
        "incarnation": each.span.incarnation,
        "span": each.span.number,
        "host": each.host,
        **_finding_fields(each.finding),
        "missing_sequences": [[first, end - 1] for first, end in each.missing[:RUNS_MAX]],
    }


def _stranger_fields(each: Strangers) -> dict[str, Any]:
    return {
        "tier": each.tier,
        "unaccounted": each.unaccounted,
        "malformed": each.malformed,
        "foreign": each.foreign,
        "unstamped": each.unstamped,
    }
