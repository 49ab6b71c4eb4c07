"""Two streams that count numbered records by window and page until SIGTERM, into the tables of `windows.py`.

    python -m tests.proofs.counting_stream BOOTSTRAP TOPIC DIRECTORY MASTER OFFSETS_PER_TRIGGER [SETTING=VALUE...]

Where one of them fails, the other ends with it, and so does the program. Before anything else it says which batches
will come again: those that are in a table, and of which Spark does not know that they are done.
"""

import signal
import sys
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from pyspark.sql import functions as sf

from headrace.pipeline import landing, streams
from headrace.pipeline.session import spark_session
from tests.proofs.windows import CLOSED, LATE_S, RUNNING, WIDTH_S, last_done

AGAIN: Final = "comes again"
_KEYS: Final = {RUNNING: ("window_start", "page"), CLOSED: ()}


def checkpoint_of(table: Path) -> Path:
    return table.with_suffix(".state")


def tell_what_comes_again(table: Path) -> None:
    if not DeltaTable.is_deltatable(str(table)):
        return
    landed = landing.landed(table)
    if landed is not None and landed > last_done(checkpoint_of(table)):
        print(f"batch {landed} of {table.name} {AGAIN}", flush=True)


def run(
    bootstrap: str, topic: str, directory: Path, master: str, offsets_per_trigger: str, settings: dict[str, str]
) -> None:
    for name in _KEYS:
        tell_what_comes_again(directory / name)
    stopped = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    # Spark's two hundred partitions would be as many files of state for each batch.
    spark = spark_session(master=master, app="counting", settings={"spark.sql.shuffle.partitions": "2"} | settings)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    for name, keys in _KEYS.items():
        source = spark.readStream.format("headrace").options(**options, maxOffsetsPerTrigger=offsets_per_trigger)
        pages = source.load().select("timestamp", sf.col("key").cast("string").alias("page"))
        counted = streams.counted(pages, streams.Tumbling(f"{WIDTH_S} seconds"), by=["page"], late=f"{LATE_S} seconds")
        table = directory / name
        landing.to_table(counted, table, name=name, checkpoint=checkpoint_of(table), keys=keys)
    while not stopped and not spark.streams.awaitAnyTermination(1):  # Raises what a stream failed with.
        pass
    for query in spark.streams.active:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    given_bootstrap, given_topic, given_directory, given_master, given_offsets, *given_settings = sys.argv[1:]
    pairs = dict(setting.split("=", 1) for setting in given_settings)
    run(given_bootstrap, given_topic, Path(given_directory), given_master, given_offsets, pairs)
