"""A loading driver killed at random moments, over and over, and now and then its broker.

The table is the topic in the end, and never anything that is not in it on the way. Commits are small, so that most
kills meet the moments that matter: between files and commit, within a commit, between dead letters, commit and ledger.
Each commit has dead letters, and every third driver begins with a replay. Kills that leave dead letters unsettled are
counted: were nobody to settle them, records would be there twice in the end.
Tasks run in the driver's process here, which starts in no time; `lake_spark.py` kills drivers that have a Spark.
"""

import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final, NamedTuple

from deltalake import DeltaTable

from headrace.ids import TopicPartition
from headrace.pipeline.lake_table import LakeTable
from headrace.pipeline.load import Load
from headrace.pipeline.splitting import OffsetRange
from headrace.pipeline.upstream import Upstream
from headrace.testing import Broker
from headrace.wire.errors import Unavailable
from tests.pipeline.loading import STRANGE_MS, check_ledger, records_of, request, rows_of, run_here, write_clicks
from tests.proofs.orphans import remove_orphans
from tests.proofs.proof import Facts, Slice

ROWS: Final = 4_000
COMMIT_OFFSETS: Final = 150
STRANGE_EVERY: Final = 50  # So that each commit has dead letters.
SETTLED_UNITS_MIN: Final = 20


def run(work: Slice) -> Facts:
    lake = work.scratch / "lake"
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    broker_kills = kills_met = unsettled = replays = rows = 0
    found = Found()
    with Broker() as broker:
        write_clicks(broker, ROWS, strange_every=STRANGE_EVERY)
        for unit in work.each():
            kills_broker = unit % 6 == 5
            broker_kills += kills_broker
            chance = random.Random(unit)
            replayed = found.choose(chance) if unit % 3 == 1 else None
            replays += replayed is not None
            while not kill_a_driver(processes, broker, lake, chance, replayed=replayed, kills_broker=kills_broker):
                # It was done before the kill: there has to be more to do.
                write_clicks(broker, ROWS, strange_every=STRANGE_EVERY)
            now = check_part(broker, lake)
            assert now >= rows, f"{rows} rows became {now}"
            kills_met += now > rows
            rows, found = now, look(broker, lake)
            unsettled += found.is_unsettled
        drive(broker.bootstrap, lake)
        dead_letters = check_whole(broker, lake)
    assert kills_met > len(work.units) // 4, "the kills met too few commits to show anything"
    # A small share may miss it by chance.
    assert unsettled or len(work.units) < SETTLED_UNITS_MIN, "no kill came between the commits of the two tables"
    rows_seen = rows_of(lake)
    orphans = remove_orphans(lake)
    assert rows_of(lake) == rows_seen
    return {
        "kills": len(work.units),
        "kills_of_the_broker": broker_kills,
        "kills_that_left_dead_letters_unsettled": unsettled,
        "replays": replays,
        "rows": sum(rows_seen.values()),
        "dead_letters": dead_letters,
        "commits": DeltaTable(lake).version(),
        "orphan_files_removed": orphans,
    }


class Found(NamedTuple):
    """How a table stands between two drivers."""

    is_unsettled: bool = False
    ends: Mapping[TopicPartition, int] = {}

    def choose(self, chance: random.Random) -> OffsetRange | None:
        """Some of what is loaded."""
        ends = {place: end for place, end in self.ends.items() if end}
        if not ends:
            return None
        place = chance.choice(sorted(ends))
        first = chance.randrange(ends[place])
        return OffsetRange(place, first, min(ends[place], first + 2 * COMMIT_OFFSETS))


def look(broker: Broker, lake: Path) -> Found:
    asked = request(broker.bootstrap, lake)
    table = LakeTable.open(asked.lake, loader=asked.loader, kind=asked.kind, rows=asked.decoder.schema)
    if table is None:
        return Found()
    upstream = Upstream(asked.settings)
    try:
        (origin,) = upstream.origins(asked.topics)
    finally:
        upstream.close()
    held = table.held(origin).partitions
    return Found(table.is_unsettled(origin), {origin.place(number): one.next_offset for number, one in held.items()})


def drive(bootstrap: str, lake: Path, replayed: OffsetRange | None = None) -> None:
    """Until all is loaded, or somebody kills the process; a broker that is away is waited for."""
    with Load(request(bootstrap, lake, offsets_per_commit=COMMIT_OFFSETS), run=run_here) as work:
        while True:
            try:
                if replayed is not None:
                    work.replay([replayed])
                work.once()
                return
            except Unavailable:
                time.sleep(0.05)


def kill_a_driver(
    processes: ForkServerContext,
    broker: Broker,
    lake: Path,
    chance: random.Random,
    *,
    replayed: OffsetRange | None,
    kills_broker: bool,
) -> bool:
    """Start one and kill it a moment later; whether it was still at work."""
    driver = processes.Process(target=drive, args=(broker.bootstrap, lake, replayed))
    # By commits and not by time alone: some machines are slow. Half of the kills wait for one of dead letters, and come
    # before the rows of the same load are committed, if they are quick.
    is_quick = chance.random() < 0.5
    watched = lake / "_dead_letters" if is_quick else lake
    commits_before = count_commits(watched)
    driver.start()
    commits_wanted = chance.randrange(1 if is_quick else 0, 4)
    while driver.is_alive() and count_commits(watched) < commits_before + commits_wanted:
        time.sleep(0.001)
    if not is_quick:
        time.sleep(chance.uniform(0.0, 0.3))
    if kills_broker:  # The driver waits for it, and is killed a little later.
        broker.kill()
        broker.start()
        time.sleep(chance.uniform(0.0, 0.5))
    driver.kill()
    driver.join()
    assert driver.exitcode in (0, -signal.SIGKILL)
    return driver.exitcode != 0


def count_commits(lake: Path) -> int:
    return len(list((lake / "_delta_log").glob("*.json")))


def check_part(broker: Broker, lake: Path) -> int:
    """That what is in the table is in the topic, nothing twice; how much it is."""
    if not DeltaTable.is_deltatable(str(lake)):
        return 0
    table = rows_of(lake)
    assert not table - records_of(broker)
    check_ledger(lake)
    return sum(table.values())


def check_whole(broker: Broker, lake: Path) -> int:
    """That each record is a row or a dead letter, once; how many are dead letters."""
    topic = records_of(broker)
    strange = Counter({record: count for record, count in topic.items() if record[3] == STRANGE_MS})
    assert rows_of(lake) == topic - strange
    dead = DeltaTable(lake / "_dead_letters").to_pyarrow_table().select(["partition", "offset"]).to_pylist()
    assert sorted(tuple(row.values()) for row in dead) == sorted(record[1:3] for record in strange)
    check_ledger(lake)
    return len(dead)
