"""Whether consumers got what was there for them, and where they did not, whether that is for a reason that is known.

Each group is to get every message that was acknowledged. Groups are compared one by one: what one got twice, after a
rebalance, makes up for nothing that another has not got. A group that stopped short without a reason (stuck in a
rebalance, or its messages are lost) has no rate that anybody should believe.

Decides from numbers, and asks nobody, except when somebody is short how many messages are deleted by then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.lab.load import Load

_RESET: Final = "auto.offset.reset"
_AT_THE_END: Final = frozenset({"largest", "latest", "end"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    got: int  # By all groups, and of each no more than there was.
    of: int
    unconsumed: int  # Of one group in the mean; without those that it was told to leave out.
    excuse: str | None  # None where consumers should have got them.

    def __str__(self) -> str:
        told = f"consumers got {self.got:,} of {self.of:,} messages"
        return told if self.excuse is None else f"{told}: {self.excuse}"


def may_lose(load: Load, *, brokers: int) -> bool:
    """Whether a replica may lead that has not got what was acknowledged. Where there is one replica none does: a broker
    that was killed has its log when it is started again."""
    is_killed = any(fault.kind == "kill" for fault in load.faults)
    return load.terms.acks == "1" and is_killed and (load.replication or brokers) > 1


def find_shortfall(
    totals: Sequence[int],
    delivered: int,
    *,
    is_acknowledged: bool,
    may_lose: bool = False,
    settings: Mapping[str, str],
    count_deleted: Callable[[], int],
) -> Shortfall | None:
    """Of what each group got; None where every one got all. `may_lose` is where a leader that was killed may have had
    some alone, `settings` are the consumers', `count_deleted` says how many the topic has lost to its retention."""
    shortest = min(totals, default=delivered)
    if shortest >= delivered:
        return None
    got, of = sum(min(each, delivered) for each in totals), delivered * len(totals)
    unconsumed = -(-(of - got) // len(totals))
    excuse = None
    if settings.get(_RESET) in _AT_THE_END:
        excuse, unconsumed = f"they begin where the log ends ({_RESET})", 0
    elif not is_acknowledged:
        excuse = "of the others nobody knows whether they arrived, with acks=0"
    elif may_lose:
        excuse = "acks=1 lets what a leader alone had be lost with it, and a broker was killed"
    elif (deleted := count_deleted()) >= delivered - shortest:
        excuse = f"the topic's retention had deleted {deleted:,}"
    return Shortfall(got=got, of=of, unconsumed=unconsumed, excuse=excuse)
