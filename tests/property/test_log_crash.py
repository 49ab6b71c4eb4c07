"""One log through power losses: what is left is a beginning of what was written, with at least all that was flushed."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.batch import BatchHeader
from headrace.sim.disk import SimDisk, Survival
from headrace.sim.world import World
from tests.unit.storage.logs import NOW_MS, LogStage, batch

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3), st.integers(0, 6000)),
        st.tuples(st.just("flush"), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("crash"), st.just(0), st.just(0)),
        st.tuples(st.just("kill"), st.just(0), st.just(0)),
        st.tuples(st.just("stop"), st.just(0), st.just(0)),
    ),
    max_size=40,
)
SETTINGS = st.fixed_dictionaries(
    {"segment_bytes": st.sampled_from([400, 5000, 1 << 20]), "index_interval_bytes": st.sampled_from([0, 1000])}
)


def placeless(header: BatchHeader) -> tuple[int, int, int]:
    return header.base_offset, header.last_offset, header.crc


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), SETTINGS, STEPS)
def test_what_is_left_is_a_beginning_with_all_that_was_flushed(
    seed: int, log_settings: dict[str, Any], steps: list[tuple[str, int, int]]
) -> None:
    stage = LogStage(SimDisk(World(seed)), **log_settings)
    written: list[tuple[int, int, int]] = []
    epoch = sequence = 0
    recovery_point = 0
    for step, count, size in steps:
        # What a checkpoint would say, if there were one at every step.
        recovery_point = max(recovery_point, stage.log.recovery_point)
        flushed = stage.log.flushed_offset
        match step:
            case "append":
                values = [bytes(size)] * count
                producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequence}
                stage.append(batch(*values, timestamp_ms=NOW_MS + sequence, **producer), epoch=epoch)
                sequence += count
                written.append(placeless(stage.batches()[-1]))
                continue
            case "flush":
                assert stage.flush() is None
            case "wait":
                for _ in range(count):
                    stage.world.step()
            case "crash":
                stage.crash(Survival.BY_CHANCE, recovery_point=recovery_point)
                epoch += 1
            case "kill":
                flushed = stage.log.end_offset
                stage.kill(recovery_point=recovery_point)
                epoch += 1
            case "stop":
                flushed = stage.log.end_offset
                stage.stop()
        found = [placeless(header) for header in stage.batches()]
        assert found == written[: len(found)]
        assert stage.log.end_offset >= flushed
        written = found
        # The next batch of the producer is the one behind the last that is there.
        sequence = stage.log.end_offset
        recovery_point = min(recovery_point, stage.log.end_offset)
        assert recovery_point <= stage.log.flushed_offset
