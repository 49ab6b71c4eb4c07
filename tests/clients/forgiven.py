"""What a client does while its broker is away, and a test must not be blamed for."""

import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refused_connections_forgiven() -> Iterator[None]:
    """kafka-python leaves a socket to the collector for each refused attempt, and a log record that holds on to it.

    Without the records, which pytest would keep, the sockets can be collected here, where nobody takes offence.
    """
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            yield
            gc.collect()
    finally:
        logging.disable(logging.NOTSET)
