"""Where tasks report for duty, without Spark: who is let in, in which order, and what is said of a job that failed."""

import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack

import pytest

from headrace.lab.child import Pipe
from headrace.lab.errors import LabError
from headrace.lab.fleet import Job, Muster, Stage, TaskMember


@pytest.fixture
def muster() -> Iterator[Muster]:
    made = Muster("127.0.0.1")
    yield made
    made.close()


@pytest.fixture
def callers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def call(muster: Muster, callers: ExitStack, said: bytes) -> socket.socket:
    caller = callers.enter_context(socket.create_connection(("127.0.0.1", muster.port), timeout=10))
    caller.sendall(said + b"\n")
    return caller


def greeting(muster: Muster, number: int) -> bytes:
    return json.dumps({"password": muster.password, "number": number, "pid": 100 + number}).encode()


def gather(muster: Muster, count: int, *, is_here: bool = True) -> list[TaskMember]:
    job: Job = Future()
    return muster.gather(count, job, is_here=is_here)


def end(members: list[TaskMember]) -> None:
    job: Job = Future()
    job.set_result([])
    Stage(members, job, lambda: None).end()


def test_tasks_are_in_the_order_of_their_orders_however_they_come(muster: Muster, callers: ExitStack) -> None:
    for number in (1, 0):
        call(muster, callers, greeting(muster, number))
    members = gather(muster, 2)
    assert [member.pid for member in members] == [100, 101]
    end(members)


def test_of_another_machine_no_process_is_known(muster: Muster, callers: ExitStack) -> None:
    call(muster, callers, greeting(muster, 0))
    members = gather(muster, 1, is_here=False)
    assert members[0].pid is None
    end(members)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1",
        b"{}",
        b"[]",
        b'{"password": 7, "number": 0, "pid": 1}',
        b'{"password": "x", "number": 0, "pid": 1}',
    ],
)
def test_a_stranger_is_hung_up_on(muster: Muster, callers: ExitStack, said: bytes) -> None:
    stranger = call(muster, callers, said)
    call(muster, callers, greeting(muster, 0))
    end(gather(muster, 1))
    assert stranger.recv(10) == b""


def test_both_ends_speak_in_lines(muster: Muster, callers: ExitStack) -> None:
    caller = call(muster, callers, greeting(muster, 0))
    (member,) = gather(muster, 1)
    descriptor = caller.fileno()
    incoming = callers.enter_context(os.fdopen(os.dup(descriptor), "rb", buffering=0))
    pipe = Pipe(incoming, callers.enter_context(os.fdopen(os.dup(descriptor), "wb")), heard={"order": 1})
    assert pipe.hear() == {"order": 1}  # It has come Spark's way.
    member.say({"start_utc_ns": 5})
    assert pipe.hear() == {"start_utc_ns": 5}
    pipe.say({"ready": True})
    assert member.hear() == [{"ready": True}]
    end([member])
    with pytest.raises(EOFError):
        pipe.hear()


def test_a_job_that_fails_before_all_have_come_is_not_waited_for(muster: Muster) -> None:
    job: Job = Future()
    job.set_exception(RuntimeError("no room"))
    with pytest.raises(RuntimeError, match="no room"):
        muster.gather(2, job, is_here=True)


def test_a_job_that_ends_without_its_tasks_is_an_error_too(muster: Muster) -> None:
    job: Job = Future()
    job.set_result([])
    with pytest.raises(LabError, match="before they had begun"):
        muster.gather(2, job, is_here=True)
