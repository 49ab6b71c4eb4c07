"""What senders tell is added up, wherever they are."""

import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pytest

from headrace.lab.child import Lines
from headrace.lab.clocks import ASK, answer
from headrace.lab.errors import LabError
from headrace.lab.scenario import Scenario
from headrace.lab.senders import Senders
from headrace.lab.timeline import Second, Timeline

READY = {"ready": True}
NO_TIME = {"no_room_ns": 0, "making_ns": 0, "throttled_ns": 0}


class Told(Lines):
    """A member that says its first line at once and the others when it is told to start, and hears everything."""

    def __init__(self, number: int, lines: Sequence[Mapping[str, Any]]) -> None:
        here, there = os.pipe()
        super().__init__(open(here, "rb", buffering=0), io.BytesIO())  # noqa: SIM115
        self._voice = open(there, "wb", buffering=0)  # noqa: SIM115
        self._left = [json.dumps(line).encode() + b"\n" for line in lines]
        self.pid = None if number else 7
        self.heard: list[Mapping[str, Any]] = []
        self._utter(self._left[:1])

    def say(self, message: Mapping[str, Any]) -> None:
        if message == ASK:  # As those on other hosts are.
            self._voice.write(json.dumps(answer()).encode() + b"\n")
            return
        self.heard.append(message)
        self._utter(self._left[1:])
        self._voice.close()

    def last_words(self) -> str:
        return "a bad dream"

    def end(self) -> None:
        self._voice.close()
        self.close()

    def _utter(self, lines: list[bytes]) -> None:
        if lines:
            self._voice.write(b"".join(lines))
        else:
            self._voice.close()


class Tellers:
    """A crew, and its only squad."""

    where = "paper"

    def __init__(self, *lines: Sequence[Mapping[str, Any]]) -> None:
        self.members = [Told(number, told) for number, told in enumerate(lines)]
        self.orders: Sequence[Mapping[str, Any]] = ()
        self.ended = 0

    def begin(self, module: str, orders: Sequence[Mapping[str, Any]]) -> Self:
        assert module == "headrace.lab.sender_process"
        self.orders = orders
        return self

    def end(self) -> None:
        self.ended += 1
        for member in self.members:
            member.end()


def row(count: int, *, latency_ns: int) -> Second:
    timeline = Timeline()
    planned = np.full(count, 5)
    timeline.planned(0, count)
    timeline.sent(planned, planned + 1_000, 10 * count)
    timeline.acknowledged(planned, planned + 1_000, planned + latency_ns, 10 * count)
    timeline.fold()
    return timeline.pop(0)


def second(number: int, told: Second) -> dict[str, Any]:
    return {"second": number, "row": told.to_json()}


def ending(**changes: Any) -> dict[str, Any]:
    told = {"elapsed_ns": 2_000_000_000, "answered_ns": 2_100_000_000, "unsent": 0, "lost_sight": 0}
    told |= {"is_stopped": False, **NO_TIME, **changes}
    return {"ending": told, "failures": {}}


def scenario(processes: int) -> Scenario:
    return Scenario(rate_per_s=1_000.0, duration_s=2.0, processes=processes)


def run(crew: Tellers) -> tuple[list[Second], Senders]:
    with Senders(scenario(len(crew.members)), {"bootstrap.servers": "there:1"}, crew=crew) as senders:
        senders.connect()
        assert senders.pids == [7]
        senders.start()
        rows = [told for _, told in senders.rows()]
    return rows, senders


def test_seconds_and_histograms_add_up_over_members() -> None:
    fast, slow = row(30, latency_ns=1_000_000), row(10, latency_ns=9_000_000)
    crew = Tellers(
        [READY, second(0, fast), second(1, fast), ending()],
        [
            READY,
            second(0, slow),
            second(1, slow),
            ending(elapsed_ns=2_500_000_000, answered_ns=2_000_000_000, unsent=3),
        ],
    )
    rows, senders = run(crew)
    assert [(told.planned, told.sent, told.acknowledged, told.sent_bytes) for told in rows] == [(40, 40, 40, 400)] * 2
    assert [told.latency_planned.count for told in rows] == [40, 40]
    median, high = (rows[0].latency_planned.quantile_ns(share) for share in (0.5, 0.99))
    assert median == pytest.approx(1_000_000, rel=0.01)  # Of thirty that are fast and ten that are slow.
    assert high == pytest.approx(9_000_000, rel=0.01)
    assert (senders.outcome.elapsed_s, senders.outcome.unsent, senders.outcome.troubles) == (2.5, 3, [])
    assert senders.outcome.answered_s == 2.1


def test_each_is_told_its_share_and_one_moment() -> None:
    crew = Tellers([READY, ending()], [READY, ending()], [READY, ending()])
    _, senders = run(crew)
    assert [order["index"] for order in crew.orders] == [0, 1, 2]
    assert {json.dumps(order["scenario"]) for order in crew.orders} == {json.dumps(scenario(3).to_json())}
    assert [member.heard for member in crew.members] == [[{"start_utc_ns": senders.start_utc_ns}]] * 3
    assert crew.ended == 1


def test_the_shares_are_the_whole_plan() -> None:
    whole, _ = scenario(1).plan(0)
    shares = [scenario(3).plan(index)[0] for index in range(3)]
    end_ns = 3_000_000_000
    together = np.sort(np.concatenate([share.due(end_ns, limit=10_000) for share in shares]))
    assert together.tolist() == whole.due(end_ns, limit=10_000).tolist()
    assert len(together) == 2_000


def test_a_member_that_is_lost_leaves_a_partial_run_and_all_that_it_told() -> None:
    told = row(10, latency_ns=1_000_000)
    rows, senders = run(Tellers([READY, second(0, told)], [READY, second(0, told), second(1, told), ending()]))
    assert [each.sent for each in rows] == [20, 10]
    assert senders.outcome.troubles == ["sender 0: a bad dream"]


@pytest.mark.parametrize("lines", [[], [{"trouble": "a bad dream"}]])
def test_one_that_cannot_begin_ends_them_all(lines: list[dict[str, Any]]) -> None:
    crew = Tellers([READY], lines)
    with pytest.raises(LabError, match="a bad dream"):
        run(crew)
    assert crew.ended == 1
