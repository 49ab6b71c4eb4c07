from headrace.audit.runs import size
from headrace.audit.seen import BLOCK, Counts, SeenSpan
from headrace.audit.stamps import NUMBER_MAX, STAMP_HEADER, SpanId, Stamp, encode_stamp

SPAN = SpanId("web", 1, 0)


def stamp(sequence: int, *, span: SpanId = SPAN) -> bytes:
    return encode_stamp(Stamp(span, "host-a", sequence, 1_000 + sequence))


def test_a_loss_and_a_double_are_both_seen() -> None:
    seen = SeenSpan()
    for sequence in (0, 1, 1, 3):
        seen.add(sequence)
    assert seen.runs == ((0, 2), (3, 4))
    assert seen.again == 1


def test_runs_go_on_from_block_to_block() -> None:
    seen = SeenSpan()
    for sequence in (BLOCK, BLOCK - 1, BLOCK + 1, 3 * BLOCK):
        seen.add(sequence)
    assert seen.runs == ((BLOCK - 1, BLOCK + 2), (3 * BLOCK, 3 * BLOCK + 1))


def test_what_two_counters_have_seen_was_seen_twice() -> None:
    seen = SeenSpan()
    seen.add_runs(((0, BLOCK + 10),), again=1)
    seen.add_runs(((5, 7), (BLOCK + 9, BLOCK + 11)), again=0)
    assert seen.runs == ((0, BLOCK + 11),)
    assert seen.again == 1 + 2 + 1


def test_a_block_is_told_of_again_only_after_it_changed() -> None:
    seen = SeenSpan()
    seen.add(0)
    seen.add(BLOCK)
    seen.add(BLOCK)
    first, second = seen.take_changed()
    assert (first.number, first.runs, first.again) == (0, ((0, 1),), 0)
    assert (second.number, second.runs, second.again) == (1, ((BLOCK, BLOCK + 1),), 1)
    assert seen.take_changed() == []
    seen.add(1)
    assert [block.runs for block in seen.take_changed()] == [((0, 2),)]
    seen.restore_changed([1])
    assert [block.number for block in seen.take_changed()] == [1]


def test_a_stamp_that_somebody_made_up_costs_little() -> None:
    seen = SeenSpan()
    seen.add(NUMBER_MAX)
    assert seen.runs == ((NUMBER_MAX, NUMBER_MAX + 1),)


def test_a_block_is_as_long_as_it_has_to_be() -> None:
    seen = SeenSpan()
    seen.add(0)
    assert len(seen.block(0, end=0)) == 64
    seen.add(64)
    assert len(seen.block(0, end=0)) == 128
    seen.add_runs(((10, BLOCK + 5),), again=0)
    assert [len(seen.block(number, end=0)) for number in (0, 1)] == [BLOCK, 64]
    assert seen.runs == ((0, 1), (10, BLOCK + 5))
    assert seen.again == 1


def test_messages_are_counted_by_their_last_stamp() -> None:
    counts = Counts()
    counts.add_message([("trace", b"x"), (STAMP_HEADER, stamp(7, span=SpanId("up", 1, 0))), (STAMP_HEADER, stamp(0))])
    counts.add_message([(STAMP_HEADER, stamp(1).decode())])
    assert list(counts.spans) == [SPAN]
    assert size(counts.spans[SPAN].runs) == 2
    assert counts.spans[SPAN].host == "host-a"
    assert counts.spans[SPAN].time_ms_max == 1_001


def test_messages_without_a_stamp_are_counted_apart() -> None:
    counts = Counts()
    assert counts.add_message(None) is None
    assert counts.add_message([("trace", b"x")]) is None
    assert counts.add_message([(STAMP_HEADER, None)]) is None
    assert counts.add_message([(STAMP_HEADER, b"1;2")]) is None
    assert (counts.unstamped, counts.malformed, counts.spans) == (2, 2, {})
