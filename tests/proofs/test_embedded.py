"""The proof of embedded brokers finds what a broker might leave behind, and a broker that is slow."""

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headrace.testing import Broker
from tests.proofs import embedded
from tests.proofs.proof import Slice
from tests.proofs.run import PROOFS


def test_a_few_starts(tmp_path: Path) -> None:
    facts = embedded.run(Slice(range(6), is_full=False, scratch=tmp_path))
    assert facts["starts"] == 6
    for what in ("ready", "clear"):
        assert {f"{what}_ms_{way}_median_max" for way in embedded.WAYS} <= set(facts)


def test_the_share_of_ci_has_memory_to_look_at() -> None:
    (proof,) = (proof for proof in PROOFS if proof.name == "embedded")
    assert proof.ci >= 2 * embedded.WARM_STARTS


@pytest.mark.parametrize("planted", ["descriptor", "thread", "file", "child"])
def test_what_is_left_behind_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    close, go = Broker.close, threading.Event()
    sockets: list[socket.socket] = []
    children: list[subprocess.Popen[bytes]] = []

    def close_but_one(broker: Broker) -> None:
        close(broker)
        if planted == "descriptor":
            sockets.append(socket.socket())
        elif planted == "thread":
            threading.Thread(target=go.wait).start()
        elif planted == "child":
            children.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        else:
            (tmp_path / f"left-{len(list(tmp_path.iterdir()))}").touch()

    monkeypatch.setattr(Broker, "close", close_but_one)
    try:
        with pytest.raises(AssertionError, match="left"):
            embedded.run(Slice(range(3), is_full=False, scratch=tmp_path))
    finally:
        go.set()
        for one in sockets:
            one.close()
        for child in children:
            child.kill()
            child.wait()


# Threads with little in them, quick to start, as many as CI starts. That nothing is found where nothing is lost, its
# share of the proof tests.
def test_memory_that_is_lost_with_each_start_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close, lost = Broker.close, list[bytes]()

    def close_and_lose(broker: Broker) -> None:
        close(broker)
        lost.append(random.randbytes(5_000))

    monkeypatch.setattr(embedded, "WAYS", ("thread",))
    monkeypatch.setattr(embedded, "fill", lambda broker: None)
    monkeypatch.setattr(Broker, "close", close_and_lose)
    work = Slice(range(2 * embedded.WARM_STARTS), is_full=False, scratch=tmp_path)
    with pytest.raises(AssertionError, match=r"each of 30 starts left \d"):
        embedded.run(work)


@pytest.mark.parametrize("lose", [lambda: random.randbytes(1_000), lambda: [None]], ids=["1 kB", "an object"])
def test_a_little_that_is_lost_with_each_start_is_found(
    monkeypatch: pytest.MonkeyPatch, lose: Callable[[], object]
) -> None:
    close, lost = Broker.close, list[object]()

    def close_and_lose(broker: Broker) -> None:
        close(broker)
        lost.append(lose())

    monkeypatch.setattr(embedded, "fill", lambda broker: None)
    monkeypatch.setattr(Broker, "close", close_and_lose)
    with pytest.raises(AssertionError, match="10 starts by thread left"):
        embedded.check_traced("thread", partial(Broker, in_thread=True))


@pytest.mark.parametrize(
    ("samples_kb", "growth_kb"),
    [
        ([100] * 30, 0),
        ([100] * 5 + [900] * 25, 0),  # Memory that is taken once is not lost with each start,
        ([100] * 15 + [900] * 15, 0),  # whenever that is.
        ([100] * 10 + [500] * 10 + [900] * 10, 0),
        ([100 + 5 * start for start in range(30)], 5),
        ([100 + 15 * (start // 3) for start in range(30)], 5),  # One way of three leaks.
        ([100 + 20 * (start // 4) for start in range(30)], 5),  # A page at a time.
        ([100 + 5 * start + 500 * (start % 2) for start in range(30)], 5),  # And the allocator is restless.
    ],
)
def test_growth_is_what_each_start_adds(samples_kb: list[int], growth_kb: float) -> None:
    assert embedded.growth_per_step(samples_kb) == pytest.approx(growth_kb, abs=0.5)


def test_a_slow_clearing_fails_the_whole_proof_and_no_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clear = Broker.clear

    def clear_slowly(broker: Broker) -> None:
        clear(broker)
        time.sleep(embedded.CLEAR_MS_MAX / 1000)

    monkeypatch.setattr(Broker, "clear", clear_slowly)
    monkeypatch.setattr(embedded, "READY_MS_MAX", {})  # A busy machine is not what this is about.
    embedded.run(Slice(range(3), is_full=False, scratch=tmp_path))
    with pytest.raises(AssertionError, match=r"clear ms .* not below 10"):
        embedded.run(Slice(range(3), is_full=True, scratch=tmp_path))


@pytest.mark.parametrize(
    ("name", "slow_ms"), [("ready_ms_process_median_max", 400.0), ("ready_ms_fork_median_max", 50.0)]
)
def test_a_slow_start_is_found(name: str, slow_ms: float) -> None:
    quick = {f"{what}_ms_{way}_median_max": 1.0 for what in ("ready", "clear") for way in embedded.WAYS}
    embedded.check_times({**quick})
    with pytest.raises(AssertionError, match="not below"):
        embedded.check_times({**quick, name: slow_ms})
