"""The hundred thousand mutations of `tests.hostile.storm`, two thousand to a node."""

from tests.hostile.storm import storm
from tests.proofs.proof import Facts, Slice


def run(work: Slice) -> Facts:
    outcome = storm(first=work.units.start, count=len(work.units), progress=work.advance)
    # A storm that only ever bounced off the door, or that no honest client went through, would prove nothing.
    assert outcome.answered > 0, outcome
    assert outcome.closed > 0, outcome
    assert outcome.honest_rounds > 0, outcome
    return {
        "answered": outcome.answered,
        "closed": outcome.closed,
        "left_waiting": outcome.left_waiting,
        "honest_rounds": outcome.honest_rounds,
        "honest_wait_s_max": outcome.honest_slowest_s,
        "memory_mb_max": outcome.memory_mb,
    }
