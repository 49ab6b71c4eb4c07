"""A meter around a step of known cost."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.lab.readings import meter, process_tree
from headrace.lab.readings.machine import MachineCpu
from headrace.lab.readings.meter import Meter

CHILD = """
import sys, time
print("up", flush=True)
sys.stdin.readline()
end_s = time.process_time() + 0.3
while time.process_time() < end_s: pass
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_named_process_is_charged_for_what_it_did() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        with Meter(child=child.pid) as found:
            child.stdin.write(b"\n")
            child.stdin.flush()
            assert child.stdout.readline() == b"done\n"
        child.stdin.close()
    assert 0.25 <= found.cpu_s["child"] < 5
    assert found.seconds >= 0.3


def test_the_others_are_what_neither_the_named_nor_this_process_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds of two cores: the named took six, we one, the host two, and eleven were busy in all."""

    def one_after_the_other(*values: object) -> object:
        given: Iterator[object] = iter(values)
        return lambda *_: next(given)

    monkeypatch.setattr(meter, "monotonic", one_after_the_other(100.0, 110.0))
    monkeypatch.setattr(meter, "cores", lambda: 2)
    monkeypatch.setattr(meter, "_own_cpu_s", one_after_the_other(5.0, 6.0))
    monkeypatch.setattr(process_tree, "cpu_s", one_after_the_other(1.0, 7.0))
    monkeypatch.setattr(MachineCpu, "now", one_after_the_other(MachineCpu(50.0, 3.0), MachineCpu(61.0, 5.0)))
    with Meter(spark=1) as found:
        pass
    assert (found.cpu_s, found.seconds) == ({"spark": 6.0}, 10.0)
    assert found.shares == {"others_cpu_share": pytest.approx(4 / 20), "steal_share": pytest.approx(2 / 20)}
