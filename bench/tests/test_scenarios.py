"""The table of rows is consistent with itself."""

import pytest

from bench.loads import BareConsume, Consume, Load, Restart
from bench.metrics import METRICS
from bench.scenarios import SATURATION_ROW, SCENARIOS, blocks, choose


def test_names_are_unique() -> None:
    names = [row.name for row in SCENARIOS]
    assert len(names) == len(set(names))


def test_every_requirement_is_about_a_known_metric() -> None:
    assert {requirement.metric for row in SCENARIOS for requirement in row.requires} <= set(METRICS)


def test_what_reads_stands_after_what_wrote_it_in_the_same_block() -> None:
    for rows in blocks(SCENARIOS):
        written: list[Load] = []
        for row in rows:
            if isinstance(row.load, BareConsume | Consume | Restart):
                assert any(row.load.of is load for load in written), row.name
            written.append(row.load)


def test_a_row_brings_the_rows_that_it_needs() -> None:
    for kind in ("200b", "200b-bare"):
        assert [row.name for row in choose([f"consume-{kind}"], quick=False)] == [f"produce-{kind}", f"consume-{kind}"]
    assert SATURATION_ROW in {row.name for row in choose(["end-to-end-80"], quick=False)}


@pytest.mark.parametrize("quick", [False, True])
def test_patterns_choose_rows_whether_or_not_the_smoke_run_has_them(quick: bool) -> None:
    names = [row.name for row in choose(["log-10gb-*"], quick=quick)]
    assert names == ["log-10gb-produce", "log-10gb-consume"]


def test_an_unknown_row_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(LookupError, match=r"no such row: nothing.*produce-200b"):
        choose(["nothing"], quick=False)


def test_the_smoke_run_reaches_every_kind_of_load() -> None:
    assert {type(row.load) for row in choose(None, quick=True)} == {type(row.load) for row in SCENARIOS}
