"""The lake's tier counted by Spark is the lake's tier counted here, and finds what was planted."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.audit.lake_tier import count_lake
from headrace.audit.log_tier import find_life
from headrace.audit.tally import Counted
from headrace.pipeline.audit_job import count_with
from headrace.testing import BrokerPool
from headrace.wire.settings import client_settings
from tests.clients.audited import audit, send, troubles, write_lake
from tests.clients.command_line import Headrace
from tests.pipeline.loading import load
from tests.pipeline.topics import cut, delete


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


def test_spark_counts_one_life_of_a_topic_and_what_is_gone_of_it(
    spark: SparkSession, headrace_pool: BrokerPool, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    with headrace_pool.broker() as broker:
        for each, partitions in ((20, 3), (10, 2)):
            broker.create_topic("clicks", partitions)
            send(broker, "clicks", each=each, producer_id=f"web-{each}")
            load(broker, lake, accepts_new_topic=True)
            if each == 20:
                delete(broker.bootstrap, "clicks")
        settings = client_settings(broker.bootstrap)
        life = find_life(settings, "clicks")
    DeltaTable(lake).delete(f"topic_id = '{life.topic_id}' and \"offset\" = 1")
    here = count_lake(str(lake), "clicks", life=life)
    there = count_lake(str(lake), "clicks", life=life, count_rows=count_with(spark))
    assert summary(there) == summary(here)
    assert (there.rows, there.gone) == (here.rows, here.gone)
    assert here.gone == 2
    assert sum(end for _, end in here.extents.values()) == 30


def test_spark_knows_as_well_since_when_a_lake_had_messages(
    spark: SparkSession, headrace_pool: BrokerPool, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    with headrace_pool.broker() as broker:
        broker.create_topic("clicks", 2)
        send(broker, "clicks", each=20)
        cut(broker.bootstrap, "clicks", 3)
        load(broker, lake)
        first_ms = broker.log("clicks").records[0].timestamp_ms
    here = count_lake(str(lake), "clicks")
    assert here.began_ms == {0: first_ms}
    assert count_lake(str(lake), "clicks", count_rows=count_with(spark)).began_ms == here.began_ms


def summary(counted: Counted) -> object:
    spans = {span: (seen.runs, seen.again, seen.host, seen.time_ms_max) for span, seen in counted.spans.items()}
    return spans, counted.extents, counted.unstamped, counted.malformed


def test_a_master_without_a_lake_has_nothing_to_count() -> None:
    told = Headrace("127.0.0.1:1")("audit", "clicks", "--master", "local[2,3]", status=2)
    assert "say --lake too" in told.stderr
