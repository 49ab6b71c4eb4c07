"""Values that come later."""

import pytest

from headrace.node.later import Later, gather, resolved


def test_the_watcher_gets_the_value_when_it_comes() -> None:
    later: Later[int] = Later()
    seen: list[int] = []
    later.then(seen.append)
    assert seen == []
    later.resolve(7)
    assert seen == [7]


def test_or_at_once_if_it_has_come() -> None:
    seen: list[int] = []
    resolved(7).then(seen.append)
    assert seen == [7]


def test_it_comes_once_and_to_one() -> None:
    later = resolved(7)
    with pytest.raises(AssertionError):
        later.resolve(8)
    later.then(lambda value: None)
    with pytest.raises(AssertionError):
        later.then(lambda value: None)


def test_none_is_a_value() -> None:
    seen: list[None] = []
    later: Later[None] = Later()
    later.resolve(None)
    later.then(seen.append)
    assert seen == [None]


def test_a_changed_value_comes_when_the_first_does() -> None:
    later: Later[int] = Later()
    seen: list[str] = []
    later.map(str).map(lambda text: text * 2).then(seen.append)
    later.resolve(7)
    assert seen == ["77"]


def test_hurrying_a_changed_value_hurries_the_first() -> None:
    later: Later[int] = Later(hurry=lambda: later.resolve(7), held_bytes=100)
    changed = later.map(str)
    seen: list[str] = []
    changed.then(seen.append)
    assert changed.held_bytes == 100
    assert changed.hurry is not None
    changed.hurry()
    assert seen == ["7"]
    # What has come cannot be hurried, and whoever made it is not kept alive by it.
    assert later.hurry is None
    assert changed.hurry is None


def test_gathered_values_keep_their_order() -> None:
    laters: list[Later[int]] = [Later() for _ in range(3)]
    seen: list[list[int]] = []
    gather(laters).then(seen.append)
    for index in (2, 0):
        laters[index].resolve(index)
    assert seen == []
    laters[1].resolve(1)
    assert seen == [[0, 1, 2]]


def test_nothing_is_gathered_at_once() -> None:
    seen: list[list[int]] = []
    gather([]).then(seen.append)
    assert seen == [[]]
