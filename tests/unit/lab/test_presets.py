"""Presets: workloads that can be run, at every scale, with the cells that their findings ask for."""

import pytest

from headrace.errors import ConfigError
from headrace.lab.findings import FINDINGS
from headrace.lab.presets import PRESETS, Part, find_preset, given_of, workloads_of
from headrace.lab.published import PUBLISHED
from headrace.lab.targets.spec import BUILT_IN
from headrace.lab.workload import Workload

SCALES = ("small", "full", "0.01")
# In the order of the papers.
NAMES = {
    "s0-fig5", "s0-fig6", "s0-fig7", "s0-fig10", "s1-backlog", "s2-cku", "s2-tips", "s4-fig9", "s4-fig10", "s4-after",
}  # fmt: skip


def workloads(name: str, scale: str = "small", **changes: object) -> list[Workload]:
    return workloads_of(find_preset(name), scale=scale, changes=changes)


def test_each_preset_is_judged() -> None:
    assert PRESETS.keys() == NAMES == {finding.preset for finding in FINDINGS}
    assert all(preset.target in BUILT_IN for preset in PRESETS.values())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_workload_can_be_run_at_every_scale(name: str, scale: str) -> None:
    for workload in workloads(name, scale):
        assert workload.name.startswith(name)
        assert workload.repeats >= 3
        assert workload.cells


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_small_scale_is_for_minutes(name: str) -> None:
    took_s = sum(cell.load.send_s for workload in workloads(name) for cell, _ in workload.order())
    assert took_s < 10 * 60


def test_published_cells_are_cells_of_the_preset() -> None:
    for each in PUBLISHED:
        cells = [cell.values for workload in workloads(each.preset) for cell in workload.cells]
        assert each.cell is None or any(
            all(str(cell.get(name)) == str(value) for name, value in each.cell.items()) for cell in cells
        )


def test_published_parameters() -> None:
    [insert] = workloads("s0-fig7", "full")
    load = insert.cells[0].load
    assert (load.rate, load.send_s, load.partitions, load.terms.buffer_bytes) == (1e6, 605.0, 1, 32 * 2**20)
    assert {(cell.load.terms.acks, cell.load.terms.batch_bytes) for cell in insert.cells} == {
        (acks, size) for acks in ("0", "1", "all") for size in (16_384, 65_536)
    }
    [cku] = workloads("s2-cku", "full")
    load = cku.cells[0].load
    assert (load.partitions, load.replication, load.size, load.rate, load.processes) == (108, 3, "512", 240_000.0, 4)
    assert (load.groups, load.consumers, load.terms.acks, load.terms.linger_ms) == (3, 4, "all", 10.0)


def test_what_was_sent_from_another_host_is_a_part_of_its_own() -> None:
    senders = {"s0-fig5": [("remote", "0")], "s0-fig10": [("local+remote", "1"), ("remote", "1")]}
    for name, places in senders.items():
        here, away = workloads(name)
        assert (here.name, away.name) == (name, f"{name}-remote")
        assert {cell.load.sender for cell in here.cells} == {None}
        assert [(cell.load.sender, cell.load.acks) for cell in away.cells] == places


def test_a_number_scales_rates_and_counts() -> None:
    insert = workloads("s0-fig5", "0.1")
    assert {cell.load.rate for workload in insert for cell in workload.cells} == {10_000.0}
    [backlog] = workloads("s1-backlog", "0.001")
    assert [cell.load.messages for cell in backlog.cells] == [100, 1000, 10_000]


@pytest.mark.parametrize("scale", ["0", "-1", "tiny", "inf", "nan"])
def test_a_scale_that_is_none_is_told(scale: str) -> None:
    with pytest.raises(ConfigError, match="a scale is small, full or a number"):
        workloads("s0-fig5", scale)


def test_what_is_set_wins_and_is_not_swept() -> None:
    [insert] = workloads("s0-fig7", duration="2s", acks="1")
    assert {(cell.load.acks, cell.load.duration) for cell in insert.cells} == {("1", 2.0)}
    assert [cell.values for cell in insert.cells] == [{"batch_size": "16KiB"}, {"batch_size": "64KiB"}]
    part = Part(name="p", published={"rate": "1K", "messages": 5, "sweep": {"acks": ["0"]}}, small={"messages": None})
    assert given_of(part, scale="small", changes={"acks": "1"}) == {"name": "p", "rate": "1K", "acks": "1"}


def test_a_preset_that_there_is_not_is_told() -> None:
    with pytest.raises(ConfigError, match=r"there is no preset 's9': there are s0-fig5, "):
        find_preset("s9")
