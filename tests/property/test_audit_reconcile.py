"""Random histories of senders and tiers, with losses and doubles planted: the report finds exactly what was planted."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.messages import Sent, encode, newest, parse
from headrace.audit.reconcile import Tier, reconcile
from headrace.audit.runs import both, coarsen, minus, runs_of, size, union
from headrace.audit.seen import BLOCK, Counts, SeenSpan
from headrace.audit.stamps import STAMP_HEADER, SpanId, Stamp, encode_stamp, parse_stamp
from headrace.audit.windows import Window, window_of

WINDOW_MS = 1_000
DUE_MS = 1_000_000
TIERS = ("node", "billing", "lake")
names = st.text("abcXYZ019._:-", min_size=1, max_size=12)
numbers = st.integers(0, 2**63 - 1)
sets = st.sets(st.integers(0, 60))


@given(st.builds(Stamp, st.builds(SpanId, names, numbers, numbers), names, numbers, numbers))
def test_stamps_come_back(stamp: Stamp) -> None:
    assert parse_stamp(encode_stamp(stamp)) == stamp


@given(sets, sets, st.integers(1, 10))
def test_runs_are_sets(one: set[int], other: set[int], count_max: int) -> None:
    a, b = (runs_of((each, each + 1) for each in some) for some in (one, other))
    assert [number for first, end in a for number in range(first, end)] == sorted(one)
    assert size(a) == len(one)
    assert union(a, b) == runs_of((each, each + 1) for each in one | other)
    assert minus(a, b) == runs_of((each, each + 1) for each in one - other)
    assert both(a, b) == runs_of((each, each + 1) for each in one & other)
    coarse = coarsen(a, count_max=count_max)
    assert len(coarse) <= count_max
    assert minus(a, coarse) == ()


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK]), max_size=8), max_size=4))
def test_counters_add_up_to_one(counted: list[list[int]]) -> None:
    whole, merged = SeenSpan(), SeenSpan()
    for sequences in counted:
        part = SeenSpan()
        for sequence in sequences:
            whole.add(sequence)
            part.add(sequence)
        for block in part.take_changed():
            merged.add_runs(block.runs, again=block.again)
    assert (merged.runs, merged.again) == (whole.runs, whole.again)


class History:
    """What a sender did in one span, message by message, and what became of it on the way."""

    def __init__(self, data: st.DataObject, span: SpanId, topic: str, window: Window) -> None:
        self.span, self.topic, self.window = span, topic, window
        fates = data.draw(
            st.lists(st.sampled_from(["acknowledged"] * 6 + ["refused", "written", "vanished"]), max_size=25)
        )
        self.fates = dict(enumerate(fates))
        self.spare = data.draw(st.integers(0, 3))  # Reserved, and never used.
        passed = [number for number, fate in self.fates.items() if fate in ("acknowledged", "written")]
        self.seen: dict[str, Counter[int]] = {}
        for tier in TIERS:
            lost = data.draw(st.sets(st.sampled_from(passed))) if passed else set()
            doubled = data.draw(st.sets(st.sampled_from(passed))) if passed else set()
            self.seen[tier] = Counter(number for number in passed if number not in lost)
            self.seen[tier] += Counter(number for number in passed if number in doubled - lost)

    def having(self, *fates: str) -> set[int]:
        return {number for number, fate in self.fates.items() if fate in fates}

    def sent(self, revision: int) -> Sent:
        return Sent(
            span=self.span,
            topic=self.topic,
            window=self.window,
            host="host",
            handed=len(self.fates),
            reserved=len(self.fates) + self.spare,
            in_doubt=runs_of((number, number + 1) for number in self.having("written", "vanished")),
            refused=runs_of((number, number + 1) for number in self.having("refused")),
            told_by=self.span.incarnation,
            revision=revision,
        )

    @property
    def sure(self) -> set[int]:
        """Acknowledged, or found somewhere."""
        return self.having("acknowledged").union(*(set(seen) for seen in self.seen.values()))

    @property
    def uncertain(self) -> int:
        return len(self.having("written", "vanished") - self.sure) + self.spare


@settings(deadline=None)
@given(st.data())
def test_the_report_finds_exactly_what_was_planted(data: st.DataObject) -> None:
    histories = [
        History(data, SpanId(producer, 7, number), topic, window_of(number * WINDOW_MS // 2, length_ms=WINDOW_MS))
        for producer in ("web", "app")
        for number, topic in enumerate(data.draw(st.lists(st.sampled_from(["clicks", "clicks", "views"]), max_size=4)))
    ]
    # Published as bytes, an older word after the newer one; counted from headers.
    published = [parse(encode(each.sent(revision))[1]) for each in histories for revision in (2, 1)]
    sent = [each for each in newest(published) if isinstance(each, Sent)]
    tiers = []
    for name in TIERS:
        counts = Counts()
        for each in histories:
            if each.topic == "clicks":
                for number in each.seen[name].elements():
                    stamp = encode_stamp(Stamp(each.span, "host", number, each.window.start_ms))
                    counts.add_message([("trace", b"1"), (STAMP_HEADER, stamp)])
        tiers.append(Tier(name=name, seen=counts.spans))

    audit = reconcile("clicks", sent, tiers, now_ms=DUE_MS)

    planted = {}
    for name in TIERS:
        for window in {each.window for each in histories if each.topic == "clicks"}:
            here = [each for each in histories if (each.topic, each.window) == ("clicks", window)]
            planted["clicks", window, name] = (
                sum(len(each.sure - set(each.seen[name])) for each in here),
                sum(each.seen[name].total() - len(each.seen[name]) for each in here),
                sum(each.uncertain for each in here),
            )
    found = {
        (row.topic, row.window, row.tier): (row.finding.missing, row.finding.duplicated, row.finding.uncertain)
        for row in audit.rows
    }
    assert found == planted
    assert audit.is_well == (set(planted.values()) <= {(0, 0, 0)})
    for row in audit.rows:
        assert row.finding.expected == row.finding.arrived + row.finding.missing
        assert sum(size(each.missing) for each in row.senders) == row.finding.missing
