"""The lake's tier counted by Spark is the lake's tier counted here, and finds what was planted."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.audit.lake_tier import count_lake
from headrace.audit.tally import Counted
from headrace.pipeline.audit_job import count_with
from headrace.testing import BrokerPool
from tests.clients.audited import audit, send, troubles, write_lake
from tests.clients.command_line import Headrace


@pytest.mark.parametrize(("lost", "doubled"), [(0, 0), (3, 2)])
def test_spark_finds_what_was_planted(
    spark: SparkSession, headrace_pool: BrokerPool, tmp_path: Path, lost: int, doubled: int
) -> None:
    lake = tmp_path / "lake"
    with headrace_pool.broker() as broker:
        broker.create_topic("clicks", 3)  # A task has some partitions, and of a span whatever went there.
        send(broker, "clicks", each=300)
        assert all(len(broker.log("clicks", partition)) > 100 for partition in range(3))
        broker.produce("clicks", "of a sender that is not audited")
        write_lake(broker, "clicks", lake, lost=lost, doubled=doubled)
        report = audit(broker, "clicks", "--lake", lake, "--master", "local[2,3]")  # The session that is there.
    assert troubles(report) == ({("lake", 1): {"missing": lost, "duplicated": doubled}} if lost else {})
    assert summary(count_lake(str(lake), "clicks", count_rows=count_with(spark))) == summary(
        count_lake(str(lake), "clicks")
    )


def summary(counted: Counted) -> object:
    spans = {span: (seen.runs, seen.again, seen.host, seen.time_ms_max) for span, seen in counted.spans.items()}
    return spans, counted.extents, counted.unstamped, counted.malformed


def test_a_master_without_a_lake_has_nothing_to_count() -> None:
    told = Headrace("127.0.0.1:1")("audit", "clicks", "--master", "local[2,3]", status=2)
    assert "say --lake too" in told.stderr
