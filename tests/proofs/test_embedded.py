"""The proof of embedded brokers finds what a broker might leave behind."""

import socket
import threading
from pathlib import Path

import pytest

from headrace.testing import Broker
from tests.proofs import embedded
from tests.proofs.proof import Slice


def test_a_few_starts(tmp_path: Path) -> None:
    facts = embedded.run(Slice(range(6), is_full=False, scratch=tmp_path))
    assert facts["starts"] == 6
    assert {f"ready_ms_{way}_median_max" for way in embedded.WAYS} <= set(facts)


@pytest.mark.parametrize("planted", ["descriptor", "thread", "file"])
def test_what_is_left_behind_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    close, left, go = Broker.close, [], threading.Event()

    def close_but_one(broker: Broker) -> None:
        close(broker)
        if planted == "descriptor":
            left.append(socket.socket())
        elif planted == "thread":
            threading.Thread(target=go.wait).start()
        else:
            (tmp_path / f"left-{len(list(tmp_path.iterdir()))}").touch()

    monkeypatch.setattr(Broker, "close", close_but_one)
    try:
        with pytest.raises(AssertionError, match="left"):
            embedded.run(Slice(range(3), is_full=False, scratch=tmp_path))
    finally:
        go.set()
        for one in left:
            one.close()
