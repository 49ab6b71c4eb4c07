"""Each finding on results that satisfy it, on results that violate it, and on some that cannot tell."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.evidence import Verdict
from headrace.lab.findings import FINDINGS, TIPS_BEHIND, TIPS_COMPRESSION, TIPS_LINGER, TIPS_PARTITIONS, judge
from headrace.lab.published import MACHINES, PUBLISHED
from headrace.lab.results import Bottleneck, RepeatLine, Results
from tests.result_values import repeat, scenario

HOLDS, DOES_NOT, UNTOLD = Verdict.HOLDS, Verdict.DOES_NOT_HOLD, Verdict.NOT_MEASURABLE

_SPREAD = (0.99, 1.0, 1.01)  # Of repeats: their interval is about 2.5% either way.

Cells = Sequence[tuple[Mapping[str, Any], Mapping[str, float]]]


def run(
    cells: Cells,
    *,
    name: str = "w",
    workload: Mapping[str, Any] | None = None,
    unsteady: Sequence[Mapping[str, Any]] = (),
    bottleneck: str | None = None,
    spread: Sequence[float] = _SPREAD,
) -> Results:
    lines: list[RepeatLine] = [
        repeat(
            {metric: value * factor for metric, value in metrics.items()},
            cell=cell,
            number=number,
            is_steady=cell not in unsteady,
            bottleneck=None if bottleneck is None else Bottleneck(verdict=bottleneck),
        )
        for cell, metrics in cells
        for number, factor in enumerate(spread)
    ]
    written = replace(scenario(name), workload=dict(workload or {}))
    return Results(path=Path("none"), scenario=written, seconds=[], repeats=lines, others=[], partial=None)


def rates(by_cell: Sequence[tuple[Mapping[str, Any], float]], metric: str = "rate_per_s") -> Cells:
    return [(cell, {metric: value}) for cell, value in by_cell]


def verdicts(preset: str, *runs: Results) -> list[Verdict]:
    return [judgement.answer.verdict for judgement in judge(preset, runs)]


# --- S0 --------------------------------------------------------------------------------------------------------------


def fig5(*, slow: float = 100_000, remote: float | None = None) -> Results:
    cells = [({"acks": acks, "read_in_ram": ram}, 100_000.0) for acks in (0, 1, "all") for ram in (True, False)]
    cells[-1] = (cells[-1][0], slow)
    if remote is not None:
        cells = [({**cell, "sender": None}, rate) for cell, rate in cells]
        cells.append(({"acks": 0, "read_in_ram": False, "sender": "remote"}, remote))
    return run(rates(cells), workload={"rate": "100K"})


def test_100k() -> None:
    assert verdicts("s0-fig5", fig5()) == [HOLDS, UNTOLD]
    assert verdicts("s0-fig5", fig5(slow=90_000)) == [DOES_NOT, UNTOLD]
    assert verdicts("s0-fig5", fig5(remote=80_000)) == [HOLDS, HOLDS]
    assert verdicts("s0-fig5", fig5(remote=100_000)) == [HOLDS, DOES_NOT]


def fig6(*, ram: float, disk: float, bottleneck: str | None = None) -> Results:
    cells = [({"read_in_ram": in_ram}, rate) for in_ram, rate in ((True, ram), (False, disk))]
    return run(rates(cells), workload={"rate": "250K"}, bottleneck=bottleneck)


def test_250k() -> None:
    assert verdicts("s0-fig6", fig6(ram=249_000, disk=220_000, bottleneck="generator")) == [HOLDS] * 3
    assert verdicts("s0-fig6", fig6(ram=200_000, disk=250_000, bottleneck="broker CPU")) == [DOES_NOT] * 3
    assert verdicts("s0-fig6", fig6(ram=249_000, disk=220_000)) == [HOLDS, HOLDS, UNTOLD]


def fig7(by_cell: Mapping[tuple[str, Any], float], *, unsteady: Sequence[tuple[str, Any]] = (), **more: Any) -> Results:
    def cell(batch: str, acks: Any) -> dict[str, Any]:
        return {"batch_size": batch, "acks": acks}

    cells = [(cell(*key), rate) for key, rate in by_cell.items()]
    return run(rates(cells), workload={"rate": "1000K"}, unsteady=[cell(*key) for key in unsteady], **more)


_LARGE = [("64KiB", 1), ("64KiB", "all")]
_AS_PUBLISHED = {
    ("16KiB", 0): 250e3, ("16KiB", 1): 320e3, ("16KiB", "all"): 321e3,
    ("64KiB", 0): 294e3, ("64KiB", 1): 300e3, ("64KiB", "all"): 300e3,
}  # fmt: skip


def test_1000k_as_published() -> None:
    found = fig7(_AS_PUBLISHED, unsteady=_LARGE, bottleneck="disk")
    assert verdicts("s0-fig7", found) == [HOLDS] * 6


def test_1000k_otherwise() -> None:
    other = {
        ("16KiB", 0): 1000e3, ("16KiB", 1): 800e3, ("16KiB", "all"): 400e3,
        ("64KiB", 0): 900e3, ("64KiB", 1): 900e3, ("64KiB", "all"): 900e3,
    }  # fmt: skip
    assert verdicts("s0-fig7", fig7(other, bottleneck="client CPU")) == [DOES_NOT] * 6


def test_1000k_larger_batches_faster_and_unsteady_is_not_what_was_found() -> None:
    found = fig7(_AS_PUBLISHED, unsteady=[*_LARGE, ("64KiB", 0)])
    assert verdicts("s0-fig7", found)[3] is DOES_NOT


def test_without_a_named_bottleneck_nobody_knows_what_limits() -> None:
    assert verdicts("s0-fig7", fig7(_AS_PUBLISHED))[-1] is UNTOLD


def fig10(*, none: float, one: float, steady: bool, remote_steady: bool | None = None) -> Results:
    cells: list[tuple[dict[str, Any], float]] = [({"acks": 0}, none), ({"acks": 1}, one)]
    unsteady = [] if steady else [cell for cell, _ in cells]
    if remote_steady is not None:
        away = {"acks": 1, "sender": "remote"}
        cells.append((away, 420e3))
        unsteady += [] if remote_steady else [away]
    return run(rates(cells), workload={"rate": "500K"}, unsteady=unsteady)


def test_two_senders() -> None:
    assert verdicts("s0-fig10", fig10(none=400e3, one=440e3, steady=False)) == [HOLDS, HOLDS, HOLDS, UNTOLD]
    assert verdicts("s0-fig10", fig10(none=500e3, one=450e3, steady=True)) == [DOES_NOT, DOES_NOT, DOES_NOT, UNTOLD]
    assert verdicts("s0-fig10", fig10(none=4e5, one=4.4e5, steady=False, remote_steady=True))[3] is HOLDS
    assert verdicts("s0-fig10", fig10(none=4e5, one=4.4e5, steady=False, remote_steady=False))[3] is DOES_NOT


# --- S2 --------------------------------------------------------------------------------------------------------------


def cku(*, rate: float, consumed: float) -> Results:
    metrics = {"rate_per_s": rate, "mb_per_s": rate * 512 / 2**20, "consumed_mb_per_s": consumed * rate * 512 / 2**20}
    return run([({}, metrics)], workload={"rate": "240K", "groups": 3})


def test_consumers_keep_up() -> None:
    assert verdicts("s2-cku", cku(rate=239e3, consumed=3.0)) == [HOLDS, HOLDS]
    assert verdicts("s2-cku", cku(rate=150e3, consumed=2.0)) == [DOES_NOT, DOES_NOT]


def tips(
    codecs: Mapping[str, tuple[float, float]],
    linger: Mapping[int, float],
    partitions: Mapping[int, float],
    behind: Mapping[str, float],
) -> list[Results]:
    compression: Cells = [
        ({"compression": codec}, {"mb_per_s": mb, "client_cpu_percent": cpu}) for codec, (mb, cpu) in codecs.items()
    ]
    lingers = rates([({"linger": ms}, mb) for ms, mb in linger.items()], "mb_per_s")
    spread = rates([({"partitions": count}, mb) for count, mb in partitions.items()], "mb_per_s")
    read = rates([({"consume": when}, mb) for when, mb in behind.items()], "consumed_mb_per_s")
    return [
        run(compression, name=TIPS_COMPRESSION),
        run(lingers, name=TIPS_LINGER),
        run(spread, name=TIPS_PARTITIONS),
        run(read, name=TIPS_BEHIND),
    ]


_GOOD_CODECS = {"none": (50.0, 80.0), "lz4": (80.0, 90.0), "snappy": (75.0, 90.0), "gzip": (20.0, 100.0)}
_BAD_CODECS = {"none": (50.0, 80.0), "lz4": (40.0, 90.0), "snappy": (75.0, 90.0), "gzip": (90.0, 50.0)}


def test_tips() -> None:
    good = tips(_GOOD_CODECS, {0: 20.0, 10: 50.0}, {1: 5.0, 20: 50.0}, {"during": 50.0, "after": 30.0})
    assert verdicts("s2-tips", *good) == [HOLDS] * 5
    bad = tips(_BAD_CODECS, {0: 50.0, 10: 20.0}, {1: 50.0, 20: 50.0}, {"during": 30.0, "after": 50.0})
    assert verdicts("s2-tips", *bad) == [DOES_NOT] * 5


def test_a_part_that_was_not_run_cannot_tell() -> None:
    compression, *_ = tips(_GOOD_CODECS, {0: 20.0, 10: 50.0}, {1: 5.0, 20: 50.0}, {"during": 50.0, "after": 30.0})
    assert verdicts("s2-tips", compression) == [HOLDS, HOLDS, UNTOLD, UNTOLD, UNTOLD]


# --- S4 and S1 -------------------------------------------------------------------------------------------------------


def sizes(by_size: Mapping[int, float], metric: str) -> Results:
    return run(rates([({"size": size}, value) for size, value in by_size.items()], metric))


@pytest.mark.parametrize(
    ("preset", "metric", "which", "rises"),
    [
        ("s4-fig9", "rate_per_s", 0, False),
        ("s4-fig9", "mb_per_s", 1, True),
        ("s4-fig10", "send_latency_p50_ms", 0, True),
    ],
)
def test_by_message_size(preset: str, metric: str, which: int, rises: bool) -> None:
    up = {10: 1.0, 100: 2.0, 1000: 4.0, 10_000: 9.0}
    down = dict(zip(up, reversed(up.values()), strict=True))
    bent = {10: 1.0, 100: 5.0, 1000: 4.0, 10_000: 9.0} if rises else {10: 9.0, 100: 4.0, 1000: 5.0, 10_000: 1.0}
    good, bad = (up, down) if rises else (down, up)
    assert verdicts(preset, sizes(good, metric))[which] is HOLDS
    assert verdicts(preset, sizes(bad, metric))[which] is DOES_NOT
    assert verdicts(preset, sizes(bent, metric))[which] is DOES_NOT
    assert verdicts(preset, sizes({10: 1.0, 100: 2.0}, metric))[which] is UNTOLD


def test_a_backlog() -> None:
    def backlog(large: float) -> Results:
        return run(rates([({"messages": 2_000_000}, large), ({"messages": 100_000}, 100e3)], "consumed_per_s"))

    assert verdicts("s1-backlog", backlog(98e3)) == [HOLDS]
    assert verdicts("s1-backlog", backlog(60e3)) == [DOES_NOT]


def after(*, mb: float, ms: float) -> Results:
    return run(
        [
            ({"consume": "during"}, {"consumed_mb_per_s": 10.0, "end_to_end_p50_ms": 5.0}),
            ({"consume": "after"}, {"consumed_mb_per_s": mb, "end_to_end_p50_ms": ms}),
        ]
    )


def test_consumed_after_publishing() -> None:
    assert verdicts("s4-after", after(mb=30.0, ms=900.0)) == [HOLDS, HOLDS]
    assert verdicts("s4-after", after(mb=9.0, ms=2.0)) == [DOES_NOT, DOES_NOT]


# --- What cannot be told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", sorted({finding.preset for finding in FINDINGS}))
def test_of_nothing_nothing_is_told(preset: str) -> None:
    assert {*verdicts(preset)} == {UNTOLD}
    assert all(judgement.answer.why for judgement in judge(preset, []))


def test_one_repeat_alone_tells_no_difference() -> None:
    found = fig7(_AS_PUBLISHED, unsteady=_LARGE, bottleneck="disk", spread=[1.0])
    assert verdicts("s0-fig7", found)[1:3] == [UNTOLD, UNTOLD]


def test_what_the_gate_stopped_decides_nothing() -> None:
    found = after(mb=30.0, ms=900.0)
    late = [replace(line, gate={"end_to_end_p50_ms": "not measurable here: late"}) for line in found.repeats]
    assert verdicts("s4-after", replace(found, repeats=late)) == [HOLDS, UNTOLD]


def test_a_difference_within_chance_is_none_and_within_much_chance_untold() -> None:
    near = {**_AS_PUBLISHED, ("16KiB", 1): 251e3, ("16KiB", "all"): 252e3}
    assert verdicts("s0-fig7", fig7(near))[1] is DOES_NOT
    assert verdicts("s0-fig7", fig7(near, spread=[0.5, 1.0, 1.6]))[1] is UNTOLD


# --- The tables ------------------------------------------------------------------------------------------------------


def test_every_preset_that_is_published_is_judged_and_quoted() -> None:
    judged = {finding.preset for finding in FINDINGS}
    assert {each.preset for each in PUBLISHED} <= judged
    assert {each.source.paper for each in (*FINDINGS, *PUBLISHED)} == MACHINES.keys()
    for each in itertools.chain(FINDINGS, PUBLISHED):
        assert each.source.quote
        assert each.source.section
