"""When a periodic commit is due. The time is an argument."""


class CommitPace:
    """Every so many seconds from the first; a period that was missed is not made up for."""

    def __init__(self, every_s: float | None, *, now_s: float) -> None:
        """None: never."""
        assert every_s is None or every_s > 0
        self._every_s = every_s
        self._due_s = None if every_s is None else now_s + every_s

    def is_due(self, now_s: float) -> bool:
        """Whether one is due; if so, the next one is due a period later."""
        if self._due_s is None or now_s < self._due_s:
            return False
        assert self._every_s is not None
        self._due_s += self._every_s
        if self._due_s <= now_s:
            self._due_s = now_s + self._every_s
        return True
