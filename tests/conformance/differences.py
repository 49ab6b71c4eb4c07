"""Every known way in which Headrace answers otherwise than Apache Kafka, with its reason.

The only such list: the conformance run allows these and nothing else, fails when one of them no longer occurs,
and the protocol documentation is rendered from it.
"""

import re
import sys
from dataclasses import dataclass

from headrace.node.api_page import protocol_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """`*` stands for any text in a case ('Fetch/unknown topic') and in a field's path."""

    case: str
    field: str
    reason: str

    def covers(self, case: str, field: str) -> bool:
        return _matches(self.case, case) and _matches(self.field, field)


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


_STARTED_OTHERWISE = "The two brokers of the comparison were not given the same settings."
_KAFKA_TRIPS = "Kafka fails inside, as UNKNOWN_SERVER_ERROR; the node says what is wrong with the request."
_NO_TIMEOUT = (
    "Kafka gives up at once. The node waits for one sync of its own disk, and an answer that comes earlier would leave "
    "the client in doubt; so the time-out is not looked at."
)
_ON_DEMAND = (
    "Kafka answers that there is no such topic and creates it meanwhile; the client asks again. The node answers when "
    "the topic is there, or says why it cannot be."
)
_OTHER_NAMES = "A node describes the settings that it has. Kafka has more, and not ours."

_UNOPENED = (
    "Kafka opens every batch and checks or mends what is inside. The node checks the header and the CRC, and keeps the "
    "batch as its producer made it: a client that writes nonsense under a right CRC harms its own readers alone."
)

ACCEPTED: tuple[Accepted, ...] = (
    # What is told about the node itself.
    Accepted(case="ApiVersions/*", field="api_keys[*]", reason="What is not served is not advertised."),
    Accepted(
        case="ApiVersions/*",
        field="api_keys[2].max_version",
        reason="ListOffsets 11 is offered to clients that know it already; it asks for nothing that 10 does not.",
    ),
    *(
        Accepted(
            case="ApiVersions/*",
            field=field,
            reason="Features are levels of Kafka's own metadata, of which the node has none.",
        )
        for field in ("supported_features*", "finalized_features*")
    ),
    # Settings.
    Accepted(case="*", field="*configs[flush.before.expose]", reason="A setting of ours."),
    *(
        Accepted(
            case="*",
            field=field,
            reason="Kafka's storage tool writes this setting down for all brokers; nobody did so here.",
        )
        for field in (
            "*configs[min.insync.replicas].config_source",
            "*configs[min.insync.replicas].synonyms*",
            "results[4 ].configs[min.insync.replicas]",
        )
    ),
    Accepted(case="DescribeConfigs/*", field="*.documentation", reason="Documentation is in our own words."),
    Accepted(case="DescribeConfigs/*of the broker*", field="results[4 1].configs[*]", reason=_OTHER_NAMES),
    *(
        Accepted(
            case="DescribeConfigs/*of the broker*",
            field=f"results[4 1].configs[{name}].*",
            reason=_STARTED_OTHERWISE,
        )
        for name in (
            "advertised.listeners",
            "broker.id",
            "listener.security.protocol.map",
            "listeners",
            "log.dir",
            "node.id",
        )
    ),
    Accepted(
        case="DescribeConfigs/*of the broker*",
        field="results[4 1].configs[log.cleaner.dedupe.buffer.size].*value",
        reason="Half of Kafka's default: a node stays small while it compacts.",
    ),
    Accepted(
        case="DescribeConfigs/*of the broker*",
        field="results[4 1].configs[socket.send.buffer.bytes].*value",
        reason="Left to the kernel, which grows it with what the reader takes: an answer leaves in fewer turns.",
    ),
    Accepted(
        case="DescribeConfigs/*of the broker*",
        field="results[4 1].configs[max.connections.per.ip.overrides].*",
        reason="Read once, at the start; changing it is refused.",
    ),
    Accepted(
        case="*AlterConfigs/unknown config of the broker",
        field="responses[4 1].error_*",
        reason="Kafka keeps names that it does not know, for plugins to find. There are none here, and a misspelt name "
        "is better refused.",
    ),
    Accepted(
        case="IncrementalAlterConfigs/operation *",
        field="*responses[*].error_*",
        reason=_KAFKA_TRIPS,
    ),
    Accepted(case="AlterConfigs/a topic twice", field="*", reason="Kafka never answers this request."),
    # Topics.
    *(
        Accepted(case=f"{api}/timeout *", field="*", reason=_NO_TIMEOUT)
        for api in ("CreateTopics", "DeleteTopics", "CreatePartitions")
    ),
    Accepted(
        case="CreateTopics/validated only",
        field="*topics[*]",
        reason="Kafka makes up an id for the topic that is not created; the node gives none.",
    ),
    Accepted(
        case="DeleteTopics/by name and again by id",
        field="responses[None *]",
        reason="Kafka refuses the one item and leaves the other out of its answer; the node refuses both.",
    ),
    Accepted(case="Metadata/unknown topic, created on demand", field="Metadata #1: topics[*", reason=_ON_DEMAND),
    Accepted(case="Metadata/name that collides, created on demand", field="topics[*].error_code", reason=_ON_DEMAND),
    Accepted(case="Metadata/by neither id nor name", field="*error_code", reason=_KAFKA_TRIPS),
    Accepted(
        case="Metadata/one by id, one by name",
        field="topics[*]",
        reason="Kafka overlooks names where there are ids; the node answers both.",
    ),
    Accepted(case="DescribeTopicPartitions/illegal empty name", field="topics[*", reason=_KAFKA_TRIPS),
    # Offsets.
    Accepted(case="ListOffsets/isolation level 2", field="*error_code", reason=_KAFKA_TRIPS),
    # Groups.
    Accepted(
        case="FindCoordinator/of a transaction",
        field="*",
        reason="Transactions are not served. The error is the one that every client takes as final.",
    ),
    Accepted(case="FindCoordinator/of type *", field="*error_message", reason="Refused in our own words."),
    Accepted(
        case="JoinGroup/a protocol twice",
        field="*",
        reason="Kafka never answers a member that names a protocol twice; the node takes the first.",
    ),
    # Reading.
    *(
        Accepted(case=case, field="*", reason="Kafka fails inside; the node takes a negative limit for none at all.")
        for case in ("Fetch/negative bytes of a partition", "Fetch/negative bytes in all")
    ),
    Accepted(
        case="Fetch/isolation level *",
        field="*",
        reason="Kafka fails inside; the node takes an unknown isolation level for read uncommitted.",
    ),
    *(
        Accepted(
            case=case,
            field="responses[*].records[*]",
            reason="Where a limit falls inside a batch, Kafka sends the beginning of it, which no client can use. The "
            "node stops before it where it knows where that is.",
        )
        for case in (
            "Fetch/a batch and a half of a partition",
            "Fetch/fifteen thousand bytes in all over two partitions",
        )
    ),
    # Writing.
    Accepted(
        case="Produce/*",
        field="*error_message",
        reason="The node says what is wrong, where Kafka mostly gives the code alone.",
    ),
    *(
        Accepted(case=case, field="*partition_responses[0].*", reason=_KAFKA_TRIPS)
        for case in ("Produce/batch length enormous", "Produce/codec 5", "Produce/codec 7")
    ),
    Accepted(case="Produce/no records (null)", field="*", reason="Kafka never answers this request."),
    *(
        Accepted(case=f"Produce/{case}", field="*", reason=_UNOPENED)
        for case in (
            "attribute of broker timestamps set by the client",
            "* payload*",
            "record longer than the batch",
            "record shorter than it says",
            "bytes after the last record",
            "compressed record offset deltas with a gap",
            "timestamp -5",
            "max timestamp too low",
            "max timestamp too high",
        )
    ),
    Accepted(case="Produce/*", field="*record_errors[*]", reason=_UNOPENED),
    *(
        Accepted(
            case=f"Produce/{case}",
            field="*",
            reason="Batches are kept in the codec that their producer chose, whatever `compression.type` says.",
        )
        for case in ("topic compression gzip", "topic uncompressed, batch compressed")
    ),
    Accepted(
        case="Produce/a partition twice",
        field="*",
        reason="Kafka writes the last batch and loses the others without a word; the node writes and answers them all.",
    ),
    Accepted(
        case="Produce/a topic twice",
        field="*responses[*",
        reason="Kafka puts both together; the node answers them as they came.",
    ),
    Accepted(
        case="Produce/sequence repeated*",
        field="*log_append_time_ms",
        reason="For a batch that was written before, Kafka tells its largest timestamp as the time of writing, even "
        "where the broker stamps nothing.",
    ),
)


def protocol_document() -> str:
    """`docs/protocol.md`."""
    return protocol_page((one.case, one.field, one.reason) for one in ACCEPTED)


if __name__ == "__main__":
    sys.stdout.write(protocol_document())
