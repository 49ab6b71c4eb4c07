"""The same programs on Spark's own Kafka connector and on ours, option by option: the same rows, or both refuse.

A program is what a test gives to `format(...)`; only that one word differs. Where we mean to differ, the case says how:
`docs/spark.md` has these as a table, each row with the test that runs it, and `tests/pipeline/test_spark_page.py` holds
the two together.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.behind import offsets_behind
from headrace.testing import Broker
from tests.interop.spark_alone import spark_alone
from tests.oracle.kafka import ApacheKafka, java_command
from tests.oracle.secured import SecuredKafka, jaas_config
from tests.oracle.spark_connector import connector_jars
from tests.oracle.subject import Headrace
from tests.oracle.toolbox import ToolMissing, require_tool, without_tool
from tests.pipeline.topics import create, cut, delete, fill, grow

OFFICIAL, OURS = "kafka", "headrace"
CONNECTORS = (OFFICIAL, OURS)
FIRST_MS = 1_700_000_000_000  # The time of every partition's first record; each next one is a second later.
COUNTS = {"two": (10, 6), "three": (4, 0, 5), "cut": (12,), "empty": (0,)}
CUT_BEFORE = 5
# What each is told in every program, so that what cannot succeed fails soon.
SOON = {
    OFFICIAL: {"kafkaConsumer.pollTimeoutMs": "3000", "fetchOffset.numRetries": "1"},
    OURS: {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000"},
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    try:
        jars = connector_jars()
    except ToolMissing as missing:
        without_tool(missing)
    settings = {"spark.jars": ",".join(map(str, jars)), "spark.sql.session.timeZone": "UTC"}
    with spark_alone(master="local[2]", settings=settings) as session:  # What fails is not tried again.
        yield session


@pytest.fixture(scope="module")
def topics(headrace: Headrace) -> dict[str, str]:
    """Topics that tests only read, by what is said of them here."""
    for name, counts in COUNTS.items():
        create(headrace.bootstrap, f"official.{name}", len(counts))
    producer = Producer({"bootstrap.servers": headrace.bootstrap})
    for name, counts in COUNTS.items():
        for partition, count in enumerate(counts):
            for number in range(count):
                producer.produce(
                    f"official.{name}",
                    None if number == 3 else f"{name}-{partition}-{number}",
                    f"key-{number}" if number % 2 else None,
                    partition,
                    timestamp=FIRST_MS + 1000 * number,
                    headers=[("n", str(number)), ("none", None)] if number % 3 == 0 else None,
                )
    assert producer.flush(30) == 0
    cut(headrace.bootstrap, "official.cut", CUT_BEFORE)
    return {name: f"official.{name}" for name in COUNTS}


# --- Running one program on both ----------------------------------------------------------------------------------


class Rows(NamedTuple):
    rows: list[Any]


class Refused(NamedTuple):
    text: str


Outcome = Rows | Refused


def outcome(program: Callable[[], list[Any]]) -> Outcome:
    try:
        return Rows(program())
    except (PySparkException, Py4JJavaError) as error:  # The latter are errors of the JVM that Spark has no name for.
        return Refused(str(error))


def read(spark: SparkSession, connector: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(connector).options(**SOON[connector] | options).load()


def rows_of(frame: DataFrame) -> list[Any]:
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


# --- The source, in batch queries -----------------------------------------------------------------------------------

ASSIGN = {"assign": '{"official.two": [1], "official.three": [0, 2]}'}
TWO = {"subscribe": "official.two"}
CUT = {"subscribe": "official.cut"}


class Case(NamedTuple):
    name: str
    options: dict[str, str]
    # What both do; or what we do where we mean to differ: refuse what the official one takes.
    both: Literal["rows", "refuse", "only we refuse"] = "rows"
    text: str = ""  # Of our refusal.
    tasks: tuple[int, int] | None = None  # How many the official one and we have, where they are not to be as many.


def by_offset(name: str, **of: int) -> dict[str, str]:
    return {name: json.dumps({"official.two": {number[1:]: offset for number, offset in of.items()}})}


SOURCE = [
    Case("assign", ASSIGN),
    Case("assign a partition that is not there", {"assign": '{"official.two": [0, 9]}'}, "only we refuse", "9 is none"),
    Case("assign what is no JSON", {"assign": "two"}, "refuse", "assign"),
    Case("subscribe", {"subscribe": "official.two, official.three"}),
    Case("subscribe to nothing", {"subscribe": " , "}, "refuse", "subscribe"),
    Case("subscribe to what is not there", {"subscribe": "official.nobody"}, "refuse", "there is no topic"),
    Case("subscribePattern", {"subscribePattern": "official[.]t.*"}),
    Case("subscribePattern in the middle of a name", {"subscribePattern": "l.t[wh]"}),
    Case("subscribePattern that matches nothing", {"subscribePattern": "nobody.*"}),
    Case("nothing to read", {}, "refuse", "exactly one of"),
    Case("two ways to say what to read", TWO | ASSIGN, "refuse", "exactly one of"),
    Case("startingOffsets=earliest", CUT | {"startingOffsets": "earliest"}),
    Case("startingOffsets=latest", TWO | {"startingOffsets": "latest"}, "refuse", "cannot begin at latest"),
    Case("startingOffsets by partition", TWO | by_offset("startingOffsets", _0=4, _1=-2)),
    Case("startingOffsets latest in one", TWO | by_offset("startingOffsets", _0=4, _1=-1), "refuse", "at latest"),
    Case("startingOffsets without a partition", TWO | by_offset("startingOffsets", _0=4), "refuse", "says nothing of"),
    Case(
        "startingOffsets of another partition",
        TWO | by_offset("startingOffsets", _0=4, _1=0, _2=0),
        "refuse",
        "which is not read",
    ),
    Case("startingOffsets that are no JSON", TWO | {"startingOffsets": "soon"}, "refuse", "is not JSON"),
    Case("endingOffsets=latest", TWO | {"endingOffsets": "latest"}),
    Case("endingOffsets=earliest", TWO | {"endingOffsets": "earliest"}, "refuse", "cannot end at earliest"),
    Case("endingOffsets by partition", TWO | by_offset("endingOffsets", _0=4, _1=-1)),
    Case(
        "an end before the start",
        TWO | by_offset("startingOffsets", _0=5, _1=0) | by_offset("endingOffsets", _0=4, _1=1),
        "refuse",
        "lies behind the end",
    ),
    Case("startingTimestamp", TWO | {"startingTimestamp": str(FIRST_MS + 3500)}),
    Case("startingTimestamp of no record", TWO | {"startingTimestamp": str(FIRST_MS + 99_999)}, "refuse", "as late as"),
    Case("startingTimestamp that is no number", TWO | {"startingTimestamp": "noon"}, "refuse", "is not a number"),
    Case(
        "startingOffsetsByTimestampStrategy=latest",
        TWO | {"startingTimestamp": str(FIRST_MS + 7500), "startingOffsetsByTimestampStrategy": "latest"},
    ),
    Case(
        "startingOffsetsByTimestampStrategy=else",
        TWO | {"startingTimestamp": str(FIRST_MS), "startingOffsetsByTimestampStrategy": "else"},
        "refuse",
        "neither error nor latest",
    ),
    Case(
        "startingOffsetsByTimestamp",
        TWO | by_offset("startingOffsetsByTimestamp", _0=FIRST_MS + 2000, _1=FIRST_MS + 1),
    ),
    Case(
        "startingOffsetsByTimestamp without a partition",
        TWO | by_offset("startingOffsetsByTimestamp", _0=FIRST_MS),
        "refuse",
        "says nothing of",
    ),
    Case("endingTimestamp", TWO | {"endingTimestamp": str(FIRST_MS + 3500)}),
    Case("endingTimestamp of no record", TWO | {"endingTimestamp": str(FIRST_MS + 99_999)}),
    Case("endingOffsetsByTimestamp", TWO | by_offset("endingOffsetsByTimestamp", _0=FIRST_MS + 2000, _1=FIRST_MS + 1)),
    Case(
        "failOnDataLoss of what expired", CUT | {"startingOffsets": '{"official.cut": {"0": 2}}'}, "refuse", "is gone"
    ),
    Case(
        "failOnDataLoss=false of what expired",
        CUT | {"startingOffsets": '{"official.cut": {"0": 2}}', "failOnDataLoss": "false"},
    ),
    Case(
        "failOnDataLoss of what was never written",
        TWO | by_offset("endingOffsets", _0=12, _1=-1),
        "refuse",
        "before the end that was asked for",
    ),
    Case(
        "failOnDataLoss=false of what was never written",
        TWO | by_offset("endingOffsets", _0=12, _1=-1) | {"failOnDataLoss": "false"},
    ),
    Case("failOnDataLoss=maybe", TWO | {"failOnDataLoss": "maybe"}, "refuse", "neither true nor false"),
    Case("includeHeaders", TWO | {"includeHeaders": "true"}),
    Case("minPartitions", TWO | {"minPartitions": "7"}),
    Case("minPartitions=0", TWO | {"minPartitions": "0"}, "refuse", "not a number from 1 on"),
    # Which the official one heeds in streams, and in a batch only where minPartitions is given too.
    Case("maxRecordsPerPartition", TWO | {"maxRecordsPerPartition": "4"}, tasks=(2, 5)),
    Case("an empty topic", {"subscribe": "official.empty"}),
    Case("isolation.level", TWO | {"kafka.isolation.level": "read_committed"}),
    Case("auto.offset.reset", TWO | {"kafka.auto.offset.reset": "latest"}, "refuse", "use startingOffsets"),
    Case("enable.auto.commit", TWO | {"kafka.enable.auto.commit": "true"}, "refuse", "cannot be set"),
    Case("interceptor.classes", TWO | {"kafka.interceptor.classes": "x"}, "refuse", "cannot be set"),
    Case("key.deserializer", TWO | {"kafka.key.deserializer": "x"}, "refuse", "cannot be set"),
    Case("value.deserializer", TWO | {"kafka.value.deserializer": "x"}, "refuse", "cannot be set"),
    # What the official one takes, or ignores with a warning, and we have no use for.
    Case(
        "kafkaConsumer.pollTimeoutMs", TWO | {"kafkaConsumer.pollTimeoutMs": "900"}, "only we refuse", "means nothing"
    ),
    Case("fetchOffset.numRetries", TWO | {"fetchOffset.numRetries": "2"}, "only we refuse", "means nothing"),
    Case("fetchOffset.retryIntervalMs", TWO | {"fetchOffset.retryIntervalMs": "9"}, "only we refuse", "means nothing"),
    Case("groupIdPrefix", TWO | {"groupIdPrefix": "mine"}, "only we refuse", "means nothing"),
    Case("group.id", TWO | {"kafka.group.id": "mine"}, "only we refuse", "cannot be set"),
    Case("maxOffsetsPerTrigger in a batch", TWO | {"maxOffsetsPerTrigger": "3"}, "only we refuse", "has no triggers"),
    Case("a path", TWO | {"path": "official.two"}, "only we refuse", "means nothing"),
    Case("an unknown option", TWO | {"startingOffset": "earliest"}, "only we refuse", "is not an option"),
    Case("a client setting without effect", TWO | {"kafka.fetch.max.bytes": "99999"}, "only we refuse", "no effect"),
]


@pytest.mark.parametrize("case", SOURCE, ids=[case.name for case in SOURCE])
def test_source(spark: SparkSession, headrace: Headrace, topics: dict[str, str], case: Case) -> None:
    options = {"kafka.bootstrap.servers": headrace.bootstrap} | case.options
    tasks: dict[str, int] = {}

    def run(connector: str) -> list[Any]:
        frame = read(spark, connector, options)
        rows = rows_of(frame)
        tasks[connector] = len([None for each in frame.rdd.glom().map(len).collect() if each])
        return [frame.schema.simpleString(), *rows]

    official, ours = (outcome(lambda connector=connector: run(connector)) for connector in CONNECTORS)
    if case.both == "rows":
        assert isinstance(official, Rows), official
        assert ours == official
        if case.tasks is None:
            assert tasks[OURS] == tasks[OFFICIAL]
        else:
            assert (tasks[OFFICIAL], tasks[OURS]) == case.tasks
        return
    assert isinstance(ours, Refused), ours
    assert case.text in ours.text
    assert isinstance(official, Rows if case.both == "only we refuse" else Refused), official


def test_bootstrap_servers(spark: SparkSession) -> None:
    for connector in CONNECTORS:
        told = outcome(lambda connector=connector: read(spark, connector, TWO).collect())
        assert isinstance(told, Refused)
        assert "kafka.bootstrap.servers" in told.text


def test_a_schema_of_ones_own(spark: SparkSession, headrace: Headrace, topics: dict[str, str]) -> None:
    options = {"kafka.bootstrap.servers": headrace.bootstrap} | TWO
    for connector in CONNECTORS:
        reader = spark.read.format(connector).options(**options).schema("value string")
        assert isinstance(outcome(lambda reader=reader: reader.load().collect()), Refused)


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted", None])
def test_isolation_level(spark: SparkSession, apache: ApacheKafka, level: str | None) -> None:
    """On Apache Kafka, after a transaction that was committed, one that was not, and before one that is open."""
    topic = f"isolation-{level}"
    create(apache.bootstrap, topic)
    for number, end in enumerate(("commit", "abort", "leave open")):
        producer = Producer({"bootstrap.servers": apache.bootstrap, "transactional.id": f"{topic}-{number}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for each in range(3):
            producer.produce(topic, f"{end}-{each}")
        producer.flush(30)
        if end == "commit":
            producer.commit_transaction(30)
        elif end == "abort":
            producer.abort_transaction(30)
    options = {"kafka.bootstrap.servers": apache.bootstrap, "subscribe": topic}
    options |= {} if level is None else {"kafka.isolation.level": level}
    official, ours = (rows_of(read(spark, connector, options)) for connector in CONNECTORS)
    assert ours == official
    assert len(ours) == (3 if level == "read_committed" else 9)


def test_client_id(spark: SparkSession, topic_name: str) -> None:
    """kafka.client.id is what the broker is told, of the source in Fetch and of the sink in Produce."""
    with Broker() as broker:
        broker.create_topic(topic_name)
        broker.produce(topic_name, b"x")
        where = {"kafka.bootstrap.servers": broker.bootstrap}
        for connector in CONNECTORS:
            mine = f"{connector}-of-mine"
            # Delays of nothing to speak of, which count the requests that they meet.
            fetches, produces = (
                broker.faults.delay(seconds=0.001, api=api, client_id=mine, times=None) for api in ("Fetch", "Produce")
            )
            for client_id in ("another", mine):
                told = where | {"kafka.client.id": client_id}
                assert read(spark, connector, told | {"subscribe": topic_name}).count() > 0
                values = spark.range(1).selectExpr("'y' AS value")
                values.write.format(connector).options(**told, topic=topic_name).mode("append").save()
                assert (fetches.hits > 0, produces.hits > 0) == (client_id == mine, client_id == mine), connector


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT"])
def test_security(spark: SparkSession, headrace: Headrace, topics: dict[str, str], protocol: str) -> None:
    """kafka.security.protocol and kafka.sasl.*, on a node that has neither: both fail for it."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    told = {"kafka.bootstrap.servers": headrace.bootstrap, "kafka.security.protocol": protocol} | TWO
    told |= {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000"}
    if protocol != "SSL":
        told |= {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas}
    official, ours = (
        outcome(lambda connector=connector: read(spark, connector, told).collect()) for connector in CONNECTORS
    )
    assert isinstance(official, Refused)
    assert isinstance(ours, Refused)
    assert ("TLS" if protocol == "SSL" else "SaslHandshake") in ours.text


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    try:
        java_command()
        require_tool("openssl", hint="the Debian package is openssl")
    except ToolMissing as missing:
        without_tool(missing)
    with SecuredKafka(tmp_path_factory.mktemp("secured") / "kafka") as broker:
        yield broker


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_sasl_ssl(spark: SparkSession, secured: SecuredKafka, topic_name: str, mechanism: str) -> None:
    """kafka.security.protocol, kafka.sasl.* and kafka.ssl.*, for writing and for reading, on Apache Kafka."""
    told = {
        "kafka.bootstrap.servers": secured.bootstrap_of("SECURE"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": jaas_config(mechanism),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(secured.path_of("authority")),
    }
    for connector in CONNECTORS:
        create(secured.bootstrap, f"{topic_name}-{connector}")
        rows = spark.range(20).selectExpr("CAST(id AS string) AS key", "repeat('x', 5000) AS value")
        rows.write.format(connector).options(**told, topic=f"{topic_name}-{connector}").mode("append").save()
    written = told | {"subscribePattern": f"{topic_name}-.*"}
    official, ours = (rows_of(read(spark, connector, written)) for connector in CONNECTORS)
    assert ours == official
    for connector in CONNECTORS:
        mine = [(row["key"], row["value"]) for row in ours if row["topic"] == f"{topic_name}-{connector}"]
        assert sorted(mine) == sorted((str(number).encode(), b"x" * 5000) for number in range(20))
    wrong = written | {"kafka.sasl.jaas.config": jaas_config(mechanism, password="another")}
    stranger = written | {"kafka.ssl.truststore.location": str(secured.path_of("stranger"))}
    for connector in CONNECTORS:
        for refused in (wrong, stranger):
            assert isinstance(outcome(lambda told=refused, by=connector: read(spark, by, told).collect()), Refused)


# --- The source, in streaming queries -------------------------------------------------------------------------------


class Stream:
    """A streaming query on one connector: what each of its batches was given, over restarts."""

    def __init__(self, spark: SparkSession, connector: str, checkpoint: Path, options: dict[str, str]) -> None:
        self._reader = spark.readStream.format(connector).options(**SOON[connector] | options)
        self._checkpoint = checkpoint
        self.batches: dict[int, list[tuple[str, int, int]]] = {}
        self.tasks: dict[int, int] = {}
        self.progress: list[Any] = []

    def run(self, **more: str) -> None:
        """All that is available now."""
        query = self._started({"availableNow": True}, more)
        assert query.awaitTermination(60)
        self.progress += query.recentProgress

    def start(self, **more: str) -> Any:
        return self._started({"processingTime": "100 milliseconds"}, more)

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    def wait(self, count: int) -> None:
        deadline_s = time.monotonic() + 60
        while len(self.rows) < count:
            assert time.monotonic() < deadline_s, self.rows
            time.sleep(0.05)

    def sizes(self) -> list[tuple[int, int]]:
        """The rows and tasks of each batch that held something."""
        return [
            (len(self.batches[number]), self.tasks[number]) for number in sorted(self.batches) if self.batches[number]
        ]

    def forget_last_commit(self) -> None:
        """As after a crash before Spark's own note of the batch: it is repeated, up to the end that it had."""
        last = max((self._checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        self.batches.clear()

    def _started(self, trigger: dict[str, Any], more: dict[str, str]) -> Any:
        writer = self._reader.options(**more).load().writeStream.foreachBatch(self._keep)
        return writer.option("checkpointLocation", str(self._checkpoint)).trigger(**trigger).start()

    def _keep(self, frame: DataFrame, number: int) -> None:
        self.tasks[number] = frame.rdd.getNumPartitions()
        self.batches[number] = sorted((row.topic, row.partition, row.offset) for row in frame.collect())


@pytest.fixture
def streams(
    spark: SparkSession, headrace: Headrace, topics: dict[str, str], tmp_path: Path
) -> Callable[..., list[Stream]]:
    """The same query on both: the official one's first."""

    def make(**options: str) -> list[Stream]:
        told = {"kafka.bootstrap.servers": headrace.bootstrap} | options
        return [Stream(spark, connector, tmp_path / connector, told) for connector in CONNECTORS]

    return make


STREAMS = [
    Case("startingOffsets=earliest", TWO | {"startingOffsets": "earliest"}),
    Case("startingOffsets by default", TWO),
    Case("startingOffsets by partition", TWO | by_offset("startingOffsets", _0=4, _1=-1)),
    Case("startingTimestamp", TWO | {"startingTimestamp": str(FIRST_MS + 3500)}),
    Case("maxOffsetsPerTrigger", TWO | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "5"}),
    Case("minPartitions", TWO | {"startingOffsets": "earliest", "minPartitions": "6"}),
    Case("maxRecordsPerPartition", TWO | {"startingOffsets": "earliest", "maxRecordsPerPartition": "4"}),
    Case("includeHeaders", TWO | {"startingOffsets": "earliest", "includeHeaders": "true"}),
    Case("subscribePattern", {"subscribePattern": "official[.]t.*", "startingOffsets": "earliest"}),
    Case("assign", ASSIGN | {"startingOffsets": "earliest"}),
    Case("endingOffsets", TWO | {"endingOffsets": "latest"}, "refuse", "has no end"),
    Case("endingOffsetsByTimestamp", TWO | {"endingOffsetsByTimestamp": "{}"}, "refuse", "has no end"),
    Case("endingTimestamp", TWO | {"endingTimestamp": "1"}, "only we refuse", "has no end"),
    Case(
        "minOffsetsPerTrigger above maxOffsetsPerTrigger",
        TWO | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"},
        "refuse",
        "is more than",
    ),
]


@pytest.mark.parametrize("case", STREAMS, ids=[case.name for case in STREAMS])
def test_stream(streams: Callable[..., list[Stream]], case: Case) -> None:
    official, ours = streams(**case.options)
    outcomes = [outcome(lambda stream=stream: stream.run() or stream.rows) for stream in (official, ours)]
    if case.both == "rows":
        assert isinstance(outcomes[0], Rows), outcomes[0]
        assert outcomes[1] == outcomes[0]
        assert ours.sizes() == official.sizes()
        return
    assert isinstance(outcomes[1], Refused), outcomes[1]
    assert case.text in outcomes[1].text
    assert isinstance(outcomes[0], Rows if case.both == "only we refuse" else Refused), outcomes[0]


def test_rows_behind_latest(streams: Callable[..., list[Stream]]) -> None:
    """The official one reports three numbers; of ours they are made of the two offsets that it reports."""
    official, ours = streams(**TWO, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    told = []
    for stream in (official, ours):
        stream.run()
        told.append([each.sources[0] for each in stream.progress if each.numInputRows])
    for theirs, mine in zip(*told, strict=True):
        assert json.loads(mine.endOffset) == json.loads(theirs.endOffset)
        assert json.loads(mine.latestOffset) == json.loads(theirs.latestOffset)
        behind = offsets_behind(mine.endOffset, mine.latestOffset)
        assert behind is not None
        assert {name: float(value) for name, value in theirs.metrics.items()} == {
            "minOffsetsBehindLatest": behind.offsets_min,
            "maxOffsetsBehindLatest": behind.offsets_max,
            "avgOffsetsBehindLatest": behind.offsets_mean,
        }


def test_what_comes_later(streams: Callable[..., list[Stream]], headrace: Headrace, topic_name: str) -> None:
    create(headrace.bootstrap, topic_name)
    fill(headrace.bootstrap, topic_name, range(3))
    both = streams(subscribePattern=f"{topic_name}.*", startingOffsets="earliest")
    for stream in both:
        stream.run()
    grow(headrace.bootstrap, topic_name, 2)
    create(headrace.bootstrap, f"{topic_name}-too")
    fill(headrace.bootstrap, topic_name, range(2), partition=1)
    fill(headrace.bootstrap, f"{topic_name}-too", range(4))
    for stream in both:
        stream.run()
    assert both[1].batches == both[0].batches
    assert len(both[1].rows) == 9


def test_minOffsetsPerTrigger(  # noqa: N802
    streams: Callable[..., list[Stream]], headrace: Headrace, topic_name: str
) -> None:
    """The first trigger takes what there is; then fewer than so many wait until the delay is over."""
    create(headrace.bootstrap, topic_name)
    fill(headrace.bootstrap, topic_name, range(3))
    both = streams(subscribe=topic_name, startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="6s")
    queries = [stream.start() for stream in both]
    try:
        for stream in both:
            stream.wait(3)
        fill(headrace.bootstrap, topic_name, range(4))
        time.sleep(1.5)
        assert [stream.sizes() for stream in both] == [[(3, 1)], [(3, 1)]]
        for stream in both:
            stream.wait(7)
        assert [stream.sizes() for stream in both] == [[(3, 1), (4, 1)], [(3, 1), (4, 1)]]
    finally:
        for query in queries:
            query.stop()


@pytest.mark.parametrize("trouble", ["expired", "made anew", "made anew before a repeat", "gone"])
@pytest.mark.parametrize("fails", ["true", "false"])
def test_failOnDataLoss(  # noqa: N802
    streams: Callable[..., list[Stream]], headrace: Headrace, topic_name: str, trouble: str, fails: str
) -> None:
    create(headrace.bootstrap, f"{topic_name}-kept")
    create(headrace.bootstrap, topic_name)
    fill(headrace.bootstrap, topic_name, range(5))
    both = streams(subscribePattern=f"{topic_name}.*", startingOffsets="earliest", failOnDataLoss=fails)
    for stream in both:
        stream.run()
    if trouble == "expired":
        fill(headrace.bootstrap, topic_name, range(5))
        cut(headrace.bootstrap, topic_name, 7)
    else:
        delete(headrace.bootstrap, topic_name)
    if trouble.startswith("made anew"):
        create(headrace.bootstrap, topic_name)
        fill(headrace.bootstrap, topic_name, range(2))
    if trouble == "made anew before a repeat":
        for stream in both:
            stream.forget_last_commit()
    fill(headrace.bootstrap, f"{topic_name}-kept", range(2))
    told = [outcome(lambda stream=stream: stream.run() or stream.rows) for stream in both]
    assert [type(each) for each in told] == ([Refused, Refused] if fails == "true" else [Rows, Rows]), told
    if fails == "false":
        assert both[1].rows == both[0].rows


# --- The sink -----------------------------------------------------------------------------------------------------

HEADERS = "array<struct<key: string, value: binary>>"
FRAMES = {
    "value": ("value string", [("a",), (None,), ("",)]),
    "binary": ("key binary, value binary", [(bytearray(b"\x00"), bytearray(b"\xff\x00")), (bytearray(b""), None)]),
    "key": ("key string, value string", [(f"key-{number}", str(number)) for number in range(30)]),
    "partition": ("key string, value string, partition int", [("k", str(number), number % 3) for number in range(9)]),
    "partition that is null": (
        "key string, value string, partition int",
        [(f"key-{number}", str(number), None if number % 2 else 1) for number in range(30)],
    ),
    "headers": (f"value string, headers {HEADERS}", [("a", [("x", b"1"), ("y", None)]), ("b", None), ("c", [])]),
    "other columns": ("value string, offset bigint, extra double", [("a", 5, 1.5)]),
    "no value": ("key string", [("a",)]),
    "value of numbers": ("value int", [(1,)]),
    "partition of long numbers": ("value string, partition bigint", [("a", 1)]),
    "headers of texts": ("value string, headers string", [("a", "b")]),
    "topic of numbers": ("value string, topic int", [("a", 1)]),
}


class Sink(NamedTuple):
    name: str
    frame: str
    options: Mapping[str, str] = MappingProxyType({})
    both: Literal["rows", "refuse", "only we refuse"] = "rows"
    text: str = ""
    mode: str = "append"


SINKS = [
    Sink("value", "value"),
    Sink("binary", "binary"),
    Sink("key", "key"),
    Sink("partition", "partition"),
    Sink("partition that is null", "partition that is null"),
    Sink("headers", "headers", {"includeHeaders": "true"}),
    Sink("headers without includeHeaders", "headers"),
    Sink("includeHeaders=false", "headers", {"includeHeaders": "false"}),
    Sink("other columns", "other columns"),
    Sink("no value", "no value", both="refuse", text="no column 'value'"),
    Sink("value of numbers", "value of numbers", both="refuse", text="column 'value' is int"),
    Sink("partition of long numbers", "partition of long numbers", both="refuse", text="column 'partition' is bigint"),
    Sink("headers of texts", "headers of texts", both="refuse", text="column 'headers' is string"),
    Sink("topic of numbers beside the option", "topic of numbers"),
    Sink("acks=1", "value", {"kafka.acks": "1"}),
    Sink("acks=2", "value", {"kafka.acks": "2"}, "refuse", "is none of 0, 1, all"),
    Sink("compression.type", "key", {"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "5"}),
    Sink("compression.type=brotli", "value", {"kafka.compression.type": "brotli"}, "refuse", "is none of"),
    Sink(
        "compression.gzip.level beside another codec",
        "value",
        {"kafka.compression.type": "zstd", "kafka.compression.gzip.level": "5"},
        "only we refuse",
        "but kafka.compression.type is zstd",
    ),
    Sink("enable.idempotence", "key", {"kafka.enable.idempotence": "false"}),
    Sink("key.serializer", "value", {"kafka.key.serializer": "x"}, "refuse", "cannot be set"),
    Sink("value.serializer", "value", {"kafka.value.serializer": "x"}, "refuse", "cannot be set"),
    Sink("linger.ms", "value", {"kafka.linger.ms": "5"}, "only we refuse", "cannot be set"),
    Sink(
        "transactional.id",
        "value",
        # The official one waits for what it cannot send until its time is over.
        {"kafka.transactional.id": "mine", "kafka.request.timeout.ms": "1000", "kafka.delivery.timeout.ms": "2000"},
        "refuse",
        "cannot be set",
    ),
    Sink("retries", "value", {"kafka.retries": "5"}, "only we refuse", "no effect"),
    Sink("an unknown option", "value", {"tropic": "x"}, "only we refuse", "is not an option"),
    Sink("mode=overwrite", "value", both="refuse", text="cannot be overwritten", mode="overwrite"),
    Sink("mode=errorifexists", "value", both="only we refuse", text="ErrorIfExists", mode="errorifexists"),
]


@pytest.mark.parametrize("case", SINKS, ids=[case.name for case in SINKS])
def test_sink(spark: SparkSession, headrace: Headrace, topic_name: str, case: Sink) -> None:
    schema, rows = FRAMES[case.frame]
    frame = spark.createDataFrame(rows, schema).coalesce(1)

    def run(connector: str) -> list[Any]:
        topic = f"{topic_name}-{connector}"
        create(headrace.bootstrap, topic, 3)
        told = {"kafka.bootstrap.servers": headrace.bootstrap, "topic": topic, **case.options}
        frame.write.format(connector).options(**told).mode(case.mode).save()
        where = {"kafka.bootstrap.servers": headrace.bootstrap, "subscribe": topic, "includeHeaders": "true"}
        written = spark.read.format(OFFICIAL).options(**where).load().orderBy("partition", "offset").collect()
        # Rows without a key are spread as each likes.
        spread = "key" not in frame.columns and "partition" not in frame.columns
        found = [(0 if spread else row.partition, row.key, row.value, row.headers) for row in written]
        return sorted(found, key=repr) if spread else found

    official, ours = (outcome(lambda connector=connector: run(connector)) for connector in CONNECTORS)
    if case.both == "rows":
        assert isinstance(official, Rows), official
        assert len(official.rows) == len(rows)
        assert ours == official
        return
    assert isinstance(ours, Refused), ours
    assert case.text in ours.text
    assert isinstance(official, Rows if case.both == "only we refuse" else Refused), official


def written_batches(broker: Broker, topic: str, *, partitions: int = 1) -> list[int]:
    """How many bytes each batch takes in the log."""
    sizes = []
    for partition in range(partitions):
        (segment,) = (broker.data / f"{topic}-{partition}").glob("*.log")
        data, place = segment.read_bytes(), 0
        while place + 12 <= len(data) and (size := int.from_bytes(data[place + 8 : place + 12], "big")):
            sizes.append(12 + size)
            place += 12 + size
    return sizes


def test_batch_size(spark: SparkSession, topic_name: str) -> None:
    """kafka.batch.size is the most that a batch in the log takes."""
    rows = spark.range(400).selectExpr("CAST(id AS string) AS key", "repeat('x', 200) AS value").coalesce(1)
    with Broker() as broker:
        for connector in CONNECTORS:
            largest = []
            for more in ({}, {"kafka.batch.size": "2048"}):
                topic = f"{topic_name}-{connector}-{len(more)}"
                broker.create_topic(topic)
                # Java's client sends what it has: while answers are held back it has more.
                broker.faults.delay(seconds=0.5, api="Produce", topic=topic, times=2)
                where = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
                rows.write.format(connector).options(**where, **more).mode("append").save()
                assert len(broker.log(topic)) == 400
                largest.append(max(written_batches(broker, topic)))
            assert largest[1] <= 2048 < 8192 < largest[0], connector


def test_buffer_memory(spark: SparkSession, topic_name: str) -> None:
    """kafka.buffer.memory is the most that is sent and not acknowledged, seen where nothing is ever answered.

    To many partitions, since ours sends a partition no second batch before it was answered for the first time.
    """
    rows = spark.range(4000).selectExpr("CAST(id AS string) AS key", "repeat('x', 200) AS value").coalesce(1)
    soon = {"kafka.request.timeout.ms": "2000", "kafka.delivery.timeout.ms": "3000", "kafka.batch.size": "16384"}
    with Broker() as broker:
        for connector in CONNECTORS:
            reached = []
            for more in ({}, {"kafka.buffer.memory": "32768"}):
                topic = f"{topic_name}-{connector}-{len(more)}"
                broker.create_topic(topic, 8)
                broker.faults.drop(api="Produce", topic=topic, times=None, handled=True)
                where = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
                writer = rows.write.format(connector).options(**where, **soon, **more).mode("append")
                assert isinstance(outcome(lambda writer=writer: writer.save() or []), Refused)
                reached.append(sum(written_batches(broker, topic, partitions=8)))
            # Java's client sends one more batch when it has given up the first.
            assert reached[1] <= 3 * 16384 < reached[0], (connector, reached)


def run_in_mode(spark: SparkSession, connector: str, mode: str, checkpoint: Path) -> list[Any]:
    """What a stream writes after either of two batches: rows or, but for `append`, how often each value was there."""
    found: list[Any] = []
    with Broker() as broker:
        broker.create_topic("source")
        broker.create_topic("sink")
        where = {"kafka.bootstrap.servers": broker.bootstrap}
        for values in ("aab", "a"):
            for value in values:
                broker.produce("source", value)
            reader = spark.readStream.format(connector).options(**where, subscribe="source", startingOffsets="earliest")
            rows = reader.load()
            if mode != "append":
                counts = rows.groupBy("value").count()
                rows = counts.selectExpr("value AS key", "CAST(count AS string) AS value").coalesce(1)
            writer = rows.writeStream.format(connector).options(**where, topic="sink").outputMode(mode)
            writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            assert writer.start().awaitTermination(120)
            records = [(record.key, record.value) for record in broker.records("sink")]
            found.append(sorted(records[sum(map(len, found)) :], key=repr))
    return found


MODES = {
    "append": [[(None, b"a"), (None, b"a"), (None, b"b")], [(None, b"a")]],
    "complete": [[(b"a", b"2"), (b"b", b"1")], [(b"a", b"3"), (b"b", b"1")]],
    "update": [[(b"a", b"2"), (b"b", b"1")], [(b"a", b"3")]],
}


@pytest.mark.parametrize("mode", MODES)
def test_output_mode(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """outputMode of a stream: `complete` writes the whole result after each batch, and takes nothing out. `update` is
    the official one's alone."""
    official, ours = (
        outcome(lambda connector=connector: run_in_mode(spark, connector, mode, tmp_path / connector))
        for connector in CONNECTORS
    )
    assert official == Rows(MODES[mode])
    if mode != "update":
        assert ours == official
        return
    assert isinstance(ours, Refused)
    assert "does not support Update mode" in ours.text


def test_sink_stamps(
    spark: SparkSession, headrace: Headrace, topics: dict[str, str], topic_name: str, tmp_path: Path
) -> None:
    """`stamps` is an option of ours, which the official one ignores; without it ours writes no more than that does."""
    found = {}
    for connector in CONNECTORS:
        for stamps in ({}, {"stamps": "true"}):
            topic = f"{topic_name}-{connector}-{len(stamps)}"
            create(headrace.bootstrap, topic)
            where = {"kafka.bootstrap.servers": headrace.bootstrap}
            source = spark.readStream.format(connector).options(**where, **TWO, startingOffsets="earliest")
            writer = source.load().select("value").writeStream.format(connector).options(**where, **stamps, topic=topic)
            query = writer.option("checkpointLocation", str(tmp_path / topic)).trigger(availableNow=True).start()
            assert query.awaitTermination(60)
            rows = read(spark, OFFICIAL, where | {"subscribe": topic, "includeHeaders": "true"}).collect()
            assert len(rows) == sum(COUNTS["two"])
            found[connector, len(stamps)] = {
                (header.key, bytes(header.value)) for row in rows for header in row.headers or ()
            }
    stamped = found.pop((OURS, 1))
    assert {name for name, _ in stamped} == {"headrace-stream"}
    assert len(stamped) == sum(COUNTS["two"])
    assert set(map(len, found.values())) == {0}


@pytest.mark.parametrize("option", ["topic", None])
def test_sink_topic(spark: SparkSession, headrace: Headrace, topic_name: str, option: str | None) -> None:
    """A column, or an option, which wins; without either, and where a row has none, both refuse."""
    names = [f"{topic_name}-a", f"{topic_name}-b"]
    for name in names:
        create(headrace.bootstrap, name)
    rows = [(names[number % 2], str(number)) for number in range(6)]
    told = {"kafka.bootstrap.servers": headrace.bootstrap} | ({"topic": names[0]} if option else {})
    found = []
    for connector in CONNECTORS:
        frame = spark.createDataFrame(rows, "topic string, value string").coalesce(1)
        frame.write.format(connector).options(**told).mode("append").save()
        where = {"kafka.bootstrap.servers": headrace.bootstrap, "subscribe": ",".join(names)}
        found.append(
            sorted(
                (row.topic, bytes(row.value)) for row in spark.read.format(OFFICIAL).options(**where).load().collect()
            )
        )
        for name in names:
            delete(headrace.bootstrap, name)
            create(headrace.bootstrap, name)
    assert found[1] == found[0]
    assert len(found[0]) == 6
    for schema, row in (("value string", ("x",)), ("topic string, value string", (None, "x"))):
        frame = spark.createDataFrame([row], schema)
        for connector in CONNECTORS if option is None else ():
            writer = frame.write.format(connector).options(**told).mode("append")
            assert isinstance(outcome(lambda writer=writer: writer.save() or []), Refused)
