"""What goes wrong in the lab."""

from headrace.errors import HeadraceError


class LabError(HeadraceError):
    """A run that could not be done. The text is for the person who asked."""


class NotMeasurableHere(LabError):
    """What was asked for takes something that this machine has not: no failure, and no result either."""

    exit_status = 3  # Of a command: neither done nor failed.

    def __init__(self, reason: str) -> None:
        super().__init__(f"not measurable here: {reason}")
        self.reason = reason
