"""Waiting for what will soon be so, and saying what was not."""

import time
from collections.abc import Callable


def wait_until(is_so: Callable[[], bool], what: str = "what was waited for", *, timeout_s: float = 10) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.01)
