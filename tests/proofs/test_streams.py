"""A judge that has never found anything is not known to look: each broken promise is planted here."""

from typing import Any

import pytest

from tests.proofs.stream_history import Broken, History


def gained(partitions: list[int], generation: int, at: float) -> dict[str, Any]:
    return {"change": "gained", "partitions": partitions, "generation": generation, "at": at}


def released(partitions: list[int], generation: int, at: float) -> dict[str, Any]:
    return {"change": "released", "partitions": partitions, "generation": generation, "at": at}


def got(partition: int, offset: int, *, ownership: int = 1, value: str | None = None) -> dict[str, Any]:
    value = f"{partition}:{offset}" if value is None else value
    return {"partition": partition, "ownership": ownership, "offset": offset, "value": value}


def committed(partition: int, sent: float, error: str | None = None) -> dict[str, Any]:
    return {"sent": sent, "partition": partition, "offset": 1, "error": error}


def history_of(*events: tuple[str, dict[str, Any]]) -> History:
    history = History()
    for member, event in events:
        history.feed(member, event)
    return history


def test_a_good_history() -> None:
    history = history_of(
        ("a", gained([0, 1], 1, 1.0)),
        ("a", got(0, 0)),
        ("a", got(0, 1)),
        ("a", committed(0, 2.0)),
        ("a", released([0], 2, 3.0)),
        ("b", gained([0], 3, 4.0)),
        ("a", gained([], 3, 4.1)),
        ("b", got(0, 1)),  # Again, because a new owner begins at what was committed.
        ("b", got(0, 2)),
        ("a", committed(0, 5.0, "NotOwner")),
        ("b", committed(0, 5.0)),
    )
    history.check_owners()
    history.check_delivered({0: 3})
    assert (history.deliveries, history.repeated) == (4, 1)
    assert (history.commits_accepted, dict(history.commits_refused)) == (2, {"a": 1})
    assert history.owners() == {0: "b", 1: "a"}
    assert history.has_read("a")
    assert not history.has_read("c")


@pytest.mark.parametrize("second", [0, 2, 5])
def test_out_of_order_or_with_a_gap(second: int) -> None:
    with pytest.raises(Broken, match=r"after (0|3)"):
        history_of(("a", got(0, 3 if second == 2 else 0)), ("a", got(0, second)))


def test_another_ownership_may_begin_again() -> None:
    history_of(("a", got(0, 3)), ("a", got(0, 1, ownership=2)), ("a", got(0, 2, ownership=2)))


def test_a_message_that_is_not_what_was_written() -> None:
    with pytest.raises(Broken, match="got '0:8' out of 0 at 7"):
        history_of(("a", got(0, 7, value="0:8")))


def test_what_was_never_delivered() -> None:
    history = history_of(("a", got(0, 0)), ("a", got(0, 2, ownership=2)))
    with pytest.raises(Broken, match="1 of 3 messages of 0 were never delivered: 1"):
        history.check_delivered({0: 3})


def test_two_owners_in_one_generation() -> None:
    history = history_of(("a", gained([0], 4, 1.0)), ("b", gained([0], 4, 9.0)))
    with pytest.raises(Broken, match="two owners in a generation"):
        history.check_owners()


def test_an_owner_that_heard_of_a_later_generation_owned_it_then_too() -> None:
    history = history_of(("a", gained([0], 4, 1.0)), ("a", gained([1], 6, 2.0)), ("b", gained([0], 6, 9.0)))
    with pytest.raises(Broken, match="partition 0 has two owners in a generation"):
        history.check_owners()


def test_an_owner_that_slept_heard_of_nothing() -> None:
    lost = {"change": "lost", "partitions": [0], "generation": 7, "at": 9.0}
    history_of(("a", gained([0], 4, 1.0)), ("b", gained([0], 6, 8.0)), ("a", lost)).check_owners()


def test_a_former_owner_that_was_heard() -> None:
    history = history_of(
        ("a", gained([0], 1, 1.0)), ("b", gained([0], 2, 5.0)), ("a", committed(0, 4.9)), ("a", committed(0, 5.1))
    )
    with pytest.raises(Broken, match=r"a commit of a to 0 at 5\.1 was accepted"):
        history.check_owners()


def test_a_commit_that_failed_for_another_reason() -> None:
    with pytest.raises(Broken, match="failed: CommitFailed"):
        history_of(("a", committed(0, 1.0, "CommitFailed")))


def test_changes_that_make_no_sense() -> None:
    with pytest.raises(Broken, match="gained 0 twice"):
        history_of(("a", gained([0], 1, 1.0)), ("a", gained([0], 2, 2.0)))
    with pytest.raises(Broken, match="which it did not own"):
        history_of(("a", released([0], 1, 1.0)))
    with pytest.raises(ValueError, match="a wrote"):
        history_of(("a", {"nonsense": 1}))
