"""A bench that is told to end leaves on the way of every other end, so that its brokers and clients end with it."""

import signal
import sys
from types import FrameType


def end_in_order() -> None:
    signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
