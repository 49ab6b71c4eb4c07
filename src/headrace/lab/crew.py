"""Who does the work of a run: members that are told what to do in lines of JSON, and tell in such lines how it goes.

What they say is that of the module that they run (`sender_process`, `consumer_process`), whatever they are: processes
on this machine, here, or tasks on somebody's cluster (`fleet`). A crew begins them in squads, whose members are there
together or not at all; whoever asked for a squad ends it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from headrace.lab.child import Child

HERE: Final = "this host"


class Member(Protocol):
    """At the other end of a pipe or a socket."""

    @property
    def pid(self) -> int | None:
        """None on another machine."""
        ...

    def fileno(self) -> int: ...
    def say(self, message: Mapping[str, Any]) -> None: ...
    def hear(self) -> list[dict[str, Any]] | None: ...
    def last_words(self) -> str: ...


class Squad(Protocol):
    @property
    def members(self) -> Sequence[Member]: ...
    def end(self) -> None: ...


class Crew(Protocol):
    @property
    def where(self) -> str:
        """For people, behind the word 'on'."""
        ...

    def begin(self, module: str, orders: Sequence[Mapping[str, Any]]) -> Squad:
        """A member for each order. LabError where that cannot be; then none is left."""
        ...


class Children:
    def __init__(self, module: str, orders: Sequence[Mapping[str, Any]], *, wrapper: Sequence[str]) -> None:
        self.members: list[Child] = []
        try:
            for order in orders:
                member = Child(module, wrapper=wrapper)
                self.members.append(member)
                member.say(order)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        for member in self.members:
            member.end()


class Processes:
    """On this machine, each by itself: threads of one process would wait for each other."""

    def __init__(self, *, wrapper: Sequence[str] = (), where: str = HERE) -> None:
        """`wrapper` is a command that becomes a process by `exec`, after putting it somewhere."""
        self._wrapper = tuple(wrapper)
        self.where = where

    def begin(self, module: str, orders: Sequence[Mapping[str, Any]]) -> Children:
        return Children(module, orders, wrapper=self._wrapper)


class Apart:
    """Members in several places."""

    def __init__(self, crews: Sequence[Crew]) -> None:
        """A crew for each member, in their order."""
        self._crews = tuple(crews)
        self.where = " and ".join(dict.fromkeys(crew.where for crew in crews))

    def begin(self, module: str, orders: Sequence[Mapping[str, Any]]) -> "Squads":
        together = Squads()
        try:
            for crew, order in zip(self._crews, orders, strict=True):
                together.add(crew.begin(module, [order]))
        except BaseException:
            together.end()
            raise
        return together


class Squads:
    """Several as one."""

    def __init__(self) -> None:
        self._squads: list[Squad] = []

    def add(self, squad: Squad) -> None:
        self._squads.append(squad)

    @property
    def members(self) -> list[Member]:
        return [member for squad in self._squads for member in squad.members]

    def end(self) -> None:
        for squad in self._squads:
            squad.end()
