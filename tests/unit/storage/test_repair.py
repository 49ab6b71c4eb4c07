import random

import pytest

from headrace.protocol.batch import parse_header, whole_batches
from headrace.sim.disk import PowerLost, SimDisk, Survival
from headrace.sim.world import World
from headrace.storage.repair import Quarantined, repair_segment, survey_segment
from headrace.storage.scan import Chain, Damage, chained_batches, checked_batches
from tests.unit.storage.logs import batch

PATH = "t-0/00000000000000000100.log"


def placed(count: int = 5, *, base: int = 100, first_epoch: int = 0) -> list[bytes]:
    made = []
    for number in range(count):
        data = bytearray(batch(b"%d" % number * (number + 1)))
        data[:8] = (base + number).to_bytes(8, "big")
        data[12:16] = (first_epoch + number // 3).to_bytes(4, "big")
        made.append(bytes(data))
    return made


def disk_with(data: bytes) -> SimDisk:
    disk = SimDisk(World(1))
    disk.make_dir("t-0")
    disk.open(PATH, create=True).append((data,))
    disk.open(PATH).sync()
    for path in ("t-0", "."):
        disk.sync_dir(path)
    return disk


def survey(data: bytes, *, next_base: int | None = None) -> list[object]:
    return list(survey_segment(disk_with(data).open(PATH), base_offset=100, next_base=next_base))


def ranges(data: bytes, *, next_base: int | None = None) -> list[tuple[bool, int, int]]:
    """Good or not, start and end of each part."""
    out = []
    for part in survey(data, next_base=next_base):
        if isinstance(part, Quarantined):
            out.append((False, part.position, part.position + part.size))
        else:
            out.append((True, part.start, part.end))  # type: ignore[attr-defined]
    return out


def test_a_whole_segment_is_one_good_range() -> None:
    data = b"".join(placed())
    assert ranges(data) == [(True, 0, len(data))]
    assert ranges(b"") == []


@pytest.mark.parametrize("junk", [b"\0", bytes(61), b"x" * 1000, b"\0" * 300_000, batch(b"v")[:-2]])
def test_junk_between_batches_goes_alone(junk: bytes) -> None:
    batches = placed()
    for at in range(6):
        before, after = b"".join(batches[:at]), b"".join(batches[at:])
        expected = [(True, 0, len(before)), (False, len(before), len(before + junk))]
        expected += [(True, len(before + junk), len(before + junk + after))]
        assert ranges(before + junk + after) == [part for part in expected if part[1] < part[2]]


def test_what_was_lost_is_named_by_its_offsets() -> None:
    batches = placed()
    data = bytearray(b"".join(batches))
    data[len(batches[0]) + 65] ^= 1
    (bad,) = [part for part in survey(bytes(data)) if isinstance(part, Quarantined)]
    assert (bad.first_offset, bad.next_offset, bad.size) == (101, 102, len(batches[1]))
    assert "CRC" in bad.reason
    (tail,) = [part for part in survey(b"".join(batches) + b"torn", next_base=110) if isinstance(part, Quarantined)]
    assert (tail.first_offset, tail.next_offset) == (105, 110)


def test_neighbouring_damage_is_one_range() -> None:
    batches = placed()
    data = bytearray(b"".join(batches))
    data[len(batches[0]) + 65] ^= 1
    data[len(batches[0]) + len(batches[1]) + 65] ^= 1
    bad = [part for part in survey(bytes(data)) if isinstance(part, Quarantined)]
    assert [(part.first_offset, part.next_offset) for part in bad] == [(101, 103)]


def test_batches_that_belong_elsewhere_go() -> None:
    batches = placed()
    below, above = placed(1, base=50), placed(1, base=500, first_epoch=9)
    data = below[0] + b"".join(batches) + above[0]
    assert [good for good, _, _ in ranges(data, next_base=105)] == [False, True, False]
    # Without a next segment a gap at the end may be one.
    assert [good for good, _, _ in ranges(data)] == [False, True]


def test_a_batch_inside_a_damaged_value_is_not_taken_for_one_of_the_log() -> None:
    """A topic that carries batches as values: the inner ones begin at offset 0, where the log is long past."""
    inner = b"".join(placed(2, base=0))
    outer = bytearray(batch(inner))
    outer[:8] = (101).to_bytes(8, "big")
    outer[-1] ^= 1
    batches = placed()
    data = batches[0] + bytes(outer) + b"".join(batches[2:])
    assert ranges(data) == [
        (True, 0, len(batches[0])),
        (False, len(batches[0]), len(batches[0]) + len(outer)),
        (True, len(batches[0]) + len(outer), len(data)),
    ]


@pytest.mark.parametrize("base", [2**32 - 3, 2**40 - 2])
def test_the_search_crosses_the_32_bits_of_an_offset(base: int) -> None:
    batches = placed(6, base=base)
    data = bytearray(b"".join(batches))
    data[len(batches[0]) + 65] ^= 1
    disk = disk_with(bytes(data))
    found = list(survey_segment(disk.open(PATH), base_offset=base, next_base=None))
    assert sum(isinstance(part, Quarantined) for part in found) == 1


def test_any_mixture_of_damage_leaves_only_batches_that_were_written() -> None:
    chance = random.Random(11)
    for _ in range(150):
        batches = placed(12)
        data = bytearray(b"".join(batches))
        for _ in range(chance.randint(1, 4)):
            at, size = chance.randrange(len(data)), chance.choice((1, 10, 100))
            match chance.randrange(3):
                case 0:
                    data[at : at + size] = chance.randbytes(min(size, len(data) - at))
                case 1:
                    del data[at : at + size]
                case 2:
                    data[at:at] = chance.randbytes(size)
        disk = disk_with(bytes(data))
        kept = repair_segment(disk, "t-0", 100, next_base=112)
        rest = disk.read_file(PATH) or b""
        survivors = [rest[position : position + h.size_bytes] for position, h in whole_batches(rest)]
        assert b"".join(survivors) == rest
        offsets = [parse_header(one).base_offset for one in survivors]
        assert offsets == sorted(set(offsets))
        # Everything that is still where and what it was is there; nothing is invented but its place.
        assert {one[16:] for one in survivors} <= {one[16:] for one in batches}
        assert len(data) == len(rest) + sum(part.size for part in kept)
        assert [disk.read_file(part.kept_in or "") for part in kept] == [
            bytes(data[part.position : part.position + part.size]) for part in kept
        ]
        assert repair_segment(disk, "t-0", 100, next_base=112) == []


def test_a_second_repair_does_not_overwrite_what_the_first_kept() -> None:
    batches = placed()
    disk = disk_with(b"first" + b"".join(batches))
    (first,) = repair_segment(disk, "t-0", 100, next_base=None)
    disk.overwrite(PATH, 0, b"second")
    (second,) = repair_segment(disk, "t-0", 100, next_base=None)
    assert first.kept_in is not None
    assert second.kept_in is not None
    assert disk.read_file(first.kept_in) == b"first"
    assert (disk.read_file(second.kept_in) or b"").startswith(b"second")


def test_power_lost_anywhere_leaves_the_old_segment_or_the_new_one() -> None:
    batches = placed()
    damaged = bytearray(b"".join(batches))
    damaged[len(batches[0]) + 65] ^= 1
    good = b"".join([batches[0], *batches[2:]])

    def prepared() -> SimDisk:
        disk = disk_with(bytes(damaged))
        for suffix in (".index", ".timeindex"):
            disk.open(f"t-0/00000000000000000100{suffix}", create=True).append((b"12345678",))
        disk.sync_dir("t-0")
        return disk

    whole = prepared()
    first = whole.changes
    repair_segment(whole, "t-0", 100, next_base=None)
    for change in range(first, whole.changes):
        for survival in Survival:
            disk = prepared()
            disk.lose_power_at(change)
            with pytest.raises(PowerLost):
                repair_segment(disk, "t-0", 100, next_base=None)
            disk = disk.crash(survival)
            content = disk.read_file(PATH)
            assert content in (bytes(damaged), good)
            if content == good:
                assert not disk.exists("t-0/00000000000000000100.index")
            repair_segment(disk, "t-0", 100, next_base=None)
            assert disk.read_file(PATH) == good


def test_a_scan_says_where_it_stopped() -> None:
    data = b"".join(placed(2))
    for junk, reason in ((b"x", "header"), (bytes(61), "length"), (batch(b"v")[:-1], "left")):
        file = disk_with(data + junk).open(PATH)
        *good, damage = checked_batches(file)
        assert len(good) == 2
        assert isinstance(damage, Damage)
        assert damage.position == len(data)
        assert reason in damage.reason


def test_a_scan_reads_batches_larger_than_its_window() -> None:
    large = bytearray(batch(b"x" * (3 << 20), leader_epoch=1))
    large[:8] = (102).to_bytes(8, "big")
    data = b"".join(placed(2)) + bytes(large)
    found = list(chained_batches(disk_with(data).open(PATH), Chain(100, next_base=None)))
    assert [item[1].base_offset for item in found if not isinstance(item, Damage)] == [100, 101, 102]
