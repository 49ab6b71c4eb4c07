"""The two ends of the way of messages: how busy each was, and that in words."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One end: its busiest thread, as shares of the time."""

    thread: str = ""
    ran: float = 0.0
    waited: float = 0.0  # Ready to run, without a CPU: others had it, or a limit was reached.
    stopped: float = 0.0  # Its process was, by a signal.
    on_disk: float = 0.0  # Of the thread that waited for devices most.

    @property
    def held(self) -> float:
        return min(1.0, self.waited + self.stopped)

    @property
    def demand(self) -> float:
        """All but its idle time, and its waits for others."""
        return min(1.0, self.ran + self.waited + self.stopped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """Of the machine, as shares of all of them."""

    busy: float
    others: float = 0.0  # What of it was neither the clients' nor the brokers'.
    stolen: float = 0.0  # By the host behind a virtual machine.


def side_text(who: str, side: Side) -> str:
    name = f" ({side.thread})" if side.thread else ""
    parts = [f"the {who}'s busiest thread{name} used {side.ran:.0%} of a core"]
    if side.waited >= 0.01:
        parts.append(f"was ready and without a CPU for {side.waited:.0%} of the time")
    if side.stopped >= 0.01:
        parts.append(f"was stopped for {side.stopped:.0%}")
    return " and ".join([", ".join(parts), f"had {max(0.0, 1 - side.demand):.0%} left"])


def cores_text(cores: Cores) -> str:
    others = f", {cores.others:.0%} with others' work" if cores.others >= 0.01 else ""
    stolen = f"; its host took {cores.stolen:.0%}" if cores.stolen >= 0.01 else ""
    return f"the machine's cores were busy {cores.busy:.0%} of the time{others}{stolen}"
