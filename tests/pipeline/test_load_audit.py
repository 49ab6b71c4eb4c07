"""Tables that a real load made, under audit: what it brought is complete, and what it has not come to is late."""

from dataclasses import replace
from pathlib import Path

from deltalake import DeltaTable

from headrace.audit import AuditedProducer
from headrace.pipeline.json_decoding import JsonDecoder
from headrace.pipeline.load import Load
from headrace.pipeline.location import parse_location
from headrace.testing import BrokerPool
from tests.clients.audited import BEGAN_MS, WINDOWS, audit, send, troubles
from tests.clients.command_line import Headrace
from tests.pipeline.loading import load, request, run_here
from tests.pipeline.object_store import BUCKET, object_store
from tests.pipeline.topics import cut, delete


def test_what_was_loaded_is_complete_and_what_was_not_yet_is_late(headrace_pool: BrokerPool, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with headrace_pool.broker() as broker:
        broker.create_topic("clicks", 3)
        send(broker, "clicks", each=200)
        load(broker, lake)
        assert troubles(audit(broker, "clicks", "--lake", lake)) == {}

        send(broker, "clicks", each=10, producer_id="web-2")
        report = audit(broker, "clicks", "--lake", lake)
        assert troubles(report) == {("lake", window): {"late": 10} for window in range(WINDOWS)}

        load(broker, lake)
        report = audit(broker, "clicks", "--lake", lake)
        assert report["well"]
        assert [row["arrived"] for row in report["rows"]] == [210] * 2 * WINDOWS


def test_rows_that_somebody_deleted_are_missing_also_the_last_ones(headrace_pool: BrokerPool, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with headrace_pool.broker() as broker:
        broker.create_topic("clicks")
        send(broker, "clicks", each=10)
        load(broker, lake)
        assert audit(broker, "clicks", "--lake", lake)["gone"] == {}
        DeltaTable(lake).delete('"offset" >= 28')
        report = audit(broker, "clicks", "--lake", lake)
        assert troubles(report) == {("lake", WINDOWS - 1): {"missing": 2}}
        assert report["gone"] == {"lake": 2}
        shown = Headrace(broker.bootstrap)("audit", "clicks", "--lake", lake, status=1)
        assert "lake: 2 rows were loaded, by the ledger, and are gone from the table since" in shown.stderr


def test_of_a_topic_that_was_made_anew_what_is_not_loaded_yet_is_late(
    headrace_pool: BrokerPool, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    with headrace_pool.broker() as broker:
        broker.create_topic("clicks")
        send(broker, "clicks", each=20)
        load(broker, lake)
        delete(broker.bootstrap, "clicks")
        broker.create_topic("clicks")
        send(broker, "clicks", each=10, producer_id="web-2")
        # With the old topic the node has lost what is in the lake.
        at_the_node = {("node", window): {"missing": 20} for window in range(WINDOWS)}
        report = audit(broker, "clicks", "--lake", lake)
        assert troubles(report) == at_the_node | {("lake", window): {"late": 10} for window in range(WINDOWS)}

        load(broker, lake, accepts_new_topic=True)
        send(broker, "clicks", each=1, producer_id="web-3")
        report = audit(broker, "clicks", "--lake", lake)
        assert troubles(report) == at_the_node | {("lake", window): {"late": 1} for window in range(WINDOWS)}

        load(broker, lake)
        assert troubles(audit(broker, "clicks", "--lake", lake)) == at_the_node


def test_what_was_deleted_before_the_first_load_is_not_the_lakes_fault(
    headrace_pool: BrokerPool, tmp_path: Path
) -> None:
    with headrace_pool.broker() as broker:
        broker.create_topic("clicks")
        send(broker, "clicks", each=10)
        cut(broker.bootstrap, "clicks", 15)
        load(broker, tmp_path / "lake")
        report = audit(broker, "clicks", "--lake", tmp_path / "lake")
    # Retention would not have deleted it yet, so that the node misses it.
    assert troubles(report) == {
        (tier, window): {word: count}
        for tier, word in (("node", "missing"), ("lake", "expired"))
        for window, count in ((0, 10), (1, 5))
    }


def test_what_a_lake_lost_is_missing_also_where_one_of_its_partitions_began_late_and_rests(
    headrace_pool: BrokerPool, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    with headrace_pool.broker() as broker:
        broker.create_topic("clicks", 2)
        for number in range(5):
            broker.produce("clicks", b"%d" % number, partition=1, timestamp_ms=BEGAN_MS - 60_000)
        cut(broker.bootstrap, "clicks", 5, partition=1)
        load(broker, lake)
        DeltaTable(lake / "_ledger").update({"committed_at": f"to_timestamp_micros({1000 * BEGAN_MS})"})
        send(broker, "clicks", each=20, partition=0)
        load(broker, lake)
        DeltaTable(lake).delete('"offset" >= 25 AND "offset" < 28')
        report = audit(broker, "clicks", "--lake", lake)
    assert troubles(report) == {("lake", 1): {"missing": 3}}


def test_dead_letters_have_arrived(headrace_pool: BrokerPool, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    decoder = JsonDecoder('{"page": "string"}')
    with headrace_pool.broker() as broker:
        broker.create_topic("clicks")
        with AuditedProducer({"bootstrap.servers": broker.bootstrap}, producer_id="web-1") as producer:
            for value in (b'{"page": "a"}', b"no JSON", b'{"page": "b"}', b"{"):
                producer.produce("clicks", value, timestamp=BEGAN_MS)
        loaded = load(broker, lake, kind="json", decoder=decoder)
        assert (loaded.rows, loaded.dead_letters) == (2, 2)
        assert troubles(audit(broker, "clicks", "--lake", lake)) == {}


def test_a_table_in_an_object_store_is_audited_too(headrace_pool: BrokerPool) -> None:
    with headrace_pool.broker() as broker, object_store() as store:
        broker.create_topic("clicks")
        send(broker, "clicks", each=10)
        lake = f"s3://{BUCKET}/clicks"
        asked = replace(request(broker.bootstrap, Path(lake)), lake=parse_location(lake, store.options))
        with Load(asked, run=run_here) as work:
            work.once()
        send(broker, "clicks", each=1, producer_id="web-2")
        words = [word for name, value in store.options.items() for word in ("--lake-option", f"{name}={value}")]
        report = audit(broker, "clicks", "--lake", lake, *words)
    assert troubles(report) == {("lake", window): {"late": 1} for window in range(WINDOWS)}
