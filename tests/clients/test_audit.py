"""The audit on a real broker: whatever is lost or doubled at a tier is found there, in its window, to the message."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

from headrace.audit import AuditedConsumer
from headrace.columnar.reading import Scan
from headrace.testing import Broker, BrokerPool
from tests.clients.audited import WINDOWS, audit, copy_tampered, send, troubles, write_lake
from tests.clients.command_line import Headrace
from tests.pipeline.topics import cut

EACH = 2_500  # Messages in a window.
TOPIC = "clicks"
MIDDLE = 1

PLANTED = [
    pytest.param(0, 0, id="nothing"),
    pytest.param(1, 0, id="one lost"),
    pytest.param(1_000, 0, id="1000 lost"),
    pytest.param(0, 1, id="one doubled"),
    pytest.param(0, 1_000, id="1000 doubled"),
    pytest.param(1, 1, id="one lost and one doubled"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic(TOPIC)
        send(broker, TOPIC, each=EACH)
        yield broker


def planted(tier: str, lost: int, doubled: int) -> dict[tuple[str, int], dict[str, int]]:
    found = {word: count for word, count in (("missing", lost), ("duplicated", doubled)) if count}
    return {(tier, MIDDLE): found} if found else {}


@pytest.mark.parametrize(("lost", "doubled"), PLANTED)
def test_what_the_log_lost_or_doubled_is_found(
    broker: Broker, headrace_pool: BrokerPool, lost: int, doubled: int
) -> None:
    with headrace_pool.broker() as tampered:
        copy_tampered(broker, tampered, TOPIC, lost=lost, doubled=doubled)
        report = audit(tampered, TOPIC)
    assert troubles(report) == planted("node", lost, doubled)
    assert len(report["rows"]) == WINDOWS
    assert report["well"] == (lost == doubled == 0)


@pytest.mark.parametrize(("lost", "doubled"), PLANTED)
def test_what_a_lake_lost_or_doubled_is_found(broker: Broker, tmp_path: Path, lost: int, doubled: int) -> None:
    write_lake(broker, TOPIC, tmp_path / "lake", lost=lost, doubled=doubled)
    report = audit(broker, TOPIC, "--lake", tmp_path / "lake")
    assert troubles(report) == planted("lake", lost, doubled)
    assert len(report["rows"]) == 2 * WINDOWS


@pytest.mark.parametrize(("lost", "doubled"), PLANTED)
def test_what_a_consumer_lost_or_doubled_is_found(
    broker: Broker, headrace_pool: BrokerPool, lost: int, doubled: int
) -> None:
    with headrace_pool.broker() as own:
        copy_tampered(broker, own, TOPIC)
        turn = EACH + EACH // 2
        with AuditedConsumer({"bootstrap.servers": own.bootstrap, "group.id": "billing"}) as consumer:
            consume(consumer, 0, turn - lost)
            consume(consumer, turn, turn + doubled)
            consume(consumer, turn, WINDOWS * EACH)
        report = audit(own, TOPIC)
    assert troubles(report) == planted("billing", lost, doubled)
    assert len(report["rows"]) == 2 * WINDOWS


def consume(consumer: AuditedConsumer, first: int, end: int, *, partition: int = 0) -> None:
    """Exactly these offsets."""
    if first == end:
        return
    consumer.assign([TopicPartition(TOPIC, partition, first)])
    left = end - first
    while left:
        messages = consumer.consume(min(left, 500), timeout=10)
        assert messages, "nothing came"
        assert all(message.error() is None for message in messages)
        left -= len(messages)
    consumer.commit()


def test_a_consumer_that_is_not_there_yet_is_late(broker: Broker, headrace_pool: BrokerPool) -> None:
    with headrace_pool.broker() as own:
        copy_tampered(broker, own, TOPIC)
        with AuditedConsumer({"bootstrap.servers": own.bootstrap, "group.id": "billing"}) as consumer:
            consume(consumer, 0, EACH + 100)
        report = audit(own, TOPIC)
    assert troubles(report) == {("billing", 1): {"late": EACH - 100}, ("billing", 2): {"late": EACH}}
    assert not report["well"]


def test_a_consumer_that_began_later_is_not_blamed_for_what_was_before(
    broker: Broker, headrace_pool: BrokerPool
) -> None:
    with headrace_pool.broker() as own:
        copy_tampered(broker, own, TOPIC)
        with AuditedConsumer({"bootstrap.servers": own.bootstrap, "group.id": "billing"}) as consumer:
            consume(consumer, EACH + 100, WINDOWS * EACH)
        report = audit(own, TOPIC)
    assert troubles(report) == {("billing", 0): {"expired": EACH}, ("billing", 1): {"expired": 100}}
    assert report["well"]


def empty(broker: Broker, partition: int, *, count: int = 5) -> None:
    """A partition that had messages of nobody in particular, and has none any more."""
    for _ in range(count):
        broker.produce(TOPIC, b"gone", partition=partition)
    cut(broker.bootstrap, TOPIC, count, partition=partition)


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_loss_is_missing_beside_a_partition_that_was_emptied(
    broker: Broker, headrace_pool: BrokerPool, is_quiet: bool
) -> None:
    """Retention by time deletes nothing that is younger: not where there is a message again, either."""
    with headrace_pool.broker() as own:
        copy_tampered(broker, own, TOPIC, lost=7, partitions=2)
        empty(own, 1)
        if is_quiet:
            own.produce(TOPIC, b"young", partition=1)
        report = audit(own, TOPIC)
    assert troubles(report) == {("node", MIDDLE): {"missing": 7}}
    assert not report["well"]


@pytest.mark.parametrize("config", [{"retention_ms": -1}, {"retention_bytes": 10**9}])
def test_what_retention_by_time_does_not_explain_is_not_judged_and_not_well(
    broker: Broker, headrace_pool: BrokerPool, config: dict[str, int]
) -> None:
    with headrace_pool.broker() as own:
        copy_tampered(broker, own, TOPIC, lost=7, partitions=2, **config)
        empty(own, 1)
        report = audit(own, TOPIC)
        assert troubles(report) == {("node", MIDDLE): {"unjudged": 7}}
        assert (report["well"], report["not_judged"]) == (False, {"node": 1})
        told = Headrace(own.bootstrap)("audit", TOPIC, status=1)
        assert "unjudged 7" in told.stdout
        assert "~" in told.stdout
        assert told.stderr.startswith("not all could be judged (1 window of node): ")


def test_what_goes_from_the_log_before_an_audit_has_read_it_is_not_missing(
    broker: Broker, headrace_pool: BrokerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterate = Scan.__iter__

    def slowly(scan: Scan) -> Iterator[pa.RecordBatch]:
        if scan.ranges[0].place.topic != TOPIC:
            yield from iterate(scan)
            return
        assert scan.ranges[0].first == 0
        rows = pa.Table.from_batches(iterate(scan))
        yield from rows.slice(0, 100).to_batches()
        cut(own.bootstrap, TOPIC, EACH)
        yield from rows.slice(EACH).to_batches()

    with headrace_pool.broker() as own:
        copy_tampered(broker, own, TOPIC, lost=7, retention_bytes=10**9)
        monkeypatch.setattr(Scan, "__iter__", slowly)
        report = audit(own, TOPIC)
    assert troubles(report) == {("node", 0): {"unjudged": EACH - 100}, ("node", MIDDLE): {"missing": 7}}


def test_a_loss_of_a_consumer_that_began_later_is_missing_also_where_a_partition_rests(
    broker: Broker, headrace_pool: BrokerPool
) -> None:
    with headrace_pool.broker() as own:
        copy_tampered(broker, own, TOPIC, partitions=2)
        with AuditedConsumer({"bootstrap.servers": own.bootstrap, "group.id": "billing"}) as consumer:
            own.produce(TOPIC, b"skipped", partition=1)
            own.produce(TOPIC, b"seen", partition=1)
            consume(consumer, 1, 2, partition=1)
            consume(consumer, 100, EACH + 3)
            consume(consumer, EACH + 5, WINDOWS * EACH)
        cut(own.bootstrap, TOPIC, 2, partition=1)
        report = audit(own, TOPIC)
    assert troubles(report) == {("billing", 0): {"expired": 100}, ("billing", 1): {"missing": 2}}


def test_a_lake_that_is_not_there_yet_is_late(broker: Broker, tmp_path: Path, headrace_pool: BrokerPool) -> None:
    with headrace_pool.broker() as own:
        copy_tampered(broker, own, TOPIC)
        write_lake(own, TOPIC, tmp_path / "lake")
        send(own, TOPIC, each=10, producer_id="web-2")
        report = audit(own, TOPIC, "--lake", tmp_path / "lake")
    assert troubles(report) == {("lake", window): {"late": 10} for window in range(WINDOWS)}


def test_the_table_names_tier_window_and_count(broker: Broker, tmp_path: Path) -> None:
    write_lake(broker, TOPIC, tmp_path / "lake", lost=1, doubled=1)
    told = Headrace(broker.bootstrap)("audit", TOPIC, "--lake", tmp_path / "lake", status=1)
    rows = [line.split("  ") for line in told.stdout.splitlines()]
    (line,) = [[word.strip() for word in row if word.strip()] for row in rows if "missing" in " ".join(row)]
    assert line[1:5] == ["lake", "2,500", "2,499", "missing 1, duplicated 1"]
    assert "░" in line[5]
    assert len(rows) == 2 + 2 * WINDOWS
    assert told.stderr == "not all is well\n"


def test_problems_alone_are_shown_on_demand(broker: Broker, tmp_path: Path) -> None:
    write_lake(broker, TOPIC, tmp_path / "lake", lost=1, doubled=1)
    report = audit(broker, TOPIC, "--problems", "--lake", tmp_path / "lake")
    assert [(row["tier"], row["statuses"]) for row in report["rows"]] == [("lake", ["missing", "duplicated"])]
    report = audit(broker, TOPIC, "--problems")
    assert (report["rows"], report["well"]) == ([], True)


def test_what_cannot_be_audited_is_said_in_one_line(broker: Broker, tmp_path: Path) -> None:
    headrace = Headrace(broker.bootstrap)
    broker.produce("plain", "of a sender that is not audited")
    assert "no audited sender" in headrace("audit", "plain", status=1).stderr
    assert "there is no topic 'nowhere'" in headrace("audit", "nowhere", status=1).stderr
    assert "there is no audit topic 'other'" in headrace("audit", TOPIC, "--audit-topic", "other", status=1).stderr
    assert "neither a Delta table" in headrace("audit", TOPIC, "--lake", tmp_path / "none", status=1).stderr
    headrace("audit", TOPIC, "--grace", "soon", status=2)
