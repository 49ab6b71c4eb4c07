"""Thousands of random lives of a consumer group; `group_history` says what must hold in each."""

from collections import Counter

import pytest

from tests.property.group_history import History

BLOCKS = 20
HISTORIES = 100
STEPS = 150


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_happens_to_a_group_its_promises_hold(block: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(block * HISTORIES, (block + 1) * HISTORIES):
        history = History(seed)
        try:
            history.run(STEPS)
        except AssertionError as error:
            raise AssertionError(f"History({seed}).run({STEPS}): {error}") from error
        happened += history.happened
    # A life in which nothing happens proves nothing.
    for event in ("generation", "commit", "lost answer"):
        assert happened[event] > 2 * HISTORIES, f"too little of it: {event}"
    for event in ("commit refused", "death", "leave", "pause", "busy", "static restart", "fenced", "power failure"):
        assert happened[event] > HISTORIES // 5, f"too little of it: {event}"
    for event in ("full disk", "full group"):
        assert happened[event] > HISTORIES // 5, f"too little of it: {event}"
