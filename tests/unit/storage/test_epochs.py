import pytest

from headrace.storage.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs

UNDEFINED = (UNDEFINED_EPOCH, UNDEFINED_OFFSET)


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


def test_only_a_newer_epoch_makes_an_entry() -> None:
    made = epochs((1, 0), (1, 5), (0, 6), (4, 7))
    assert made.encode() == b"0\n2\n1 0\n4 7\n"
    assert made.latest == 4


def test_an_epoch_that_wrote_nothing_never_was() -> None:
    assert epochs((1, 0), (2, 10), (3, 10)).encode() == b"0\n2\n1 0\n3 10\n"
    assert epochs((1, 0), (2, 10), (3, 8)).encode() == b"0\n2\n1 0\n3 8\n"


def test_the_epoch_of_an_offset() -> None:
    made = epochs((1, 0), (4, 10), (5, 12))
    assert [made.epoch_at(offset) for offset in (0, 9, 10, 11, 12, 99)] == [1, 1, 4, 4, 5, 5]
    assert LeaderEpochs().epoch_at(0) == UNDEFINED_EPOCH
    assert epochs((3, 7)).epoch_at(6) == UNDEFINED_EPOCH


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, UNDEFINED),
        (0, (0, 5)),  # Before the first: it ends where that begins.
        (2, (2, 9)),
        (3, (2, 9)),  # Unknown: the one before it.
        (4, (4, 20)),
        (6, (6, 30)),  # The latest ends with the log.
        (7, UNDEFINED),
    ],
)
def test_where_an_epoch_ends(epoch: int, expected: tuple[int, int]) -> None:
    assert epochs((2, 5), (4, 9), (6, 20)).end_offset(epoch, log_end_offset=30) == expected


def test_an_empty_log_knows_no_epoch() -> None:
    assert LeaderEpochs().end_offset(3, log_end_offset=0) == UNDEFINED
    assert LeaderEpochs().latest == UNDEFINED_EPOCH


def test_truncation_from_both_ends() -> None:
    made = epochs((1, 0), (2, 10), (3, 20))
    made.dirty = False
    made.truncate_from_end(30)
    made.truncate_from_start(0)
    assert not made.dirty
    made.truncate_from_end(20)
    assert (made.encode(), made.dirty) == (b"0\n2\n1 0\n2 10\n", True)
    made.truncate_from_start(5)
    assert made.encode() == b"0\n2\n1 5\n2 10\n"
    made.truncate_from_start(10)
    assert made.encode() == b"0\n1\n2 10\n"
    made.truncate_from_start(15)
    assert made.encode() == b"0\n1\n2 15\n"


def test_the_file_is_read_as_it_was_written() -> None:
    for made in (epochs(), epochs((0, 0)), epochs((1, 0), (2, 10), (3, 20))):
        assert LeaderEpochs.decode(made.encode()).encode() == made.encode()


def test_a_file_cut_anywhere_is_refused() -> None:
    data = epochs((1, 0), (2, 10), (3, 2000)).encode()
    for size in range(len(data)):
        with pytest.raises(ValueError):  # noqa: PT011  # Any: what matters is that it is not believed.
            LeaderEpochs.decode(data[:size])


@pytest.mark.parametrize("data", [b"1\n0\n", b"0\n1\n", b"0\nx\n", b"0\n2\n2 0\n1 5\n", bytes(30), b"\xff\xfe\n0\n"])
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        LeaderEpochs.decode(data)
