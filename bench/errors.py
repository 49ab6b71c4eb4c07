"""What can go wrong in a measurement without being anyone's bug here."""


class LoadError(Exception):
    """A load did not do all of its work, or a broker did not answer; the text says which and why."""
