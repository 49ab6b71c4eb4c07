"""A job on Spark, from a driver that has other things to look at meanwhile."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JNetworkError

# What calls of a JVM raise that is not there any more.
GONE: Final = (Py4JNetworkError, OSError, EOFError)


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Spark takes Ctrl-C for itself when it begins; whoever had it before may have more to do than to stop."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def last_words(error: Exception) -> str:
    """The line of a long story in which Python said what was wrong."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    told = [
        line for line in lines if line and not line.startswith(("at ", "File ", "Traceback", "Driver stack", "..."))
    ]
    named = [line for line in told if line.partition(":")[0].endswith(("Error", "Exception", "Failed"))]
    return (named or told or [type(error).__name__])[-1 if named else 0]
