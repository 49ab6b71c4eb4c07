"""What was sent against what each tier has seen, by topic, window and tier. Sets and numbers in, findings out.

The rules, for each span, with all sets being sets of its sequences:

- *sure* is what was acknowledged to its sender, and whatever any tier has seen: an answer that was lost is no loss.
- A tier misses what is sure and not seen there. Of that, *late* is what the tier has not come to yet (it lies beyond
  where the tier is in the log), or all of it while the window is not due. *Expired* is what lies in the log before
  where the tier began, and what is so old that the tier is not meant to have it. The rest is *missing*, or *unjudged*
  where something that nobody was told to delete is gone from the log, and may have been just that.
- *Duplicated* are the messages beyond the first of each sequence. A loss and a double are two findings, never none.
- *Uncertain* are those that may have been sent, of which nobody knows: reserved or in doubt, and seen nowhere. They are
  neither lost nor complete. While the window is not due they are nothing to speak of: its senders are at work.

A window is due some time after its end, as long as its senders and tiers are given to tell of it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from headrace.audit.messages import Sent
from headrace.audit.runs import NONE, Runs, both, minus, size, union
from headrace.audit.seen import SeenSpan
from headrace.audit.stamps import SpanId
from headrace.audit.windows import Window

GRACE_MS: Final = 60_000
# The tiers that are there without anybody's doing; the others have the names of groups of consumers.
NODE: Final = "node"
LAKE: Final = "lake"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """What one tier has seen of a topic."""

    name: str
    seen: Mapping[SpanId, SeenSpan]
    ahead: Mapping[SpanId, SeenSpan] = field(default_factory=dict)  # In the log, where the tier has not been yet.
    passed: Mapping[SpanId, SeenSpan] = field(default_factory=dict)  # In the log, before where the tier began.
    keeps_since_ms: int | None = None  # What is older the tier is not meant to have.
    judged_since_ms: int | None = None  # What is older may have been deleted for no reason that is known.
    unstamped: int = 0
    malformed: int = 0
    gone: int = 0  # Rows that it had, and by its own ledger has no longer.


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is to be said of some messages at one tier."""

    expected: int = 0
    arrived: int = 0  # Of those expected, however often.
    late: int = 0
    missing: int = 0
    duplicated: int = 0
    uncertain: int = 0  # At most.
    unjudged: int = 0
    expired: int = 0

    def __add__(self, other: "Finding") -> "Finding":
        return Finding(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    @property
    def statuses(self) -> tuple[str, ...]:
        """Whatever there is besides what arrived; `complete` if that is nothing."""
        return tuple(word for word in STATUSES if getattr(self, word)) or (COMPLETE,)


COMPLETE: Final = "complete"
STATUSES: Final = ("missing", "duplicated", "uncertain", "unjudged", "late", "expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderFinding:
    """One span's share of a row, where there is anything to say of it."""

    span: SpanId
    host: str
    finding: Finding
    missing: Runs  # Which sequences.


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    topic: str
    window: Window
    tier: str
    finding: Finding
    is_due: bool
    senders: tuple[SenderFinding, ...] = ()

    @property
    def is_well(self) -> bool:
        """Nothing is wrong, as far as can be known. What is late in a window that is due is wrong.

        What could not be judged is not well; what is expired is as it was meant to be.
        """
        found = self.finding
        troubles = found.missing or found.duplicated or found.uncertain or found.unjudged
        return not (troubles or (found.late and self.is_due))


@dataclass(frozen=True, slots=True, kw_only=True)
class Strangers:
    """Messages at one tier that no sender has told of."""

    tier: str
    unaccounted: int = 0  # Stamped, and nothing was published of their spans: the audit topic has lost it.
    foreign: int = 0  # Stamped for another topic: sent on by someone who is not audited, headers and all.
    unstamped: int = 0
    malformed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    topic: str
    rows: tuple[Row, ...]
    strangers: tuple[Strangers, ...]
    # By tier, rows that arrived and were taken out since. They are missing, of whatever window they were: this says no
    # more than why.
    gone: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        return all(row.is_well for row in self.rows) and not any(
            each.unaccounted or each.malformed for each in self.strangers
        )

    @property
    def not_judged(self) -> dict[str, int]:
        """By tier, of how many windows something is not there of which it was not judged whether it was lost."""
        return dict(Counter(row.tier for row in self.rows if row.finding.expired or row.finding.unjudged))


def reconcile(
    topic: str, sent: Iterable[Sent], tiers: Sequence[Tier], *, now_ms: int, grace_ms: int = GRACE_MS
) -> Audit:
    """`sent` has, of any topics, the newest word on each span."""
    published = {each.span: each for each in sent}
    by_window: dict[Window, list[Sent]] = {}
    for each in published.values():
        if each.topic == topic:
            by_window.setdefault(each.window, []).append(each)
    rows = []
    for window in sorted(by_window):
        is_due = window.end_ms + grace_ms <= now_ms
        spans = sorted(by_window[window], key=lambda each: each.span)
        rows += [_row(topic, window, tier, tiers, spans, is_due=is_due) for tier in tiers]
    strangers = tuple(_strangers(topic, tier, published, due_ms=now_ms - grace_ms) for tier in tiers)
    gone = {tier.name: tier.gone for tier in tiers if tier.gone}
    return Audit(topic=topic, rows=tuple(rows), strangers=strangers, gone=gone)


def _row(topic: str, window: Window, tier: Tier, tiers: Sequence[Tier], spans: Sequence[Sent], *, is_due: bool) -> Row:
    found = [_judge(sent, tier, tiers, is_due=is_due) for sent in spans]
    return Row(
        topic=topic,
        window=window,
        tier=tier.name,
        finding=sum((each.finding for each in found), Finding()),
        is_due=is_due,
        senders=tuple(each for each in found if each.finding.statuses != (COMPLETE,)),
    )


def _judge(sent: Sent, tier: Tier, tiers: Sequence[Tier], *, is_due: bool) -> SenderFinding:
    seen = tier.seen.get(sent.span)
    seen_runs = seen.runs if seen else NONE
    anywhere = [each.seen[sent.span].runs for each in tiers if sent.span in each.seen]
    sure = union(sent.acknowledged, *anywhere)
    absent = minus(sure, seen_runs)
    late = absent if not is_due else both(absent, _runs(tier.ahead.get(sent.span)))
    passed = both(minus(absent, late), _runs(tier.passed.get(sent.span)))
    gone = minus(minus(absent, late), passed)
    start_ms = sent.window.start_ms
    is_expired = tier.keeps_since_ms is not None and start_ms < tier.keeps_since_ms
    is_unjudged = not is_expired and tier.judged_since_ms is not None and start_ms < tier.judged_since_ms
    missing = NONE if is_expired or is_unjudged else gone
    uncertain = size(minus(sent.possible, sure)) if is_due else 0
    return SenderFinding(
        span=sent.span,
        host=sent.host,
        finding=Finding(
            expected=size(sure),
            arrived=size(seen_runs),
            late=size(late),
            missing=size(missing),
            duplicated=seen.again if seen else 0,
            uncertain=uncertain,
            unjudged=size(gone) if is_unjudged else 0,
            expired=size(passed) + (size(gone) if is_expired else 0),
        ),
        missing=missing,
    )


def _runs(seen: SeenSpan | None) -> Runs:
    return seen.runs if seen else NONE


def _strangers(topic: str, tier: Tier, published: Mapping[SpanId, Sent], *, due_ms: int) -> Strangers:
    unaccounted = foreign = 0
    for span, seen in tier.seen.items():
        sent = published.get(span)
        count = size(seen.runs) + seen.again
        if sent is not None:
            foreign += count if sent.topic != topic else 0
        elif seen.time_ms_max <= due_ms:
            # A younger one may have been opened after the audit topic was read.
            unaccounted += count
    return Strangers(
        tier=tier.name,
        unaccounted=unaccounted,
        foreign=foreign,
        unstamped=tier.unstamped,
        malformed=tier.malformed,
    )
