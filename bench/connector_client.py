"""One of the two connectors at work, in a Spark of its own, for `bench.connector`.

    python -m bench.connector_client headrace|kafka BOOTSTRAP --jars JAR,...

Jobs come as lines of JSON: `topic`, `ends` (the offset at which each partition ends), `tasks` and `into`, a directory
that is not there yet. Each is answered by a line with the seconds that it took. The program is the same for both but
for the word given to `format`, and so are all settings of Spark.
"""

import argparse
import json
import sys
import time
from typing import Any, Final

from pyspark.sql import SparkSession

from headrace.pipeline.session import spark_session

_MASTER: Final = "local[2]"
_COMPRESSION: Final = "snappy"  # Spark's own choice; said, so that nobody has to look it up.


def run(spark: SparkSession, connector: str, bootstrap: str, job: dict[str, Any]) -> float:
    """Seconds from planning to the last file."""
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": job["topic"],
        "startingOffsets": "earliest",
        "endingOffsets": json.dumps({job["topic"]: job["ends"]}),
        "minPartitions": str(job["tasks"]),
    }
    began_s = time.perf_counter()
    frame = spark.read.format(connector).options(**options).load()
    frame.write.option("compression", _COMPRESSION).parquet(job["into"])
    return time.perf_counter() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("connector", choices=("headrace", "kafka"))
    parser.add_argument("bootstrap")
    parser.add_argument("--jars", required=True)
    given = parser.parse_args()
    # The jars are there for both, so that the two differ in nothing else.
    settings = {"spark.jars": given.jars, "spark.sql.session.timeZone": "UTC"}
    spark = spark_session(master=_MASTER, app="headrace-bench", settings=settings)
    for line in sys.stdin:
        print(json.dumps({"seconds": run(spark, given.connector, given.bootstrap, json.loads(line))}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
