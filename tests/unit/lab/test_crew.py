"""A squad whose members are in several places."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import pytest

from headrace.lab.crew import Apart
from headrace.lab.errors import LabError


class Place:
    """A crew, its only squad, and who was begun there."""

    def __init__(self, where: str, *, is_open: bool = True) -> None:
        self.where = where
        self._is_open = is_open
        self.members: list[Any] = []
        self.ended = 0

    def begin(self, module: str, orders: Sequence[Mapping[str, Any]]) -> Self:
        if not self._is_open:
            raise LabError("closed")
        self.members = [f"{module} {order['index']} {self.where}" for order in orders]
        return self

    def end(self) -> None:
        self.ended += 1


def test_each_order_goes_to_its_own_place() -> None:
    here, there = Place("here"), Place("there")
    crew = Apart([here, there])
    squad = crew.begin("sender", [{"index": 0}, {"index": 1}])
    assert [*squad.members] == ["sender 0 here", "sender 1 there"]
    assert crew.where == "here and there"
    squad.end()
    assert (here.ended, there.ended) == (1, 1)


def test_several_in_one_place_are_named_once() -> None:
    assert Apart([Place("there"), Place("there")]).where == "there"


def test_one_that_cannot_begin_leaves_none() -> None:
    here = Place("here")
    with pytest.raises(LabError, match="closed"):
        Apart([here, Place("there", is_open=False)]).begin("sender", [{"index": 0}, {"index": 1}])
    assert here.ended == 1
