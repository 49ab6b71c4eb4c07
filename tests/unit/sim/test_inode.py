"""What a crash may and may not make of one file."""

import random

from headrace.sim.disk import WRITTEN_BACK
from headrace.sim.inode import PAGE_BYTES, SECTOR_BYTES, Inode

SEEDS = range(200)


def pages(*letters: str) -> bytes:
    return b"".join(letter.encode() * PAGE_BYTES for letter in letters)


def synced(content: bytes) -> Inode:
    inode = Inode()
    inode.append(content)
    inode.commit(inode.capture())
    return inode


def outcomes(inode: Inode) -> list[bytes]:
    return [
        inode.kept_by(random.Random(seed), written_back=written_back) for seed in SEEDS for written_back in WRITTEN_BACK
    ]


def test_what_was_synced_survives_everything() -> None:
    inode = synced(pages("a", "b") + b"tail")
    assert set(outcomes(inode)) == {inode.kept_synced()} == {inode.kept_all()} == {pages("a", "b") + b"tail"}


def test_an_unsynced_tail_is_torn_at_any_byte_and_the_synced_part_stays() -> None:
    inode = synced(b"synced")
    inode.append(b"0123456789")
    assert inode.kept_synced() == b"synced"
    assert inode.kept_all() == b"synced0123456789"
    seen = outcomes(inode)
    assert {len(content) for content in seen} == set(range(6, 17))
    assert all(content.startswith(b"synced") for content in seen)


def test_unsynced_pages_vanish_independently_of_each_other() -> None:
    inode = Inode()
    inode.append(pages("a", "b", "c"))
    whole = [content for content in outcomes(inode) if len(content) == 3 * PAGE_BYTES]
    fates = {
        tuple(content[start : start + PAGE_BYTES].strip(b"\0") != b"" for start in range(0, 3 * PAGE_BYTES, PAGE_BYTES))
        for content in whole
    }
    assert len(fates) == 8  # A later page may survive where an earlier one is lost.


def test_a_page_is_torn_only_between_sectors() -> None:
    inode = Inode()
    inode.append(pages("a"))
    torn = False
    for content in outcomes(inode):
        sectors = [content[start : start + SECTOR_BYTES] for start in range(0, len(content), SECTOR_BYTES)]
        assert all(set(sector) in ({0}, {ord("a")}) for sector in sectors)
        torn = torn or len({sector[:1] for sector in sectors}) == 2
    assert torn


def test_a_rewritten_page_may_still_hold_what_it_held_before() -> None:
    inode = synced(pages("a", "b"))
    inode.truncate(PAGE_BYTES)
    inode.append(pages("B"))
    seconds = {content[PAGE_BYTES:] for content in outcomes(inode) if len(content) == 2 * PAGE_BYTES}
    assert {pages("b"), pages("B")} <= seconds
    assert all(content[:PAGE_BYTES] == pages("a") for content in outcomes(inode))


def test_what_was_truncated_is_back_unless_the_truncation_was_synced() -> None:
    inode = synced(b"0123456789")
    inode.truncate(4)
    # The last page may have been written in its new form though the size was not.
    assert {b"0123456789", b"0123", b"0123\0\0\0\0\0\0"} <= set(outcomes(inode))
    inode.commit(inode.capture())
    assert set(outcomes(inode)) == {b"0123"}


def test_an_append_that_was_cut_back_can_return() -> None:
    inode = synced(b"ab")
    inode.append(b"cut back")
    inode.truncate(2)
    assert {b"ab", b"abcut back"} <= set(outcomes(inode))
    assert inode.kept_all() == b"ab"


def test_a_sync_covers_what_was_written_before_it_began_and_no_more() -> None:
    inode = Inode()
    inode.append(b"before ")
    captured = inode.capture()
    inode.append(b"after")
    inode.commit(captured)
    assert inode.kept_synced() == b"before "
    seen = outcomes(inode)
    assert all(content.startswith(b"before ") for content in seen)
    assert b"before after" in seen
    inode.commit(inode.capture())
    assert set(outcomes(inode)) == {b"before after"}


def test_a_truncation_during_a_sync_is_not_covered_by_it() -> None:
    inode = Inode()
    inode.append(pages("a", "b"))
    captured = inode.capture()
    inode.truncate(PAGE_BYTES)
    inode.append(b"new")
    inode.commit(captured)
    assert inode.kept_synced() == pages("a", "b")
    assert inode.kept_all() == pages("a") + b"new"
    inode.commit(inode.capture())
    assert set(outcomes(inode)) == {pages("a") + b"new"}


def test_a_slow_sync_does_not_undo_a_later_one() -> None:
    inode = Inode()
    inode.append(b"one")
    slow = inode.capture()
    inode.append(b" two")
    quick = inode.capture()
    inode.commit(quick)
    inode.commit(slow)
    assert inode.kept_synced() == b"one two"
    inode.lose(slow, random.Random(1))
    assert inode.kept_synced() == b"one two"


def test_after_a_failed_sync_the_next_succeeds_without_what_was_lost() -> None:
    results = set()
    for seed in SEEDS:
        inode = synced(pages("a"))
        inode.append(pages("b", "c"))
        inode.lose(inode.capture(), random.Random(seed))
        assert inode.read(0, 3 * PAGE_BYTES) == pages("a", "b", "c")  # The cache shows it still.
        inode.append(pages("d"))
        inode.commit(inode.capture())
        content = inode.kept_synced()
        assert content[:PAGE_BYTES] == pages("a")
        assert content[3 * PAGE_BYTES :] == pages("d")
        results.add(content[PAGE_BYTES : 3 * PAGE_BYTES])
        assert {inode.kept_by(random.Random(again), written_back=0.5) for again in range(5)} == {content}
        inode.evict()
        assert inode.read(0, 4 * PAGE_BYTES) == content
    assert results == {pages(*letters) for letters in ("bc", "b\0", "\0c", "\0\0")}


def test_dirty_pages_are_not_evicted() -> None:
    inode = synced(pages("a"))
    inode.append(pages("b"))
    inode.evict()
    assert not inode.is_warm(0, 1)
    assert inode.is_warm(PAGE_BYTES, PAGE_BYTES)
    assert inode.read(0, 2 * PAGE_BYTES) == pages("a", "b")
    assert inode.is_warm(0, 2 * PAGE_BYTES)
