"""What holds for every test."""

import gc
import os
import signal

# A Spark that lives for a minute is not worth compiling for: a fifth less of CPU time, for whoever starts one.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# What a shell runs in the background ignores SIGINT, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end: no use in looking through them with every collection of garbage.

    Tests of clients collect after each one of them, which takes a quarter of a second less this way.
    """
    gc.collect()
    gc.freeze()
