"""What goes wrong in the lab."""

from headrace.errors import HeadraceError


class LabError(HeadraceError):
    """A run that could not be done. The text is for the person who asked."""
