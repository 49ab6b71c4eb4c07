"""Several loaders at once on one topic and one table, some of them killed, while the table is compacted and vacuumed.

In most rounds tasks run in the loaders' own processes, so that many commits meet; in every tenth round the loaders
are two commands, each with a Spark of its own. Whoever is overtaken must say so and load nothing; what all of them
bring together is the topic, once.
"""

import multiprocessing
import random
import re
import signal
import sys
import time
from datetime import timedelta
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from headrace.pipeline.lake_table import LostRace
from headrace.pipeline.load import Load
from headrace.pipeline.location import parse_location
from headrace.pipeline.upkeep import compact, vacuum
from headrace.testing import Broker
from tests.pipeline.loading import load, request, rows_told, run_here
from tests.pipeline.spark_processes import Session
from tests.proofs import numbered
from tests.proofs.numbered import Broken, TableReader
from tests.proofs.proof import Facts, Slice

ROUND_ROWS: Final = 40_000
RIVALS: Final = 3
TOPIC: Final = "numbers"
_COMMIT_OFFSETS: Final = (2_500, 5_000, 20_000)
_KILL_S_MAX: Final = 0.5
_ROUND_S_MAX: Final = 300.0
# What a loser says: who was first, or that somebody else is at the same records.
_REASON: Final = re.compile(r"another load of .* was first|somebody else loads the same records")


def run(work: Slice) -> Facts:
    lake, diary = work.scratch / "lake", work.scratch / "diary.txt"
    diary.touch()
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    reader, written, kills, spark_rounds = TableReader(lake), 0, 0, 0
    with Broker(data=work.scratch / "node") as broker:
        broker.create_topic(TOPIC, numbered.PARTITIONS, retention_ms=-1)
        for unit in work.each():
            chance = random.Random(unit)
            numbered.write(broker.bootstrap, TOPIC, range(written, written + ROUND_ROWS))
            written += ROUND_ROWS
            over = processes.Event()
            keeper = processes.Process(target=keep, args=(lake, diary, over))
            keeper.start()
            try:
                if unit % 10 == 9:
                    spark_rounds += 1
                    race_on_spark(broker, lake, work.scratch, diary)
                else:
                    kills += race(processes, broker, lake, diary, chance, kills_one=unit % 3 == 2)
            finally:
                over.set()
                keeper.join(_ROUND_S_MAX)
                keeper.kill()
            if keeper.exitcode != 0:
                raise Broken(f"whoever keeps the table in order ended with status {keeper.exitcode}")
            check_rows(lake, written)
        numbered.check_same(reader.hold(), numbered.hold_topic(broker.bootstrap, TOPIC))
        if load(broker, lake, TOPIC).commits:
            raise Broken("the table holds all records, and does not know it")
    told = diary.read_text().splitlines()
    lost = [line.removeprefix("lost: ") for line in told if line.startswith("lost: ")]
    check_reasons(lost)
    tidied = told.count("compacted")
    assert lost, "no two loaders ever met"
    assert tidied, "nothing was ever compacted beside a load"
    return {
        "rounds_on_spark": spark_rounds,
        "rows": written,
        "versions_of_the_table": DeltaTable(lake).version(),
        "races_lost": len(lost),
        "loaders_killed": kills,
        "compactions": tidied,
    }


def check_rows(lake: Path, written: int) -> None:
    """By what the table tells of its files, and by the ledger."""
    rows = DeltaTable(lake).count()
    if not rows == rows_told(lake) == written:
        raise Broken(f"of {written} records {rows} are in the table, and {rows_told(lake)} in the ledger")


def check_reasons(lost: list[str]) -> None:
    for reason in lost:
        if not _REASON.search(reason):
            raise Broken(f"somebody lost a race and does not say so: {reason}")


# --- Processes ----------------------------------------------------------------------------------------------------


def rival(bootstrap: str, lake: Path, diary: Path, commit_offsets: int) -> None:
    """Load until there is nothing left, also after others were first."""
    with Load(request(bootstrap, lake, TOPIC, offsets_per_commit=commit_offsets), run=run_here) as work:
        while True:
            try:
                if not work.once().commits:
                    return
            except LostRace as lost:
                note(diary, f"lost: {lost}")


def keep(lake: Path, diary: Path, over: Event) -> None:
    """Compact and vacuum, over and over."""
    place = parse_location(lake)
    while not over.wait(0.05):
        if not DeltaTable.is_deltatable(str(lake)):
            continue
        before, after = compact(place)
        if after < before:
            note(diary, "compacted")
        vacuum(place, older_than=timedelta(0))
        vacuum(place, older_than=timedelta(hours=24), with_orphans=True)


def note(diary: Path, line: str) -> None:
    with diary.open("a") as out:  # Short lines: none is torn by another's.
        out.write(f"{line}\n")


# --- Races --------------------------------------------------------------------------------------------------------


def race(
    processes: ForkServerContext,
    broker: Broker,
    lake: Path,
    diary: Path,
    chance: random.Random,
    *,
    kills_one: bool,
) -> bool:
    """Whether one was killed."""
    rivals: list[BaseProcess] = [
        processes.Process(target=rival, args=(broker.bootstrap, lake, diary, chance.choice(_COMMIT_OFFSETS)))
        for _ in range(RIVALS)
    ]
    for one in rivals:
        one.start()
    try:
        if kills_one:
            time.sleep(chance.uniform(0.0, _KILL_S_MAX))
            rivals[0].kill()
        for one in rivals:
            one.join(_ROUND_S_MAX)
    finally:
        for one in rivals:
            one.kill()
            one.join()
    if any(one.exitcode for one in rivals[1:]) or rivals[0].exitcode not in (0, -signal.SIGKILL):
        raise Broken(f"loaders ended with {[one.exitcode for one in rivals]}")
    return rivals[0].exitcode != 0


def race_on_spark(broker: Broker, lake: Path, directory: Path, diary: Path) -> None:
    """Two commands; one that lost says why, and is run again until it finds nothing left."""
    words = ["load", TOPIC, "--bootstrap", broker.bootstrap, "--lake", str(lake), "--once"]
    command = [sys.executable, "-m", "headrace.cli.main", *words, "--commit-offsets", str(_COMMIT_OFFSETS[0])]
    drivers = [Session(command, log=directory / f"driver-{number}.log") for number in range(2)]
    try:
        statuses = [driver.wait(_ROUND_S_MAX) for driver in drivers]
        for driver, status in zip(drivers, statuses, strict=True):
            if status not in (0, 1):
                raise Broken(f"a load ended with status {status}:\n{driver.said()[-3000:]}")
            if status == 1:
                note(diary, f"lost: {driver.said().strip().splitlines()[-1]}")
        if 0 not in statuses:  # They stopped each other; there may be something left.
            race_on_spark(broker, lake, directory, diary)
    finally:
        for driver in drivers:
            driver.end()
