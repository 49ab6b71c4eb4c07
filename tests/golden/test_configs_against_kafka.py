"""Our tables beside what Apache Kafka 4.1.1 said about its own (see configs/ConfigDefs.java)."""

from pathlib import Path

import pytest

from headrace.errors import ApiError, ErrorCode
from headrace.node.configs import BrokerConfig, TopicConfig
from headrace.node.kafka_names import INERT_NAMES, REFUSED_NAMES
from headrace.node.settings import Setting, value_text

_SPOKEN = [
    line.split("\t")
    for line in Path(__file__).with_name("configs").joinpath("kafka-4.1.1.tsv").read_text().splitlines()
]
_OURS_AT_THE_TOPIC = {"flush.before.expose"}
_OURS_AT_THE_BROKER = {
    "connection.first.frame.bytes.max",
    "connection.memory.bytes.max",
    "flush.before.expose",
    "http.listen",
    "memory.budget.bytes",
}
# Kafka listens on every interface and keeps its data where reboots delete it; its node.id has no default; for
# compaction it takes more memory than all of a node does here; and it is woken more often for each answer.
_OTHER_DEFAULTS = {"listeners", "log.cleaner.dedupe.buffer.size", "log.dir", "node.id", "socket.send.buffer.bytes"}
# Dynamic in Kafka. A node reads them once, and refuses to have them changed rather than ignore it.
_READ_ONCE = {"listener.security.protocol.map", "max.connections.per.ip.overrides"}


def spoken(kind: str) -> list[list[str]]:
    return [fields for tag, *fields in _SPOKEN if tag == kind]


def told(row: Setting) -> list[str]:
    """A row of ours in the words of the file."""
    default = value_text(row.default)
    flags = [str(flag).lower() for flag in (row.dynamic, row.internal)]
    return [row.name, row.kind.name, "(null)" if default is None else default, *flags]


def test_topic_rows_are_kafkas() -> None:
    ours = [told(row) for row in TopicConfig.rows.values() if row.name not in _OURS_AT_THE_TOPIC]
    assert ours == spoken("topic")


def test_broker_rows_are_kafkas() -> None:
    kafkas = {name: fields for name, *fields in spoken("broker")}
    for row in BrokerConfig.rows.values():
        if row.name not in _OURS_AT_THE_BROKER | _OTHER_DEFAULTS | _READ_ONCE:
            assert told(row)[1:] == kafkas[row.name], row.name


def test_every_broker_name_of_kafkas_is_a_row_or_inert_or_refused() -> None:
    kafkas = {name for name, *_ in spoken("broker")}
    authorisers = {"allow.everyone.if.no.acl.found", "super.users"}
    assert kafkas == (BrokerConfig.rows.keys() | INERT_NAMES | REFUSED_NAMES) - _OURS_AT_THE_BROKER - authorisers
    assert not INERT_NAMES & BrokerConfig.rows.keys()
    assert not REFUSED_NAMES & (INERT_NAMES | BrokerConfig.rows.keys())


def test_topics_inherit_as_in_kafka() -> None:
    ours = {
        row.name: ",".join(synonym.name for synonym in row.synonyms)
        for row in TopicConfig.rows.values()
        if row.synonyms and row.name not in _OURS_AT_THE_TOPIC
    }
    assert ours == dict(spoken("synonyms"))


@pytest.mark.parametrize(("name", "text", "refusal"), spoken("trial"))
def test_values_are_accepted_and_refused_in_kafkas_words(name: str, text: str, refusal: str) -> None:
    if refusal:
        with pytest.raises(ApiError) as refused:
            TopicConfig.resolve(BrokerConfig(), {name: text})
        assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_CONFIG, refusal)
    else:
        TopicConfig.resolve(BrokerConfig(), {name: text})
