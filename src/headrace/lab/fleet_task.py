"""One member of a fleet: what runs on an executor, as a task of Spark. The driver's end of it is `fleet`."""

import importlib
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from headrace.lab.child import Pipe, serve

_REACH_S: Final = 20.0


def run_task(
    orders: Iterator[tuple[int, Mapping[str, Any]]], *, module: str, host: str, port: int, password: str
) -> Iterator[bool]:
    """What a process with this module would do, once all tasks of the stage are there; whether it came to its end."""
    from pyspark import BarrierTaskContext

    ((number, order),) = orders
    run = importlib.import_module(module).run
    BarrierTaskContext.get().barrier()
    with socket.create_connection((host, port), timeout=_REACH_S) as driver:
        driver.settimeout(None)
        descriptor = driver.fileno()
        with (
            open(descriptor, "rb", buffering=0, closefd=False) as incoming,
            open(descriptor, "wb", closefd=False) as outgoing,
        ):
            pipe = Pipe(incoming, outgoing, heard=order)
            pipe.say({"password": password, "number": number, "pid": os.getpid()})
            is_done = serve(run, pipe)
        _part(driver)
    yield is_done


def _part(driver: socket.socket) -> None:
    """Not before the other end has: TCP throws away what was said last if one hangs up on what was not heard yet."""
    with suppress(OSError):
        driver.shutdown(socket.SHUT_WR)
        while driver.recv(4096):
            pass
