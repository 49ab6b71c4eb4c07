"""Records that could not be sent, by reason: each reason is told once, and how often in the end."""

from collections import Counter
from collections.abc import Callable

from headrace.errors import HeadraceError


class RecordsNotSent(HeadraceError):
    """Some were not; the summary of those that were has been printed."""


class Failures:
    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._untold: list[str] = []
        self._counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        """Tells nothing yet: the client library calls this, and would lose an error of whoever listens."""
        if reason not in self._counts:
            self._untold.append(reason)
        self._counts[reason] += 1

    def tell(self) -> None:
        while self._untold:
            self._tell(f"not sent: {self._untold.pop(0)}")

    def check(self) -> None:
        if self._counts:
            reasons = "; ".join(f"{count} x {reason}" for reason, count in self._counts.most_common())
            raise RecordsNotSent(f"{self._counts.total()} records were not sent: {reasons}")
