"""What the members of a group wrote down, held against what they were promised.

- Within one ownership a partition's messages come in order and without a gap, each as it was written.
- In no generation of the group does a partition have two owners.
- A commit is not accepted from whom another has followed as owner before it was sent.
- Everything is delivered to somebody.

Plain values: events go in, one at a time and per member in the order they were written; what is wrong raises.
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any


class Broken(AssertionError):
    """A promise that was not kept."""


@dataclass(slots=True)
class Tenure:
    """One member's time as the owner of a partition."""

    member: str
    since_s: float
    generation_first: int
    generation_last: int  # As far as the member knows.


@dataclass(slots=True)
class History:
    delivered: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    deliveries: int = 0
    commits_accepted: int = 0
    commits_refused: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))  # By member.
    tried: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # Likewise, as ordered.
    generation_max: int = 0
    _last: dict[tuple[str, int, int], int] = field(default_factory=dict)  # By member, partition and ownership.
    _tenures: defaultdict[int, list[Tenure]] = field(default_factory=lambda: defaultdict(list))
    _owned: defaultdict[str, dict[int, Tenure]] = field(default_factory=lambda: defaultdict(dict))
    _accepted: list[tuple[str, int, float]] = field(default_factory=list)  # Member, partition, when it was sent.

    def feed(self, member: str, event: dict[str, Any]) -> None:
        match event:
            case {"change": change, "partitions": partitions, "generation": generation, "at": at_s}:
                self._change(member, change, partitions, generation, at_s)
            case {"ownership": ownership, "partition": partition, "offset": offset, "value": value}:
                self._deliver(member, partition, ownership, offset, value)
            case {"sent": sent_s, "partition": partition, "error": error}:
                self._commit(member, partition, sent_s, error)
            case {"tried": commits}:
                self.tried[member].append(commits)
            case _:
                raise ValueError(f"{member} wrote {event}")

    def owners(self) -> dict[int, str]:
        """Who owns each partition as far as the members know; the newest, where a former owner has not noticed."""
        newest: dict[int, tuple[float, str]] = {}
        for member, tenures in self._owned.items():
            for partition, tenure in tenures.items():
                newest[partition] = max(newest.get(partition, (0.0, "")), (tenure.since_s, member))
        return {partition: member for partition, (_, member) in newest.items()}

    def has_read(self, member: str) -> bool:
        return any(reader == member for reader, _, _ in self._last)

    def forget(self, member: str) -> None:
        """It is dead."""
        self._owned.pop(member, None)

    def check_owners(self) -> None:
        """To be asked when every member's events are in: only then is it known who came before whom."""
        for partition, tenures in self._tenures.items():
            tenures.sort(key=lambda tenure: (tenure.generation_first, tenure.since_s))
            for one, next_ in itertools.pairwise(tenures):
                if one.generation_last >= next_.generation_first:
                    raise Broken(f"partition {partition} has two owners in a generation: {one} and {next_}")
        for member, partition, sent_s in self._accepted:
            before = [tenure for tenure in self._tenures[partition] if tenure.since_s < sent_s]
            last = max(before, key=lambda tenure: tenure.since_s, default=None)
            if last is None or last.member != member:
                raise Broken(f"a commit of {member} to {partition} at {sent_s} was accepted, and the owner is {last}")

    def check_delivered(self, counts: dict[int, int]) -> None:
        for partition, count in counts.items():
            missing = set(range(count)) - self.delivered[partition]
            if missing:
                raise Broken(f"{len(missing)} of {count} messages of {partition} were never delivered: {min(missing)}")

    @property
    def repeated(self) -> int:
        return self.deliveries - sum(map(len, self.delivered.values()))

    def _change(self, member: str, change: str, partitions: list[int], generation: int, at_s: float) -> None:
        owned = self._owned[member]
        self.generation_max = max(self.generation_max, generation)
        if change != "lost":  # Who lost its partitions knows of no generation in which it had them.
            for tenure in owned.values():
                tenure.generation_last = max(tenure.generation_last, generation)
        for partition in partitions:
            if change == "gained":
                if partition in owned:
                    raise Broken(f"{member} gained {partition} twice")
                owned[partition] = Tenure(member, at_s, generation, generation)
                self._tenures[partition].append(owned[partition])
            elif owned.pop(partition, None) is None:
                raise Broken(f"{member} {change} {partition}, which it did not own")

    def _deliver(self, member: str, partition: int, ownership: int, offset: int, value: str) -> None:
        if value != f"{partition}:{offset}":
            raise Broken(f"{member} got {value!r} out of {partition} at {offset}")
        last = self._last.get((member, partition, ownership))
        if last is not None and offset != last + 1:
            raise Broken(f"{member} got {offset} of partition {partition} after {last}")
        self._last[member, partition, ownership] = offset
        self.delivered[partition].add(offset)
        self.deliveries += 1

    def _commit(self, member: str, partition: int, sent_s: float, error: str | None) -> None:
        if error is None:
            self.commits_accepted += 1
            self._accepted.append((member, partition, sent_s))
        elif error == "NotOwner":
            self.commits_refused[member] += 1
        else:
            raise Broken(f"a commit of {member} to {partition} failed: {error}")
