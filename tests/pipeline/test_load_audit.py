"""Tables that a real load made, under audit: what it brought is complete, and what it has not come to is late."""

from pathlib import Path

from deltalake import DeltaTable

from headrace.audit import AuditedProducer
from headrace.pipeline.json_decoding import JsonDecoder
from headrace.testing import BrokerPool
from tests.clients.audited import BEGAN_MS, WINDOWS, audit, send, troubles
from tests.pipeline.loading import load
from tests.pipeline.topics import cut


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
        DeltaTable(lake).delete('"offset" >= 28')
        assert troubles(audit(broker, "clicks", "--lake", lake)) == {("lake", WINDOWS - 1): {"missing": 2}}


def test_what_was_deleted_before_the_first_load_is_not_the_lakes_fault(
    headrace_pool: BrokerPool, tmp_path: Path
) -> None:
    with headrace_pool.broker() as broker:
        broker.create_topic("clicks")
        send(broker, "clicks", each=10)
        cut(broker.bootstrap, "clicks", 15)
        load(broker, tmp_path / "lake")
        report = audit(broker, "clicks", "--lake", tmp_path / "lake")
    assert report["well"]
    assert troubles(report) == {
        (tier, window): {"expired": count} for tier in ("node", "lake") for window, count in ((0, 10), (1, 5))
    }


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
