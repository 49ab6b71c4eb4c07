"""What glances come to; and one at a process that is stopped."""

import os
import signal
import subprocess
import sys

from headrace.lab.readings.glances import Glance, Queues, parse_state, seen, thread_states
from headrace.lab.readings.sockets import Waiting

NOTHING = Waiting(0, 0)


def test_shares_are_of_the_glances_in_which_one_was_there() -> None:
    found = seen(
        [
            Glance({1: {1: "T"}, 2: {2: "S", 3: "D"}}, Queues(Waiting(10, 0), NOTHING)),
            Glance({1: {1: "T"}, 2: {2: "S", 3: "D"}}, Queues(Waiting(10, 0), Waiting(0, 40))),
            Glance({1: {1: "R"}, 2: {2: "S"}}),
            Glance({1: {1: "S"}, 2: {2: "t"}}, Queues(NOTHING, NOTHING)),
            Glance({}, Queues(NOTHING, NOTHING)),
        ]
    )
    assert found.stopped == {1: 0.5, 2: 0.0}  # One that is traced is not stopped.
    assert found.on_disk == {3: 1.0}
    assert (found.client_unsent_bytes, found.broker_unread_bytes) == (5.0, 10.0)
    assert (found.underway_share, found.unread_share) == (0.25, 0.25)


def test_bytes_wait_on_the_way_only_where_the_other_end_is_seen_too() -> None:
    found = seen([Glance({}, Queues(Waiting(10, 0), None)), Glance({}, Queues(Waiting(10, 0), NOTHING))])
    assert (found.underway_share, found.unread_share, found.broker_unread_bytes) == (0.5, 0.0, 0.0)


def test_no_glance_saw_nothing() -> None:
    assert seen([]).underway_share == 0.0


def test_a_command_may_have_any_name() -> None:
    assert parse_state("12 (a ) S (b) D 1 12 12") == "D"


def test_a_stopped_process_is_seen_to_be() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert thread_states(child.pid)[child.pid] == "T"
        child.send_signal(signal.SIGCONT)
        child.kill()
    assert thread_states(child.pid) == {}
