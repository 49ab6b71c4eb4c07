"""The configuration tables: every setting of a topic and of a broker, under Kafka's names.

Rules. A setting is one row in one of the two class bodies below, and nowhere else: parsing, inheritance, the
typed attribute, DescribeConfigs and `docs/configuration.md` come from that row. Defaults, checks and words
of refusal are those of Kafka 4.1, save where a row says otherwise. A topic setting inherits from the broker
settings in its `synonyms`, the first that has a value. What Kafka has and this node does not act on is still
parsed and kept, with `acts=False`, so that no client's topic is refused for it.

Refuses to know where texts come from (command line, file, metadata) and what anyone does with a value.
"""

import re
from collections.abc import Mapping
from typing import Any

from headrace.errors import ApiError, ConfigError, ErrorCode
from headrace.node.kafka_names import INERT_NAMES, INERT_PREFIXES, REFUSED_NAMES
from headrace.node.settings import (
    INT_MAX,
    LONG_MAX,
    Check,
    Complaint,
    Invalid,
    Kind,
    Layer,
    Setting,
    Settings,
    Source,
    Synonym,
    Value,
    at_least,
    between,
    one_of,
    table,
)

INT, LONG, DOUBLE = Kind.INT, Kind.LONG, Kind.DOUBLE
BOOLEAN, STRING, LIST = Kind.BOOLEAN, Kind.STRING, Kind.LIST

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MIB = 1 << 20

_COMPRESSION_TYPES = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_CLEANUP_POLICIES = one_of("compact", "delete")
_TIMESTAMP_TYPES = one_of("CreateTime", "LogAppendTime")
_THROTTLED = re.compile(r"([0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?|\*")


def _throttled_fault(name: str, value: tuple[str, ...]) -> Complaint | None:
    if _THROTTLED.fullmatch(",".join(value)):
        return None
    return f"[{', '.join(value)}]", (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


_THROTTLED_REPLICAS = Check("`*`, or partition:broker pairs", _throttled_fault)


def _setting(name: str, kind: Kind, default: Value, doc: str, **more: Any) -> Any:
    """A row. Typed Any, because in a class body it stands for the value that the attribute will hold."""
    return Setting(name, kind, default, doc, **more)


def _topic(name: str, kind: Kind, default: Value, doc: str, *synonyms: str | Synonym, **more: Any) -> Any:
    """A topic's row: always dynamic, and inheriting from the broker settings named after its text."""
    inherited = tuple(each if isinstance(each, Synonym) else Synonym(each) for each in synonyms)
    return Setting(name, kind, default, doc, synonyms=inherited, dynamic=True, **more)


@table
class TopicConfig(Settings):
    """What one topic's logs obey, resolved and typed. Replaced whole when an override changes."""

    cleanup_policy: tuple[str, ...] = _topic(
        "cleanup.policy",
        LIST,
        ("delete",),
        "What happens to old segments: deleted by retention, compacted by key, both, or (empty) neither.",
        "log.cleanup.policy",
        check=_CLEANUP_POLICIES,
    )
    compression_gzip_level: int = _topic(
        "compression.gzip.level",
        INT,
        -1,
        "Level for gzip when the node compresses.",
        "compression.gzip.level",
        check=between(1, 9, or_equal=-1),
        acts=False,
    )
    compression_lz4_level: int = _topic(
        "compression.lz4.level",
        INT,
        9,
        "Level for lz4 when the node compresses.",
        "compression.lz4.level",
        check=between(1, 17),
        acts=False,
    )
    compression_type: str = _topic(
        "compression.type",
        STRING,
        "producer",
        "The codec batches are kept in. Batches are kept as their producer made them, whatever this says.",
        "compression.type",
        check=_COMPRESSION_TYPES,
        acts=False,
    )
    compression_zstd_level: int = _topic(
        "compression.zstd.level",
        INT,
        3,
        "Level for zstd when the node compresses.",
        "compression.zstd.level",
        check=between(-131072, 22),
        acts=False,
    )
    delete_retention_ms: int = _topic(
        "delete.retention.ms",
        LONG,
        DAY_MS,
        "How long compaction keeps a tombstone.",
        "log.cleaner.delete.retention.ms",
        check=at_least(0),
    )
    file_delete_delay_ms: int = _topic(
        "file.delete.delay.ms",
        LONG,
        MINUTE_MS,
        "How long a deleted segment's file stays, so that reads under way can finish.",
        "log.segment.delete.delay.ms",
        check=at_least(0),
    )
    flush_before_expose: bool = _topic(
        "flush.before.expose",
        BOOLEAN,
        False,
        "Ours, not Kafka's. Consumers are shown a record only once it was flushed to the device, so that "
        "no crash "
        "takes back what somebody read.",
        "flush.before.expose",
    )
    flush_messages: int = _topic(
        "flush.messages",
        LONG,
        LONG_MAX,
        "Flush to the device after so many messages, and acknowledge them only then. 1 flushes every batch.",
        "log.flush.interval.messages",
        check=at_least(1),
    )
    flush_ms: int = _topic(
        "flush.ms",
        LONG,
        LONG_MAX,
        "The longest that a message stays unflushed. It does not delay acknowledgements.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
        check=at_least(0),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = _topic(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        "Replicas whose copying is throttled at the follower.",
        check=_THROTTLED_REPLICAS,
        acts=False,
    )
    index_interval_bytes: int = _topic(
        "index.interval.bytes",
        INT,
        4096,
        "Bytes of log between two entries of its index.",
        "log.index.interval.bytes",
        check=at_least(0),
    )
    internal_segment_bytes: int | None = _topic(
        "internal.segment.bytes",
        INT,
        None,
        "Overrides segment.bytes without its lower bound; for tests.",
        internal=True,
    )
    leader_replication_throttled_replicas: tuple[str, ...] = _topic(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        "Replicas whose copying is throttled at the leader.",
        check=_THROTTLED_REPLICAS,
        acts=False,
    )
    local_retention_bytes: int = _topic(
        "local.retention.bytes",
        LONG,
        -2,
        "Bytes kept locally once copied to remote storage; there is none here.",
        "log.local.retention.bytes",
        check=at_least(-2),
        acts=False,
    )
    local_retention_ms: int = _topic(
        "local.retention.ms",
        LONG,
        -2,
        "Time kept locally once copied to remote storage; there is none here.",
        "log.local.retention.ms",
        check=at_least(-2),
        acts=False,
    )
    max_compaction_lag_ms: int = _topic(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "The longest that a record escapes compaction.",
        "log.cleaner.max.compaction.lag.ms",
        check=at_least(1),
    )
    max_message_bytes: int = _topic(
        "max.message.bytes",
        INT,
        MIB + 12,
        "The largest record batch accepted, as it is sent.",
        "message.max.bytes",
        check=at_least(0),
    )
    message_timestamp_after_max_ms: int = _topic(
        "message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        "How far ahead of the node's clock a CreateTime timestamp may be.",
        "log.message.timestamp.after.max.ms",
        check=at_least(0),
    )
    message_timestamp_before_max_ms: int = _topic(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far behind the node's clock a CreateTime timestamp may be.",
        "log.message.timestamp.before.max.ms",
        check=at_least(0),
    )
    message_timestamp_type: str = _topic(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whether a record keeps its producer's timestamp or is stamped when appended.",
        "log.message.timestamp.type",
        check=_TIMESTAMP_TYPES,
    )
    min_cleanable_dirty_ratio: float = _topic(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "Share of a log that must be dirty before compaction.",
        "log.cleaner.min.cleanable.ratio",
        check=between(0, 1),
    )
    min_compaction_lag_ms: int = _topic(
        "min.compaction.lag.ms",
        LONG,
        0,
        "The shortest time that a record escapes compaction.",
        "log.cleaner.min.compaction.lag.ms",
        check=at_least(0),
    )
    min_insync_replicas: int = _topic(
        "min.insync.replicas",
        INT,
        1,
        "Replicas that must be in sync for an acks=all write to be accepted, if the topic has so many.",
        "min.insync.replicas",
        check=at_least(1),
        acts=False,
    )
    preallocate: bool = _topic(
        "preallocate", BOOLEAN, False, "Reserve a segment's space when it is created.", "log.preallocate", acts=False
    )
    remote_log_copy_disable: bool = _topic(
        "remote.log.copy.disable", BOOLEAN, False, "Stop copying to remote storage; there is none here.", acts=False
    )
    remote_log_delete_on_disable: bool = _topic(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        "Delete remote data when it is disabled; there is none here.",
        acts=False,
    )
    remote_storage_enable: bool = _topic(
        "remote.storage.enable", BOOLEAN, False, "Tiered storage; refused when true, for there is none here."
    )
    retention_bytes: int = _topic(
        "retention.bytes",
        LONG,
        -1,
        "Bytes a partition keeps before old segments are deleted; -1: no limit.",
        "log.retention.bytes",
    )
    retention_ms: int = _topic(
        "retention.ms",
        LONG,
        7 * DAY_MS,
        "How long segments are kept after their last record; -1: for ever.",
        "log.retention.ms",
        Synonym("log.retention.minutes", MINUTE_MS),
        Synonym("log.retention.hours", HOUR_MS),
        check=at_least(-1),
    )
    segment_bytes: int = _topic(
        "segment.bytes",
        INT,
        1024 * MIB,
        "A segment is rolled before it grows beyond this.",
        "log.segment.bytes",
        check=at_least(MIB),
    )
    segment_index_bytes: int = _topic(
        "segment.index.bytes",
        INT,
        10 * MIB,
        "A segment is rolled when its index has grown to this.",
        "log.index.size.max.bytes",
        check=at_least(4),
    )
    segment_jitter_ms: int = _topic(
        "segment.jitter.ms",
        LONG,
        0,
        "Random time taken off segment.ms, so that not every log rolls at once.",
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", HOUR_MS),
        check=at_least(0),
        acts=False,
    )
    segment_ms: int = _topic(
        "segment.ms",
        LONG,
        7 * DAY_MS,
        "A segment is rolled when its records span this much time.",
        "log.roll.ms",
        Synonym("log.roll.hours", HOUR_MS),
        check=at_least(1),
    )
    unclean_leader_election_enable: bool = _topic(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Let a replica lead that is not in sync, at the price of lost records.",
        "unclean.leader.election.enable",
        acts=False,
    )

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @classmethod
    def resolve(cls, broker: "BrokerConfig", overrides: Mapping[str, str]) -> "TopicConfig":
        """The broker's settings with this topic's over them; ApiError(INVALID_CONFIG) where they are "
        "unusable."""
        for name in overrides:  # As in Kafka, an unknown name is reported before a wrong value.
            _topic_row(name)
        config = cls()
        config.layers = (Layer(Source.TOPIC, dict(overrides)),)
        for row in cls.rows.values():
            text = overrides.get(row.name)
            value = _inherited(row, broker) if text is None else parse_topic_override(row.name, text)
            setattr(config, row.attribute, value)
        _check_topic(config)
        if config.internal_segment_bytes is not None:
            config.segment_bytes = config.internal_segment_bytes
        return config


@table
class BrokerConfig(Settings):
    """What one node obeys, resolved and typed. `resolve` builds it; `BrokerConfig()` is all defaults."""

    advertised_listeners: str | None = _setting(
        "advertised.listeners", STRING, None, "The addresses given to clients, where they differ from `listeners`."
    )
    auto_create_topics_enable: bool = _setting(
        "auto.create.topics.enable", BOOLEAN, True, "Create a topic when a client that allows it asks for its metadata."
    )
    broker_id: int = _setting("broker.id", INT, -1, "The older name of node.id.")
    broker_rack: str | None = _setting("broker.rack", STRING, None, "The rack told to clients.")
    compression_gzip_level: int = _setting(
        "compression.gzip.level",
        INT,
        -1,
        "Level for gzip when the node compresses.",
        check=between(1, 9, or_equal=-1),
        dynamic=True,
        acts=False,
    )
    compression_lz4_level: int = _setting(
        "compression.lz4.level",
        INT,
        9,
        "Level for lz4 when the node compresses.",
        check=between(1, 17),
        dynamic=True,
        acts=False,
    )
    compression_type: str = _setting(
        "compression.type",
        STRING,
        "producer",
        "The codec batches are kept in. Batches are kept as their producer made them, whatever this says.",
        check=_COMPRESSION_TYPES,
        dynamic=True,
        acts=False,
    )
    compression_zstd_level: int = _setting(
        "compression.zstd.level",
        INT,
        3,
        "Level for zstd when the node compresses.",
        check=between(-131072, 22),
        dynamic=True,
        acts=False,
    )
    connection_first_frame_bytes_max: int = _setting(
        "connection.first.frame.bytes.max",
        INT,
        2 * MIB,
        "Ours. The largest frame accepted on a connection before its first valid request.",
        check=at_least(1024),
    )
    connection_memory_bytes_max: int = _setting(
        "connection.memory.bytes.max",
        LONG,
        32 * MIB,
        "Ours. What one connection's requests and answers may hold in memory; beyond it the node stops "
        "reading "
        "from that connection until its answers are taken.",
        check=at_least(MIB),
    )
    connections_max_idle_ms: int = _setting(
        "connections.max.idle.ms",
        LONG,
        10 * MINUTE_MS,
        "A connection that sends nothing for so long is closed; negative: never.",
    )
    default_replication_factor: int = _setting(
        "default.replication.factor", INT, 1, "Replicas of a topic that is created without saying how many."
    )
    delete_topic_enable: bool = _setting("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted.")
    fetch_max_bytes: int = _setting(
        "fetch.max.bytes", INT, 55 * MIB, "The most that one fetch answers with.", check=at_least(1024)
    )
    flush_before_expose: bool = _setting(
        "flush.before.expose",
        BOOLEAN,
        False,
        "Ours. Consumers are shown a record only once it was flushed to the device, so that no crash "
        "takes back "
        "what somebody read. Topics can override it.",
        dynamic=True,
    )
    group_initial_rebalance_delay_ms: int = _setting(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long the first member of a new group is made to wait, so that others can join the same generation.",
        check=at_least(0),
    )
    group_max_session_timeout_ms: int = _setting(
        "group.max.session.timeout.ms",
        INT,
        30 * MINUTE_MS,
        "The longest session timeout that a member may ask for.",
        check=at_least(1),
    )
    group_max_size: int = _setting(
        "group.max.size",
        INT,
        INT_MAX,
        "The most members that a group may have.",
        check=at_least(1),
    )
    group_min_session_timeout_ms: int = _setting(
        "group.min.session.timeout.ms",
        INT,
        6000,
        "The shortest session timeout that a member may ask for.",
        check=at_least(1),
    )
    http_listen: str | None = _setting(
        "http.listen",
        STRING,
        None,
        "Ours. HOST:PORT for `/metrics` (Prometheus), `/requests` and `/healthz` over HTTP; else there is no port.",
    )
    listener_security_protocol_map: str = _setting(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which protocol each listener name speaks. Only PLAINTEXT is served yet.",
    )
    listeners: str = _setting(
        "listeners",
        STRING,
        "PLAINTEXT://127.0.0.1:9092",
        "Where clients connect, as NAME://HOST:PORT, with commas between. Port 0 picks a free one.",
    )
    log_cleaner_backoff_ms: int = _setting(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How often a log is looked for that is dirty enough to be compacted.",
        check=at_least(0),
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = _setting(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        64 * MIB,
        "Memory for the keys of a log that is being compacted; one key takes up to 200 bytes. Kafka's is twice that, "
        "at 24 bytes a key. A log with more keys is compacted in several steps.",
        check=at_least(MIB),
        dynamic=True,
    )
    log_cleaner_delete_retention_ms: int = _setting(
        "log.cleaner.delete.retention.ms",
        LONG,
        DAY_MS,
        "How long compaction keeps a tombstone.",
        check=at_least(0),
        dynamic=True,
    )
    log_cleaner_enable: bool = _setting(
        "log.cleaner.enable",
        BOOLEAN,
        True,
        "Compact the topics whose `cleanup.policy` asks for it.",
    )
    log_cleaner_io_max_bytes_per_second: float = _setting(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "The most that compaction reads and writes, in bytes per second.",
        check=at_least(1),
        dynamic=True,
    )
    log_cleaner_max_compaction_lag_ms: int = _setting(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "The longest that a record escapes compaction.",
        check=at_least(1),
        dynamic=True,
    )
    log_cleaner_min_cleanable_ratio: float = _setting(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "Share of a log that must be dirty before compaction.",
        check=between(0, 1),
        dynamic=True,
    )
    log_cleaner_min_compaction_lag_ms: int = _setting(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "The shortest time that a record escapes compaction.",
        check=at_least(0),
        dynamic=True,
    )
    log_cleanup_policy: tuple[str, ...] = _setting(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        "What happens to old segments: `delete`, `compact`, or both.",
        check=_CLEANUP_POLICIES,
        dynamic=True,
    )
    log_dir: str = _setting("log.dir", STRING, "headrace-data", "Where the logs are kept, if log.dirs does not say.")
    log_dirs: str | None = _setting("log.dirs", STRING, None, "Where the logs are kept: one directory.")
    log_flush_interval_messages: int = _setting(
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        "Flush to the device after so many messages, and acknowledge them only then. 1 flushes every batch.",
        check=at_least(1),
        dynamic=True,
    )
    log_flush_interval_ms: int | None = _setting(
        "log.flush.interval.ms",
        LONG,
        None,
        "The longest that a message stays unflushed; unset: log.flush.scheduler.interval.ms.",
        dynamic=True,
    )
    log_flush_offset_checkpoint_interval_ms: int = _setting(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "How often recovery points are written down.",
        check=at_least(0),
    )
    log_flush_scheduler_interval_ms: int = _setting(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        "How often logs are looked at for messages that have to be flushed by time.",
    )
    log_flush_start_offset_checkpoint_interval_ms: int = _setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "How often log start offsets are written down.",
        check=at_least(0),
        acts=False,
    )
    log_index_interval_bytes: int = _setting(
        "log.index.interval.bytes",
        INT,
        4096,
        "Bytes of log between two entries of its index.",
        check=at_least(0),
        dynamic=True,
    )
    log_index_size_max_bytes: int = _setting(
        "log.index.size.max.bytes",
        INT,
        10 * MIB,
        "A segment is rolled when its index has grown to this.",
        check=at_least(4),
        dynamic=True,
    )
    log_local_retention_bytes: int = _setting(
        "log.local.retention.bytes",
        LONG,
        -2,
        "Bytes kept locally once copied to remote storage; there is none here.",
        check=at_least(-2),
        dynamic=True,
        acts=False,
    )
    log_local_retention_ms: int = _setting(
        "log.local.retention.ms",
        LONG,
        -2,
        "Time kept locally once copied to remote storage; there is none here.",
        check=at_least(-2),
        dynamic=True,
        acts=False,
    )
    log_message_timestamp_after_max_ms: int = _setting(
        "log.message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        "How far ahead of the node's clock a CreateTime timestamp may be.",
        check=at_least(0),
        dynamic=True,
    )
    log_message_timestamp_before_max_ms: int = _setting(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far behind the node's clock a CreateTime timestamp may be.",
        check=at_least(0),
        dynamic=True,
    )
    log_message_timestamp_type: str = _setting(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "Whether a record keeps its producer's timestamp or is stamped when appended.",
        check=_TIMESTAMP_TYPES,
        dynamic=True,
    )
    log_preallocate: bool = _setting(
        "log.preallocate", BOOLEAN, False, "Reserve a segment's space when it is created.", dynamic=True, acts=False
    )
    log_retention_bytes: int = _setting(
        "log.retention.bytes",
        LONG,
        -1,
        "Bytes a partition keeps before old segments are deleted; -1: no limit.",
        dynamic=True,
    )
    log_retention_check_interval_ms: int = _setting(
        "log.retention.check.interval.ms",
        LONG,
        5 * MINUTE_MS,
        "How often logs are looked at for segments to delete.",
        check=at_least(1),
    )
    log_retention_hours: int = _setting(
        "log.retention.hours", INT, 168, "How long segments are kept, if no finer setting says so."
    )
    log_retention_minutes: int | None = _setting(
        "log.retention.minutes", INT, None, "How long segments are kept, if log.retention.ms does not say."
    )
    log_retention_ms: int | None = _setting(
        "log.retention.ms",
        LONG,
        None,
        "How long segments are kept after their last record; -1: for ever.",
        dynamic=True,
    )
    log_roll_hours: int = _setting(
        "log.roll.hours", INT, 168, "Time a segment spans, if log.roll.ms does not say.", check=at_least(1)
    )
    log_roll_jitter_hours: int = _setting(
        "log.roll.jitter.hours",
        INT,
        0,
        "Random time taken off, if log.roll.jitter.ms does not say.",
        check=at_least(0),
        acts=False,
    )
    log_roll_jitter_ms: int | None = _setting(
        "log.roll.jitter.ms",
        LONG,
        None,
        "Random time taken off log.roll.ms, so that not every log rolls at once.",
        dynamic=True,
        acts=False,
    )
    log_roll_ms: int | None = _setting(
        "log.roll.ms", LONG, None, "A segment is rolled when its records span this much time.", dynamic=True
    )
    log_segment_bytes: int = _setting(
        "log.segment.bytes",
        INT,
        1024 * MIB,
        "A segment is rolled before it grows beyond this.",
        check=at_least(MIB),
        dynamic=True,
    )
    log_segment_delete_delay_ms: int = _setting(
        "log.segment.delete.delay.ms",
        LONG,
        MINUTE_MS,
        "How long a deleted segment's file stays, so that reads under way can finish.",
        check=at_least(0),
        dynamic=True,
    )
    max_connections: int = _setting(
        "max.connections", INT, INT_MAX, "Connections in all; more are closed at once.", check=at_least(0), dynamic=True
    )
    max_connections_per_ip: int = _setting(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "Connections from one address; more are closed at once.",
        check=at_least(0),
        dynamic=True,
    )
    max_connections_per_ip_overrides: str = _setting(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Other limits for some addresses, as ADDRESS:COUNT with commas between.",
    )
    max_incremental_fetch_session_cache_slots: int = _setting(
        "max.incremental.fetch.session.cache.slots", INT, 1000, "Incremental fetch sessions kept.", check=at_least(0)
    )
    max_request_partition_size_limit: int = _setting(
        "max.request.partition.size.limit",
        INT,
        2000,
        "The most partitions that one DescribeTopicPartitions answers with.",
        check=at_least(1),
    )
    memory_budget_bytes: int = _setting(
        "memory.budget.bytes",
        LONG,
        96 * MIB,
        "Ours. What all requests and answers together may hold in memory. When it is spent, the node "
        "reads no more "
        "until some is given back.",
        check=at_least(8 * MIB),
    )
    message_max_bytes: int = _setting(
        "message.max.bytes",
        INT,
        MIB + 12,
        "The largest record batch accepted, as it is sent.",
        check=at_least(0),
        dynamic=True,
    )
    min_insync_replicas: int = _setting(
        "min.insync.replicas",
        INT,
        1,
        "Replicas that must be in sync for an acks=all write to be accepted, if the topic has so many.",
        check=at_least(1),
        dynamic=True,
        acts=False,
    )
    node_id: int = _setting(
        "node.id", INT, 1, "This node's number, unlike any other's in its cluster.", check=at_least(0)
    )
    num_partitions: int = _setting(
        "num.partitions", INT, 1, "Partitions of a topic that is created without saying how many.", check=at_least(1)
    )
    offset_metadata_max_bytes: int = _setting(
        "offset.metadata.max.bytes",
        INT,
        4096,
        "The longest text that may be committed with an offset.",
        check=at_least(0),
    )
    offsets_retention_check_interval_ms: int = _setting(
        "offsets.retention.check.interval.ms",
        LONG,
        10 * MINUTE_MS,
        "How often old offsets are looked for.",
        check=at_least(1),
    )
    offsets_retention_minutes: int = _setting(
        "offsets.retention.minutes",
        INT,
        7 * 24 * 60,
        "How long the offsets of a group without members are kept.",
        check=at_least(1),
    )
    offsets_topic_num_partitions: int = _setting(
        "offsets.topic.num.partitions",
        INT,
        50,
        "Partitions of `__consumer_offsets`, when it is created.",
        check=at_least(1),
    )
    offsets_topic_segment_bytes: int = _setting(
        "offsets.topic.segment.bytes",
        INT,
        100 * MIB,
        "Segment size of `__consumer_offsets`, when it is created.",
        check=at_least(1),
    )
    producer_id_expiration_check_interval_ms: int = _setting(
        "producer.id.expiration.check.interval.ms",
        INT,
        10 * MINUTE_MS,
        "How often idle idempotent producers are looked for; for tests.",
        check=at_least(1),
        internal=True,
    )
    producer_id_expiration_ms: int = _setting(
        "producer.id.expiration.ms",
        INT,
        DAY_MS,
        "How long the sequence numbers of an idle idempotent producer are remembered.",
        check=at_least(1),
        dynamic=True,
    )
    socket_listen_backlog_size: int = _setting(
        "socket.listen.backlog.size",
        INT,
        50,
        "Connections that the kernel holds until they are accepted.",
        check=at_least(1),
    )
    socket_request_max_bytes: int = _setting(
        "socket.request.max.bytes", INT, 100 * MIB, "The largest request accepted.", check=at_least(1)
    )
    socket_send_buffer_bytes: int = _setting(
        "socket.send.buffer.bytes",
        INT,
        -1,
        "What the kernel is asked to hold of answers that a client has yet to take; -1 leaves it to the kernel.",
        check=at_least(-1),
    )
    unclean_leader_election_enable: bool = _setting(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Let a replica lead that is not in sync, at the price of lost records.",
        dynamic=True,
        acts=False,
    )

    @classmethod
    def resolve(
        cls,
        static: Mapping[str, str],
        *,
        dynamic: Mapping[str, str] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
    ) -> "BrokerConfig":
        """The given texts over the defaults, dynamic ones on top; ConfigError where they are unusable."""
        config = cls()
        config.layers = (
            Layer(Source.DYNAMIC_BROKER, dict(dynamic or {})),
            Layer(Source.DYNAMIC_BROKER_DEFAULT, dict(dynamic_default or {})),
            Layer(Source.STATIC_BROKER, dict(static)),
        )
        for layer in reversed(config.layers):  # Weakest first, so that stronger ones overwrite it.
            for name, text in layer.texts.items():
                row = _broker_row(name)
                if row is not None:
                    setattr(config, row.attribute, _parse_broker(row, text))
        _check_broker(config)
        return config

    def names_without_effect(self) -> tuple[str, ...]:
        """Names that were given, that Kafka knows, and that change nothing here: worth one warning."""
        given = dict.fromkeys(name for layer in self.layers for name in layer.texts)
        return tuple(name for name in given if (row := self.rows.get(name)) is None or not row.acts)


def parse_topic_override(name: str, text: str) -> Value:
    """One topic setting as a client gave it, or ApiError(INVALID_CONFIG) in Kafka's words."""
    row = _topic_row(name)
    try:
        return row.parse(text)
    except Invalid as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def parse_broker_override(name: str, text: str) -> Value:
    """One broker setting as a client would change it, or ApiError(INVALID_REQUEST) in Kafka's words."""
    row = BrokerConfig.rows.get(name)
    if row is None:
        # Kafka keeps such a name for plugins to find. We have none, and would rather say so.
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown broker config name: {name}")
    if not row.dynamic:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: Set({name})")
    try:
        return row.parse(text)
    except Invalid as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _topic_row(name: str) -> Setting:
    row = TopicConfig.rows.get(name)
    if row is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    return row


def _inherited(row: Setting, broker: BrokerConfig) -> Value:
    for synonym in row.synonyms:
        value: Value = getattr(broker, BrokerConfig.rows[synonym.name].attribute)
        if isinstance(value, int) and row.kind is LONG:
            # Where a negative time means for ever, a coarser unit has to say it too.
            return max(value * synonym.scale, -1) if row.name == "retention.ms" else value * synonym.scale
        if value is not None:
            return value
    return row.default


def _check_topic(config: TopicConfig) -> None:
    """What no single setting can tell."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms})"
            f" > max.compaction.lag.ms ({config.max_compaction_lag_ms})",
        )
    if config.remote_storage_enable:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )


def _broker_row(name: str) -> Setting | None:
    """The row of that name, None for a setting of Kafka's that has no use here, ConfigError otherwise."""
    row = BrokerConfig.rows.get(name)
    if row is not None or name in INERT_NAMES or name.startswith(INERT_PREFIXES):
        return row
    if name in REFUSED_NAMES:
        raise ConfigError(f"{name} is not supported, and ignoring it could let through what it should stop")
    import difflib  # Only on the way out: it is slow to import.

    near = difflib.get_close_matches(name, [*BrokerConfig.rows, *INERT_NAMES], n=1)
    raise ConfigError(f"unknown setting {name}" + (f"; did you mean {near[0]}?" if near else ""))


def _parse_broker(row: Setting, text: str) -> Value:
    try:
        return row.parse(text)
    except Invalid as error:
        raise ConfigError(str(error)) from error


def _check_broker(config: BrokerConfig) -> None:
    """What no single setting can tell."""
    if _inherited(TopicConfig.rows["retention.ms"], config) == 0:  # A topic may, a broker may not.
        raise ConfigError("log.retention.ms must be unlimited (-1) or, equal or greater than 1")
    for row in TopicConfig.rows.values():  # What topics will inherit must itself be legal for a topic.
        try:
            row.refuse_faulty(_inherited(row, config))
        except Invalid as error:
            raise ConfigError(str(error)) from error
    given = {name for layer in config.layers for name in layer.texts} & {"node.id", "broker.id"}
    if given == {"broker.id"}:
        config.node_id = config.broker_id
    elif given == {"node.id", "broker.id"} and config.node_id != config.broker_id:
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
    config.broker_id = config.node_id
