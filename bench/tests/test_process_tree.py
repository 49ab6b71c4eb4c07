"""Readings from /proc, of processes whose cost is known."""

import os
import subprocess
import sys

from bench import process_tree
from bench.process_tree import Sample, Sampler

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
        assert 0 < process_tree.cpu_s(parent.pid) < 60
        assert 0 < process_tree.age_s(parent.pid) < 60
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
    sampler = Sampler(os.getpid())
    sampler._samples[:] = [Sample(100, 1.0, 1000), Sample(200, 3.0, 2000)]
    assert sampler.at(150) == Sample(150, 2.0, 1500)
    assert (sampler.at(50).cpu_s, sampler.at(900).cpu_s) == (1.0, 3.0)
