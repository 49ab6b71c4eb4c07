"""The program at the other end of the control socket: it does as it is told until nobody is there to tell it.

`python -m headrace.testing.inside.main` serves the socket that is its standard input. With `--spawn`, it serves nothing
itself: everything is imported once, and for each socket that it is handed it forks a process that serves that. So a
broker is ready in the time that a fork takes.

When the test dies, however it does, its end of the socket is closed; then the broker ends as well, and takes temporary
data with it.
"""

import asyncio
import gc
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

from headrace.errors import ApiError, HeadraceError
from headrace.server.logs import EventLog
from headrace.testing.inside.commands import Commands
from headrace.testing.messages import FORK, LENGTH, SPAWN_REPLY, SPAWN_REQUEST, Answer, Request, pack, unpack


def serve(
    sock: socket.socket,
    write_log: Callable[[str], object],
    *,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    """Serve one control socket to its end, on a loop of this thread's own.

    By default it is Python's: uvloop keeps a pipe for the rest of the process's life, and no debugger sees into it.
    """
    with sock, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_Session(sock, write_log).run())


class _Session:
    def __init__(self, sock: socket.socket, write_log: Callable[[str], object]) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._events = EventLog(write_log)
        self._commands = Commands(write_log)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        fault: asyncio.Future[NoReturn] = loop.create_future()
        loop.set_exception_handler(lambda _, context: self._on_exception(context, fault))
        obeying = asyncio.ensure_future(self._obey())
        try:
            await asyncio.wait((obeying, fault), return_when=asyncio.FIRST_COMPLETED)
            if fault.done():
                obeying.cancel()
                fault.result()
            await obeying
            data = self._commands.temporary_data
            await self._commands.abandon()
            if data is not None:
                shutil.rmtree(data, ignore_errors=True)
        finally:
            fault.cancel()
            await self._commands.abandon()

    def _on_exception(self, context: dict[str, Any], fault: "asyncio.Future[NoReturn]") -> None:
        """A mistake of the broker's own, outside any connection: it ends, as `headrace serve` does."""
        error = context.get("exception") or RuntimeError(context["message"])
        self._events.error("unexpected", what=context["message"], error=error)
        if not fault.done():
            fault.set_exception(error)

    async def _obey(self) -> None:
        """Until the test is gone."""
        loop = asyncio.get_running_loop()
        while (head := await self._receive(LENGTH.size)) is not None:
            body = await self._receive(LENGTH.unpack(head)[0])
            if body is None:
                return
            answer = pack(await self._answer(unpack(body)))
            try:
                await loop.sock_sendall(self._socket, answer)
            except ConnectionError:
                return

    async def _answer(self, request: Request) -> Answer:
        try:
            return Answer(await getattr(self._commands, request.command)(**request.arguments))
        except ApiError as error:
            return Answer(error=str(error), code=error.code)
        except (HeadraceError, OSError) as error:
            return Answer(error=str(error))
        except Exception:
            return Answer(error=traceback.format_exc())

    async def _receive(self, size: int) -> bytes | None:
        """None where the test is gone."""
        received = bytearray()
        while len(received) < size:
            try:
                data = await asyncio.get_running_loop().sock_recv(self._socket, size - len(received))
            except ConnectionError:
                return None
            if not data:
                return None
            received += data
        return bytes(received)


# --- As a program ---------------------------------------------------------------------------------------------

_SPAWN_DESCRIPTORS: Final = 2  # Control socket and log.


def spawn(sock: socket.socket) -> None:
    """Fork a server for each control socket that comes, and reap it when asked to."""
    _load_everything()
    gc.collect()
    gc.freeze()  # So that the collector of one does not copy the pages of all.
    while True:
        request, descriptors, _, _ = socket.recv_fds(sock, SPAWN_REQUEST.size, _SPAWN_DESCRIPTORS)
        if len(request) < SPAWN_REQUEST.size:
            return
        operation, pid, patience_s = SPAWN_REQUEST.unpack(request)
        if operation == FORK:
            control, log = descriptors
            reply = os.fork()
            if reply == 0:
                sock.close()
                os.dup2(log, 2)
                os.close(log)
                _serve_and_exit(control)
            os.close(control)
            os.close(log)
        else:
            reply = _reap(pid, patience_s)
        sock.sendall(SPAWN_REPLY.pack(reply))


def _reap(pid: int, patience_s: float) -> int:
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _load_everything() -> None:
    """What is imported only where it is needed, and is needed by every broker."""
    import headrace.node.handlers
    import headrace.server.cachestat  # noqa: F401

    with suppress(ImportError):
        import uvloop  # noqa: F401


def _serve_and_exit(control: int) -> NoReturn:
    status = 0
    try:
        serve(socket.socket(fileno=control), _write_log, new_loop=_fastest_loop)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    # Nothing is left to do, and taking an interpreter apart takes longer than starting a broker.
    os._exit(status)


def _fastest_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _write_log(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def main() -> None:
    standard_input = 0
    if "--spawn" in sys.argv:
        spawn(socket.socket(fileno=standard_input))
    else:
        _serve_and_exit(standard_input)


if __name__ == "__main__":
    main()
