from headrace.audit.messages import AuditMessage, Reached, Seen, newest
from headrace.audit.stamps import STAMP_HEADER, SpanId, Stamp, encode_stamp
from headrace.audit.tally import Tally, add_up

SPAN = SpanId("web", 5, 0)


def headers(sequence: int) -> list[tuple[str, bytes | str | None]]:
    return [(STAMP_HEADER, encode_stamp(Stamp(SPAN, "h", sequence, 1_000)))]


def read(tally: Tally, offsets: range, *, partition: int = 0) -> None:
    for offset in offsets:
        tally.add("clicks", partition, offset, headers(offset))


def test_only_what_has_changed_is_told() -> None:
    tally = Tally(tier="billing", counter="a")
    read(tally, range(3, 5))
    seen, reached = tally.take_changed()
    assert isinstance(seen, Seen)
    assert isinstance(reached, Reached)
    assert (seen.runs, seen.again, seen.time_ms_max) == (((3, 5),), 0, 1_000)
    assert (reached.first, reached.next) == (3, 5)
    assert tally.take_changed() == []
    tally.add("clicks", 0, 5, [])
    (reached,) = tally.take_changed()
    assert isinstance(reached, Reached)
    assert (reached.first, reached.next) == (3, 6)


def test_what_did_not_get_through_is_told_again() -> None:
    tally = Tally(tier="billing", counter="a")
    read(tally, range(2))
    told = tally.take_changed()
    tally.restore(told)
    again = tally.take_changed()
    assert [message.key for message in again] == [message.key for message in told]
    assert newest([*again, *told]) == again


def test_consumers_of_a_group_add_up_and_what_both_read_was_read_twice() -> None:
    one, other = Tally(tier="billing", counter="a"), Tally(tier="billing", counter="b")
    elsewhere = Tally(tier="search", counter="a")
    read(one, range(10))
    told: list[AuditMessage] = one.take_changed()
    read(one, range(10, 12))
    read(other, range(11, 20))
    read(elsewhere, range(1), partition=1)
    for tally in (one, other, elsewhere):
        told += tally.take_changed()
    tiers = add_up(newest(told), topic="clicks")
    assert list(tiers) == ["billing", "search"]
    assert tiers["billing"].spans[SPAN].runs == ((0, 20),)
    assert tiers["billing"].spans[SPAN].again == 1
    assert tiers["billing"].extents == {0: (0, 20)}
    assert tiers["search"].extents == {1: (0, 1)}
    assert add_up(newest(told), topic="views") == {}
