"""Brokers that a test has started, as targets of the lab."""

from collections.abc import Sequence

from headrace.lab.targets.member import Member
from headrace.lab.targets.running import Target
from headrace.lab.targets.spec import TargetSpec


def target_at(
    bootstrap: str, settings: dict[str, str] | None = None, *, pids: Sequence[int] = (), metrics: Sequence[str] = ()
) -> Target:
    return Target(
        spec=TargetSpec(name=bootstrap, kind="cluster", bootstrap=bootstrap),
        settings={"bootstrap.servers": bootstrap, **(settings or {})},
        members=[Member(number, pid=pid) for number, pid in enumerate(pids)],
        metrics=metrics,
    )
