"""The judges of a compacted partition, judged, and the monitor that watches the node meanwhile."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.clients.scenario import Message, fingerprint
from tests.interop.dumped import Dumped
from tests.interop.following import Seen
from tests.proofs import compaction, compaction_judges
from tests.proofs.compaction_judges import check_dump, check_seen
from tests.proofs.ledger import Anomaly


def message_at(offset: int) -> Message:
    return Message(b"key", b"%d" % offset, (), offset)


def shown(*offsets: int) -> list[Seen]:
    return [Seen(offset, fingerprint(message_at(offset)), 0) for offset in offsets]


def judge(seen: list[Seen]) -> None:
    check_seen(seen, message_at=message_at, next_offset=6, must_see={3, 5})


def test_what_compaction_took_may_be_missing() -> None:
    judge(shown(0, 1, 2, 3, 4, 5))
    judge(shown(3, 5))


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (shown(0, 5), "was not shown 1 records, the first at offset 3"),
        (shown(3, 2, 5), "offset 2 after 3"),
        (shown(3, 3, 5), "offset 3 after 3"),
        (shown(3, 5, 6), "at offset 6 was not written there"),
        ([Seen(3, shown(2)[0].hash, 0), *shown(5)], "at offset 3 was not written there"),
    ],
)
def test_what_a_consumer_may_not_be_shown(seen: list[Seen], complaint: str) -> None:
    with pytest.raises(Anomaly, match=complaint):
        judge(seen)


@pytest.mark.parametrize(
    ("offsets", "complaints", "complaint"),
    [
        ([1, 3], [], None),
        ([1, 2, 3], [], None),
        ([1], [], "does not find 1 last values, the first at 3"),
        ([1, 3, 4], [], "1 records that the node did not serve, at 4"),
        ([3, 1], [], "do not rise"),
        ([1, 3], ["Mismatches in 0.index"], "DumpLogSegments complains, 1 times: .*Mismatches"),
    ],
)
def test_what_the_reader_of_segments_may_say(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    offsets: list[int],
    complaints: list[str],
    complaint: str | None,
) -> None:
    monkeypatch.setattr(
        compaction_judges, "dump", lambda files, *, compacted: Dumped(codecs=[], offsets=offsets, complaints=complaints)
    )
    if complaint is None:
        assert check_dump(tmp_path, offsets=[0, 1, 2, 3], must_have={1, 3}) == len(offsets)
    else:
        with pytest.raises(Anomaly, match=complaint):
            check_dump(tmp_path, offsets=[0, 1, 2, 3], must_have={1, 3})


@pytest.mark.parametrize(
    ("offsets", "complaint"),
    [
        ([0, 1, 2, 3, 4, 5], None),
        ([3, 5], None),
        ([0, 5], "was not shown 1 records, the first at offset 3"),
        ([3, 2, 5], "read offset 2 after 3"),
    ],
)
def test_what_the_consumer_that_follows_may_not_be_shown(offsets: list[int], complaint: str | None) -> None:
    def message(offset: int) -> Any:
        return SimpleNamespace(error=lambda: None, offset=lambda: offset, key=lambda: b"", value=lambda: b"")

    def read() -> None:
        reader = compaction._Reader(SimpleNamespace(expect=lambda *_: None))  # type: ignore[arg-type]
        for offset in offsets:
            reader._take(message(offset))
        reader.wait(6, must_see=lambda: {3, 5})

    if complaint is None:
        read()
    else:
        with pytest.raises(Anomaly, match=complaint):
            read()


@pytest.fixture
def proof(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As far as the monitor looks at it: a node that answers no question."""

    def answer(node: object) -> dict[str, float]:
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(compaction, "read_metrics", answer)
    monkeypatch.setattr(compaction, "_SAMPLE_S", 0.001)
    return SimpleNamespace(node=SimpleNamespace(pid=1), kills=0, is_down=False, idle_bytes=0)


def watch(proof: Any, *, updates: int = 0) -> compaction._Monitor:
    with compaction._Monitor(proof, updates=updates) as monitor:
        time.sleep(0.1)
    return monitor


def test_a_node_that_does_not_answer_though_nobody_killed_it_is_a_failure(proof: Any) -> None:
    with pytest.raises(ConnectionRefusedError):
        watch(proof)


def test_a_loop_that_was_hardly_looked_at_is_a_failure(proof: Any) -> None:
    proof.is_down = True
    monitor = watch(proof, updates=compaction.UPDATES_PER_S)
    with pytest.raises(AssertionError, match="looked at 0 times only"):
        monitor.facts()


def test_a_loop_that_was_looked_at_all_the_time(proof: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "read_metrics", lambda node: {"headrace_loop_lag_seconds_max": 0.002})
    facts = watch(proof, updates=int(compaction.UPDATES_PER_S * 0.01)).facts()
    assert facts["loop_lag_samples"] >= 5
    assert facts["loop_lag_ms_p99"] == 2.0
