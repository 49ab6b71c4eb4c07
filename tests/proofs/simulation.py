"""Seeds of the simulated crashes: a node on a machine that loses power, and a disk that forgets what was not synced.

The real processes of the other proofs keep their page cache whatever happens to them. This one does not, and it
replays: a seed is a history. Some seeds are run twice, which must give the same trace. Every core takes its share.
"""

import multiprocessing
from typing import Final

from headrace.sim.crashes import run_seed
from tests.proofs.ledger import Anomaly
from tests.proofs.proof import Facts, Slice, merge_facts

# At least so much must happen in a seed for it to count.
ACKNOWLEDGED_MIN: Final = 500
FAULTS_MIN: Final = 5
VIRTUAL_S_MIN: Final = 30.0
TWICE_EVERY: Final = 25


def run(work: Slice) -> Facts:
    facts: Facts = {}
    with multiprocessing.get_context("spawn").Pool() as pool:
        outcomes = pool.imap(run_one, work.units)
        for _ in work.each():
            facts = merge_facts(facts, next(outcomes))
    return facts


def run_one(seed: int) -> Facts:
    outcome = run_seed(seed)
    if outcome.anomalies:
        raise Anomaly(str(outcome))
    faults = sum(outcome.faults.values())
    assert outcome.acknowledged >= ACKNOWLEDGED_MIN, str(outcome)
    assert outcome.virtual_s >= VIRTUAL_S_MIN, str(outcome)
    assert faults >= FAULTS_MIN, str(outcome)
    replayed = seed % TWICE_EVERY == 0
    if replayed and (again := run_seed(seed)).trace_hash != outcome.trace_hash:
        raise Anomaly(f"seed {seed} is two histories: {outcome.trace_hash} and {again.trace_hash}")
    return {
        "batches_acknowledged": outcome.acknowledged,
        "records_served": outcome.served,
        "virtual_hours": outcome.virtual_s / 3600,
        "starts": outcome.starts,
        "seeds_run_twice": int(replayed),
        "faults": faults,
        **{f"faults: {name}": count for name, count in sorted(outcome.faults.items())},
    }
