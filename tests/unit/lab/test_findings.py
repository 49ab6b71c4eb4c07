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
from headrace.lab.readings.machine_metrics import PACKETS
from headrace.lab.results import Bottleneck, RepeatLine, Results, Steady
from tests.result_values import repeat, scenario

HOLDS, DOES_NOT, UNTOLD = Verdict.HOLDS, Verdict.DOES_NOT_HOLD, Verdict.NOT_MEASURABLE

_SPREAD = (0.99, 1.0, 1.01)  # Of repeats: their interval is about 2.5% either way.
_NARROW = (0.997, 1.0, 1.003)  # 0.75%: a rate that is reached is so by all of its interval, which begins at 98%.

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
    return run(rates(cells), workload={"rate": "100K"}, spread=_NARROW)


def test_100k() -> None:
    assert verdicts("s0-fig5", fig5()) == [HOLDS, UNTOLD]
    assert verdicts("s0-fig5", fig5(slow=90_000)) == [DOES_NOT, UNTOLD]
    assert verdicts("s0-fig5", fig5(remote=80_000)) == [HOLDS, HOLDS]
    assert verdicts("s0-fig5", fig5(remote=100_000)) == [HOLDS, DOES_NOT]


def fig6(*, ram: float, disk: float, bottleneck: str | None = None, spread: Sequence[float] = _NARROW) -> Results:
    cells = [({"read_in_ram": in_ram}, rate) for in_ram, rate in ((True, ram), (False, disk))]
    return run(rates(cells), workload={"rate": "250K"}, bottleneck=bottleneck, spread=spread)


def test_250k() -> None:
    assert verdicts("s0-fig6", fig6(ram=249_000, disk=220_000, bottleneck="generator")) == [HOLDS] * 3
    assert verdicts("s0-fig6", fig6(ram=200_000, disk=250_000, bottleneck="broker CPU")) == [DOES_NOT] * 3
    assert verdicts("s0-fig6", fig6(ram=249_000, disk=220_000)) == [HOLDS, HOLDS, UNTOLD]


def test_a_rate_is_reached_or_missed_by_all_of_its_interval() -> None:
    apart = (0.93, 1.0, 1.07)  # 17% either way, more than the gate lets a throughput be told.
    assert verdicts("s0-fig6", fig6(ram=106_000, disk=106_000, spread=apart))[:2] == [DOES_NOT, HOLDS]
    assert verdicts("s0-fig6", fig6(ram=400_000, disk=400_000, spread=apart))[:2] == [HOLDS, DOES_NOT]
    assert verdicts("s0-fig6", fig6(ram=249_000, disk=220_000, spread=apart))[:2] == [UNTOLD, UNTOLD]
    assert verdicts("s0-fig6", fig6(ram=249_000, disk=106_000, spread=[1.0]))[:2] == [UNTOLD, UNTOLD]


def fig7(
    by_cell: Mapping[tuple[str, Any], float],
    *,
    unsteady: Sequence[tuple[str, Any]] = (),
    loads: Mapping[tuple[str, Any], float] | None = None,
    **more: Any,
) -> Results:
    """The loads are of two cores."""

    def cell(batch: str, acks: Any) -> dict[str, Any]:
        return {"batch_size": batch, "acks": acks}

    cells = [
        (cell(*key), {"rate_per_s": rate, **({} if loads is None else {"load": loads[key]})})
        for key, rate in by_cell.items()
    ]
    return run(cells, workload={"rate": "1000K"}, unsteady=[cell(*key) for key in unsteady], **more)


_LARGE = [("64KiB", 1), ("64KiB", "all")]
_AS_PUBLISHED = {
    ("16KiB", 0): 250e3, ("16KiB", 1): 320e3, ("16KiB", "all"): 321e3,
    ("64KiB", 0): 294e3, ("64KiB", 1): 300e3, ("64KiB", "all"): 300e3,
}  # fmt: skip
_LOADS = {key: 3.75 if key in _LARGE else 1.5 for key in _AS_PUBLISHED}  # 15 and 6 of eight cores.


def test_1000k_as_published() -> None:
    found = fig7(_AS_PUBLISHED, unsteady=_LARGE, bottleneck="disk", loads=_LOADS)
    assert verdicts("s0-fig7", found) == [HOLDS] * 12


def test_1000k_otherwise() -> None:
    other = {
        ("16KiB", 0): 1000e3, ("16KiB", 1): 800e3, ("16KiB", "all"): 400e3,
        ("64KiB", 0): 900e3, ("64KiB", 1): 900e3, ("64KiB", "all"): 900e3,
    }  # fmt: skip
    assert verdicts("s0-fig7", fig7(other, bottleneck="client CPU", spread=_NARROW))[:8] == [DOES_NOT] * 8


def test_1000k_larger_batches_faster_and_unsteady_is_not_what_was_found() -> None:
    found = fig7(_AS_PUBLISHED, unsteady=[*_LARGE, ("64KiB", 0)])
    assert verdicts("s0-fig7", found)[3] is DOES_NOT


def test_1000k_larger_batches_are_slower_with_each_acks() -> None:
    def told(by_cell: Mapping[tuple[str, Any], float], **more: Any) -> list[Verdict]:
        return verdicts("s0-fig7", fig7(by_cell, unsteady=_LARGE, **more))[5:7]

    assert told(_AS_PUBLISHED) == [HOLDS, HOLDS]
    assert told({**_AS_PUBLISHED, ("64KiB", 1): 350e3}) == [DOES_NOT, HOLDS]
    assert told({**_AS_PUBLISHED, ("64KiB", "all"): 321e3}) == [HOLDS, DOES_NOT]  # Of one mind, and so not lower.
    assert told(_AS_PUBLISHED, spread=[1.0]) == [UNTOLD, UNTOLD]
    without = {key: rate for key, rate in _AS_PUBLISHED.items() if key != ("64KiB", 1)}
    assert told(without) == [UNTOLD, HOLDS]


def test_without_a_named_bottleneck_nobody_knows_what_limits() -> None:
    assert verdicts("s0-fig7", fig7(_AS_PUBLISHED))[7:9] == [UNTOLD, UNTOLD]


def loaded(loads: Mapping[tuple[str, Any], float], *, unsteady: Sequence[tuple[str, Any]] = _LARGE) -> list[Verdict]:
    """Below the cores where it is steady, above them where it is not, and in no proportion."""
    return verdicts("s0-fig7", fig7(_AS_PUBLISHED, unsteady=unsteady, loads=loads))[9:]


def test_load() -> None:
    assert loaded(_LOADS) == [HOLDS, HOLDS, HOLDS]
    # At the number of cores, and with one repeat alone, intervals do not tell above from below.
    assert loaded({**_LOADS, ("16KiB", 0): 2.01})[0] is UNTOLD
    assert verdicts("s0-fig7", fig7(_AS_PUBLISHED, unsteady=_LARGE, loads=_LOADS, spread=[1.0]))[9:] == [UNTOLD] * 3
    assert loaded({**_LOADS, ("16KiB", 0): 2.5}) == [DOES_NOT, HOLDS, HOLDS]
    assert loaded({**_LOADS, ("64KiB", 1): 1.4}) == [HOLDS, DOES_NOT, HOLDS]
    # Above the cores, and yet not the highest.
    assert loaded({**_LOADS, ("16KiB", 0): 4.5}) == [DOES_NOT, DOES_NOT, HOLDS]
    assert loaded({key: rate / 100e3 for key, rate in _AS_PUBLISHED.items()})[2] is DOES_NOT


def test_load_that_cannot_be_told() -> None:
    assert verdicts("s0-fig7", fig7(_AS_PUBLISHED, unsteady=_LARGE))[9:] == [UNTOLD] * 3
    assert loaded(_LOADS, unsteady=[])[1] is UNTOLD  # Everything was steady.
    assert loaded(_LOADS, unsteady=[*_LOADS])[0] is UNTOLD
    assert loaded({**_LOADS, ("16KiB", 0): 1.99})[0] is UNTOLD  # Two cores are within its interval.


def test_a_network_on_one_host_that_holds_it_up() -> None:
    assert verdicts("s0-fig7", fig7(_AS_PUBLISHED, bottleneck="network"))[8] is DOES_NOT


def held_up(*by_repeat: tuple[str, bool | None]) -> list[Verdict]:
    """Whether the disk limits it, and whether the network does not: verdicts and what was in the way, by repeat."""
    found = fig7(_AS_PUBLISHED, unsteady=_LARGE, loads=_LOADS)
    repeats = [
        replace(line, bottleneck=Bottleneck(verdict=told, is_held_up=is_held_up))
        for line, (told, is_held_up) in zip(found.repeats, itertools.cycle(by_repeat), strict=False)
    ]
    return verdicts("s0-fig7", replace(found, repeats=repeats))[7:9]


def test_what_nobody_saw_is_no_evidence() -> None:
    assert held_up(("disk", True)) == [HOLDS, HOLDS]
    assert held_up(("none found", True)) == [UNTOLD, UNTOLD]
    assert held_up(("none found", None)) == [UNTOLD, UNTOLD]  # Of an earlier version.
    assert held_up(("none found", False)) == [DOES_NOT, HOLDS]  # On time: nothing limits it.
    assert held_up(("disk", True), ("none found", True), ("disk", True)) == [UNTOLD, UNTOLD]
    # What was seen in one repeat is seen.
    assert held_up(("network", True), ("none found", True), ("disk", True)) == [DOES_NOT, DOES_NOT]
    assert held_up(("none found", False), ("none found", True), ("disk", True)) == [DOES_NOT, UNTOLD]


def fig10(*, none: float, one: float, steady: bool, remote_steady: bool | None = None, mixed: float = 420e3) -> Results:
    cells: list[tuple[dict[str, Any], float]] = [({"acks": 0}, none), ({"acks": 1}, one)]
    unsteady = [] if steady else [cell for cell, _ in cells]
    if remote_steady is not None:
        away = {"acks": 1, "sender": "remote"}
        cells += [(away, 420e3), ({"acks": 1, "sender": "local+remote"}, mixed)]
        unsteady += [] if remote_steady else [away]
    return run(rates(cells), workload={"rate": "500K"}, unsteady=unsteady, spread=_NARROW)


def test_two_senders() -> None:
    local = verdicts("s0-fig10", fig10(none=400e3, one=440e3, steady=False))[:5]
    assert local == [HOLDS, HOLDS, HOLDS, UNTOLD, UNTOLD]
    local = verdicts("s0-fig10", fig10(none=500e3, one=450e3, steady=True))[:5]
    assert local == [DOES_NOT, DOES_NOT, DOES_NOT, UNTOLD, UNTOLD]
    away = verdicts("s0-fig10", fig10(none=4e5, one=4.4e5, steady=False, remote_steady=True))
    assert away[3:5] == [HOLDS, HOLDS]
    away = verdicts("s0-fig10", fig10(none=4e5, one=4.4e5, steady=False, remote_steady=False, mixed=3e5))
    assert away[3:5] == [DOES_NOT, DOES_NOT]


def distributed(
    *,
    local_load: float = 3.75,
    load: float = 0.5,
    packets: Sequence[float] = (0.0, 30e3, 60e3),
    mb_per_s: float = 95.0,
    target: str = "node",
) -> list[Verdict]:
    """Of load, packets and link, with packets of no, one and two remote senders."""
    senders: Sequence[Mapping[str, str]] = ({}, {"sender": "local+remote"}, {"sender": "remote"})
    cells: Cells = [
        ({"acks": 1, **sender}, {"load": load if sender else local_load, PACKETS: each, "mb_per_s": mb_per_s})
        for sender, each in zip(senders, packets, strict=True)
    ]
    found = run(cells, workload={"rate": "500K"})
    found = replace(found, scenario=replace(found.scenario, target={"name": target, "kind": target}))
    return verdicts("s0-fig10", found)[5:]


def test_load_and_packets_of_distributed_senders() -> None:
    assert distributed() == [HOLDS] * 5
    assert distributed(local_load=1.5)[0] is DOES_NOT
    assert distributed(packets=(30e3, 30e3, 60e3))[2] is DOES_NOT
    assert distributed(packets=(0.0, 30e3, 31e3))[3] is DOES_NOT
    assert distributed(mb_per_s=40.0)[4] is DOES_NOT


def test_whose_load_it_is() -> None:
    """On one machine it is that of broker and senders; of a cluster elsewhere it is that of the senders alone."""
    assert distributed(load=1.5)[1] is UNTOLD
    assert distributed(load=1.5, target="cluster")[1] is DOES_NOT
    assert distributed(load=0.5, target="cluster")[1] is UNTOLD
    assert distributed(target="cluster")[4] is UNTOLD  # What its link can carry is not known.


# --- S2 --------------------------------------------------------------------------------------------------------------


def cku(*, rate: float, consumed: float) -> Results:
    metrics = {"rate_per_s": rate, "mb_per_s": rate * 512 / 2**20, "consumed_mb_per_s": consumed * rate * 512 / 2**20}
    return run([({}, metrics)], workload={"rate": "240K", "groups": 3})


def test_consumers_keep_up() -> None:
    assert verdicts("s2-cku", cku(rate=239e3, consumed=3.0)) == [HOLDS, HOLDS]
    assert verdicts("s2-cku", cku(rate=150e3, consumed=2.0)) == [DOES_NOT, DOES_NOT]
    # Nine tenths of the rate are within the interval: 216 K of 211 K to 221 K.
    assert verdicts("s2-cku", cku(rate=216e3, consumed=3.0)) == [HOLDS, UNTOLD]


def test_consumers_that_keep_up_in_some_repeats() -> None:
    found = cku(rate=239e3, consumed=2.9)
    uneven = [
        replace(line, metrics={**line.metrics, "consumed_mb_per_s": line.metrics["consumed_mb_per_s"] * factor})
        for line, factor in zip(found.repeats, (0.98, 1.0, 1.02), strict=True)
    ]
    assert verdicts("s2-cku", replace(found, repeats=uneven))[0] is UNTOLD


def tips(
    codecs: Mapping[str, tuple[float, float]],
    linger: Mapping[int, float],
    partitions: Mapping[int, float],
    behind: Mapping[Any, float],
    *,
    warm_up: str = "10s",
) -> list[Results]:
    compression: Cells = [
        ({"compression": codec}, {"mb_per_s": mb, "client_cpu_percent": cpu}) for codec, (mb, cpu) in codecs.items()
    ]
    lingers = rates([({"linger": ms}, mb) for ms, mb in linger.items()], "mb_per_s")
    spread = rates([({"partitions": count}, mb) for count, mb in partitions.items()], "mb_per_s")
    read: Cells = [
        ({"behind": later}, {"mb_per_s": 10.0, "consumed_mb_per_s": mb - 10.0}) for later, mb in behind.items()
    ]
    return [
        run(compression, name=TIPS_COMPRESSION),
        run(lingers, name=TIPS_LINGER),
        run(spread, name=TIPS_PARTITIONS),
        run(read, name=TIPS_BEHIND, workload={"groups": 2, "warm_up": warm_up}),
    ]


_GOOD_CODECS = {"none": (50.0, 80.0), "lz4": (80.0, 90.0), "snappy": (75.0, 90.0), "gzip": (20.0, 100.0)}
_BAD_CODECS = {"none": (50.0, 80.0), "lz4": (40.0, 90.0), "snappy": (75.0, 90.0), "gzip": (90.0, 50.0)}


def test_tips() -> None:
    good = tips(_GOOD_CODECS, {0: 20.0, 10: 50.0}, {1: 5.0, 20: 50.0}, {0: 50.0, "4s": 30.0})
    assert verdicts("s2-tips", *good) == [HOLDS] * 5
    bad = tips(_BAD_CODECS, {0: 50.0, 10: 20.0}, {1: 50.0, 20: 50.0}, {0: 30.0, "4s": 50.0})
    assert verdicts("s2-tips", *bad) == [DOES_NOT] * 5


def test_consumers_that_are_behind_when_it_is_measured() -> None:
    """Those that begin after that have read less for that alone; without them, or without the others, nobody knows."""

    def told(behind: Mapping[Any, float], **more: Any) -> Verdict:
        return verdicts("s2-tips", tips(_GOOD_CODECS, {}, {}, behind, **more)[-1])[-1]

    assert told({0: 50.0, "4s": 30.0}, warm_up="4s") is UNTOLD
    assert told({0: 50.0}) is UNTOLD
    assert told({"4s": 50.0}) is UNTOLD
    assert told({0: 50.0, "4s": 50.0}) is DOES_NOT


def test_codecs_of_which_repeats_do_not_tell_which_costs_more() -> None:
    near = {**_GOOD_CODECS, "gzip": (90.0, 115.0)}  # 1.28 against 1.13 and 1.2% of a core for each MB/s.
    [compression, *_] = tips(near, {}, {}, {})
    assert verdicts("s2-tips", compression)[1] is HOLDS
    uneven = [
        replace(line, metrics={**line.metrics, "client_cpu_percent": line.metrics["client_cpu_percent"] * factor})
        for line, factor in zip(compression.repeats, itertools.cycle([0.5, 1.0, 1.5]), strict=False)
    ]
    assert verdicts("s2-tips", replace(compression, repeats=uneven))[1] is UNTOLD


def test_a_part_that_was_not_run_cannot_tell() -> None:
    compression, *_ = tips(_GOOD_CODECS, {0: 20.0, 10: 50.0}, {1: 5.0, 20: 50.0}, {0: 50.0, "4s": 30.0})
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
    # Neighbours by chance the wrong way round, or the right one, decide nothing; ends that are no different do.
    for middle in (1.99, 2.01):
        near = {10: 1.0, 100: 2.0, 1000: middle, 10_000: 9.0}
        near = near if rises else dict(zip(near, reversed(near.values()), strict=True))
        assert verdicts(preset, sizes(near, metric))[which] is UNTOLD
    assert verdicts(preset, sizes(dict.fromkeys(up, 1.0), metric))[which] is DOES_NOT


def test_a_backlog() -> None:
    def backlog(large: float) -> Results:
        return run(rates([({"messages": 2_000_000}, large), ({"messages": 100_000}, 100e3)], "consumed_per_s"))

    assert verdicts("s1-backlog", backlog(98e3)) == [HOLDS]
    assert verdicts("s1-backlog", backlog(60e3)) == [DOES_NOT]
    assert verdicts("s1-backlog", backlog(91e3)) == [UNTOLD]
    assert verdicts("s1-backlog", backlog(89e3)) == [UNTOLD]


def after(*, mb: float, ms: float, rate: str = "max", during_per_s: float = 40e3) -> Results:
    during = {"consumed_mb_per_s": 10.0, "consumed_per_s": during_per_s, "end_to_end_p50_ms": 5.0}
    return run(
        [
            ({"consume": "during"}, during),
            ({"consume": "after"}, {"consumed_mb_per_s": mb, "end_to_end_p50_ms": ms}),
        ],
        workload={"rate": rate, "groups": 1},
    )


def test_consumed_after_publishing() -> None:
    assert verdicts("s4-after", after(mb=30.0, ms=900.0)) == [HOLDS, HOLDS]
    assert verdicts("s4-after", after(mb=9.0, ms=2.0)) == [DOES_NOT, DOES_NOT]


def test_consumers_that_got_all_that_a_plan_had_for_them_might_have_got_more() -> None:
    assert verdicts("s4-after", after(mb=30.0, ms=900.0, rate="40K")) == [UNTOLD, HOLDS]
    assert verdicts("s4-after", after(mb=9.0, ms=900.0, rate="40K")) == [DOES_NOT, HOLDS]
    # These fell behind the plan: what they got is what they could.
    assert verdicts("s4-after", after(mb=30.0, ms=900.0, rate="60K")) == [HOLDS, HOLDS]


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


def test_steadiness_of_a_machine_that_others_had_decides_nothing() -> None:
    found = fig7(_AS_PUBLISHED, unsteady=_LARGE)
    assert verdicts("s0-fig7", found)[4] is HOLDS
    busy = [replace(line, gate={"rate_per_s": "other processes took 40% of the CPU"}) for line in found.repeats]
    assert verdicts("s0-fig7", replace(found, repeats=busy))[4] is UNTOLD


def judged_with(found: Results, number: int, steady: Steady) -> list[Verdict]:
    """With one repeat of each cell of large batches that says otherwise."""
    lines = [
        replace(line, steady=steady) if line.repeat == number and line.cell["batch_size"] == "64KiB" else line
        for line in found.repeats
    ]
    return verdicts("s0-fig7", replace(found, repeats=lines))


def test_repeats_that_disagree_on_steadiness_or_cannot_tell_decide_nothing() -> None:
    found = fig7(_AS_PUBLISHED, unsteady=_LARGE, loads=_LOADS)
    assert verdicts("s0-fig7", found)[3:5] == [HOLDS, HOLDS]
    for is_steady in (True, False):
        told = Steady(is_steady=is_steady, variation=0.01, slope_per_minute=0.0)
        mixed = judged_with(found, 1, told)
        assert mixed[3] is (HOLDS if is_steady else UNTOLD)
        assert mixed[4] is (UNTOLD if is_steady else HOLDS)
    untold = judged_with(found, 2, Steady(is_steady=None, variation=0.01, slope_per_minute=0.0))
    assert untold[3:5] == [UNTOLD, UNTOLD]
    # Of the machine's load, too: what the large batches were is not known, so that nothing holds of all of a kind.
    assert untold[9:11] == [UNTOLD, UNTOLD]


def test_one_cell_that_is_known_is_enough_for_a_finding_on_all_of_its_kind_not_to_hold() -> None:
    found = fig7(_AS_PUBLISHED, unsteady=_LARGE, loads={**_LOADS, ("16KiB", 0): 2.5})
    assert judged_with(found, 0, Steady(is_steady=None, variation=0.01, slope_per_minute=0.0))[9] is DOES_NOT


def test_a_bottleneck_of_a_machine_that_others_had_decides_nothing() -> None:
    found = fig6(ram=249_000, disk=220_000, bottleneck="generator")
    busy = [replace(line, gate={"rate_per_s": "other processes took 40% of the CPU"}) for line in found.repeats]
    [*_, told] = judge("s0-fig6", [replace(found, repeats=busy)])
    assert told.answer.verdict is UNTOLD
    assert told.answer.why == "the bottleneck with read_in_ram=False: other processes took 40% of the CPU"
    # One repeat of three is enough: which of them was held up by others is not known.
    assert verdicts("s0-fig6", replace(found, repeats=[*found.repeats[:-1], busy[-1]]))[2] is UNTOLD
    network = fig7(_AS_PUBLISHED, bottleneck="network")
    assert verdicts("s0-fig7", network)[7:9] == [DOES_NOT, DOES_NOT]
    busy = [replace(line, gate={"rate_per_s": "other processes took 40% of the CPU"}) for line in network.repeats]
    assert verdicts("s0-fig7", replace(network, repeats=busy))[7:9] == [UNTOLD, UNTOLD]


def test_a_repeat_that_was_cut_short_tells_neither_steadiness_nor_a_bottleneck() -> None:
    """A broker that dies makes any rate unsteady, and what was busy by then is no limit of the rest."""
    found = fig7(_AS_PUBLISHED, unsteady=_LARGE, bottleneck="disk")
    died = "node died: exit status 1"
    cut_short = replace(found, repeats=[replace(line, partial=died) for line in found.repeats])
    told = [judge("s0-fig7", [cut_short])[each].answer for each in (4, 7, 8)]
    assert [each.verdict for each in told] == [UNTOLD] * 3
    assert all(died in each.why for each in told)
    # Beside whole ones, which are evidence, it takes nothing away and has no say.
    steady = Steady(is_steady=True, variation=0.01, slope_per_minute=0.0)
    network = Bottleneck(verdict="network", is_held_up=True)
    lines = [
        replace(line, partial=died, steady=steady, bottleneck=network, gate={"rate_per_s": "others"})
        if line.repeat == 2
        else line
        for line in found.repeats
    ]
    beside = verdicts("s0-fig7", replace(found, repeats=lines))
    assert [beside[each] for each in (4, 7, 8)] == [HOLDS] * 3


@pytest.mark.parametrize(
    ("gate", "partial", "told"),
    [
        ("passed", "node died: exit status 1", "node died: exit status 1"),
        ("not measurable here: no link", None, "not measurable here: no link"),
        ("passed", None, None),
    ],
)
def test_why_something_was_not_measured(gate: str, partial: str | None, told: str | None) -> None:
    found = fig6(ram=249_000, disk=220_000)
    metrics = {"rate_per_s": 1.0} if partial else {}
    lines = [replace(each, metrics=metrics, gate={"rate_per_s": gate}, partial=partial) for each in found.repeats]
    [reached, *_] = judge("s0-fig6", [replace(found, repeats=lines)])
    why = "rate was not measured with read_in_ram=True" + (f": {told}" if told else "")
    assert reached.answer.why == why


def test_a_difference_within_chance_is_none_and_within_much_chance_untold() -> None:
    near = {**_AS_PUBLISHED, ("16KiB", 1): 251e3, ("16KiB", "all"): 252e3}
    assert verdicts("s0-fig7", fig7(near))[1] is DOES_NOT
    assert verdicts("s0-fig7", fig7(near, spread=[0.5, 1.0, 1.6]))[1] is UNTOLD


# --- The tables ------------------------------------------------------------------------------------------------------


def test_a_workload_without_groups_or_a_rate_cannot_tell() -> None:
    found = cku(rate=239e3, consumed=3.0)
    for workload, told in (({"rate": "240K"}, [UNTOLD, HOLDS]), ({"groups": 3}, [HOLDS, UNTOLD])):
        unsaid = replace(found, scenario=replace(found.scenario, workload=workload))
        assert verdicts("s2-cku", unsaid) == told


def test_what_the_papers_state_of_limits() -> None:
    stated = {(each.preset, each.metric, each.value) for each in PUBLISHED if each.is_level}
    assert {("s0-fig7", "rate_per_s", 340_000), ("s0-fig10", "rate_per_s", 421_000)} <= stated
    assert {("s2-cku", "mb_per_s", value) for value in (50, 100, 120)} <= stated
    assert {("s2-cku", "consumed_mb_per_s", value) for value in (150, 300)} <= stated
    assert {("s2-tips", "mb_per_s", value) for value in (5, 50)} <= stated
    assert {("s2-tips", "consumed_mb_per_s", value) for value in (15, 150)} <= stated
    assert {("s2-tips", "connections", 1000), ("s2-tips", "partitions", 3000)} <= stated
    # 'About to double' is no number of its own.
    assert not [each for each in PUBLISHED if each.metric == PACKETS and each.cell == {"sender": "remote"}]


def test_words_at_a_line_fit_on_a_phone() -> None:
    assert [each.text for each in PUBLISHED if each.is_level and len(each.text) > 46] == []


def test_every_preset_that_is_published_is_judged_and_quoted() -> None:
    judged = {finding.preset for finding in FINDINGS}
    assert {each.preset for each in PUBLISHED} <= judged
    assert {each.source.paper for each in (*FINDINGS, *PUBLISHED)} == MACHINES.keys()
    for each in itertools.chain(FINDINGS, PUBLISHED):
        assert each.source.quote
        assert each.source.section
