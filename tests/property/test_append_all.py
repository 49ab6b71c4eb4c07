"""Batches appended together stand as if each had been appended alone."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.batch import parse_header
from tests.unit.storage.logs import NOW_MS, LogStage, batch

SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "segment_bytes": st.sampled_from([200, 400, 1 << 20]),
    "segment_ms": st.sampled_from([5, 1 << 40]),
    "segment_index_bytes": st.sampled_from([36, 60, 1 << 20]),
    "index_interval_bytes": st.sampled_from([0, 150, 4096]),
    "log_append_time": st.booleans(),
    "flush_before_expose": st.booleans(),
}
BATCHES = st.builds(
    lambda values, age_ms: batch(*values, timestamp_ms=NOW_MS + age_ms),
    st.lists(st.binary(max_size=60), min_size=1, max_size=4),
    st.integers(0, 20),
)


@given(settings=st.fixed_dictionaries(SETTINGS), groups=st.lists(st.lists(BATCHES, min_size=1, max_size=6), max_size=6))
def test_together_is_as_one_by_one(settings: dict[str, Any], groups: list[list[bytes]]) -> None:
    together, alone = LogStage(**settings), LogStage(**settings)
    for epoch, group in enumerate(groups):
        views = [memoryview(bytearray(data)) for data in group]
        together.log.append_all([(view, parse_header(view)) for view in views], now_ms=NOW_MS, leader_epoch=epoch)
        for data in group:
            alone.append(data, epoch=epoch)
        assert together.log.statistics() == alone.log.statistics()
        assert together.batches() == alone.batches()
    for stage in (together, alone):
        stage.settle()
        stage.log.close()
    assert files(together) == files(alone)


def files(stage: LogStage) -> dict[str, bytes | None]:
    directory = stage.log.directory
    return {name: stage.disk.read_file(f"{directory}/{name}") for name in stage.disk.list(directory)}
