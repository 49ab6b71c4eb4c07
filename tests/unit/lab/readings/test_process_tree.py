"""Readings from /proc, of processes whose cost is known."""

import os
import socket
import subprocess
import sys

from headrace.lab.readings import process_tree
from headrace.lab.readings.process_tree import Course, Sample, Thread

PARENT_WITH_CHILD = """
import subprocess, sys
ballast = bytearray(50_000_000)
child = subprocess.Popen([sys.executable, "-c", "b = bytearray(70_000_000); print('up', flush=True); input()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
input()
child.communicate(b"\\n")
"""


def test_a_tree_counts_its_children() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT_WITH_CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    try:
        assert parent.stdout.readline() == b"ready\n"
        assert process_tree.resident_bytes(parent.pid) > 120_000_000
        assert process_tree.peak_bytes(parent.pid) > 120_000_000
        root, child = process_tree.peaks(parent.pid)
        assert (root.pid, root.name) == (parent.pid, child.name)
        assert 70_000_000 < child.size_bytes < process_tree.peak_bytes(parent.pid) - 50_000_000
        assert 0 < process_tree.cpu_s(parent.pid) < 60
        assert 0 < (process_tree.age_s(parent.pid) or 0) < 60
    finally:
        parent.communicate(b"\n")
    assert process_tree.resident_bytes(parent.pid) == 0


def test_the_peak_can_be_reset() -> None:
    ballast = bytearray(80_000_000)
    ballast[:] = b"x" * len(ballast)
    before = process_tree.peak_bytes(os.getpid())
    del ballast
    process_tree.reset_peak(os.getpid())
    assert process_tree.peak_bytes(os.getpid()) < before - 40_000_000


def test_samples_are_interpolated_and_never_extrapolated() -> None:
    course = Course(os.getpid())
    course._samples[:] = [Sample(100, 1.0, 1000), Sample(200, 3.0, 2000)]
    assert course.at(150) == Sample(150, 2.0, 1500)
    assert (course.at(50).cpu_s, course.at(900).cpu_s) == (1.0, 3.0)


def test_a_thread_has_run_or_waited() -> None:
    status = "Name:\trdk:main\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"
    assert process_tree.parse_thread(status, "1374228 503565630 103\n") == Thread("rdk:main", 1374228, 503565630, 15)


def test_threads_of_this_process() -> None:
    before = process_tree.threads(os.getpid())[os.getpid()]
    sum(range(1_000_000))
    after = process_tree.threads(os.getpid())[os.getpid()]
    assert after.ran_ns > before.ran_ns > 0
    assert after.switches >= before.switches
    assert process_tree.threads(2**22 - 1) == {}


def test_sockets_are_known_by_their_inodes() -> None:
    with socket.socket() as opened:
        assert os.fstat(opened.fileno()).st_ino in process_tree.sockets(os.getpid())
    assert process_tree.sockets(2**22 - 1) == set()
