"""Fetch, as clients and tools see it. The server parses and answers it by hand."""

from headrace.protocol.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    ApiMessages,
    Array,
    F,
    Struct,
)

API = ApiMessages(
    key=1,
    name="Fetch",
    versions=(4, 18),
    flexible_since=12,
    request=(
        F("cluster_id", STRING, since=12, tag=0, nullable_since=12, default=None),
        F("replica_id", INT32, until=14, default=-1, ignorable=False),
        F(
            "replica_state",
            Struct(
                F("replica_id", INT32, default=-1),
                F("replica_epoch", INT64, default=-1),
            ),
            since=15,
            tag=1,
            ignorable=False,
        ),
        F("max_wait_ms", INT32),
        F("min_bytes", INT32),
        F("max_bytes", INT32, default=0x7FFF_FFFF),
        F("isolation_level", INT8),
        F("session_id", INT32, since=7),
        F("session_epoch", INT32, since=7, default=-1),
        F(
            "topics",
            Array(
                F("topic", STRING, until=12),
                F("topic_id", UUID, since=13),
                F(
                    "partitions",
                    Array(
                        F("partition", INT32),
                        F("current_leader_epoch", INT32, since=9, default=-1),
                        F("fetch_offset", INT64),
                        F("last_fetched_epoch", INT32, since=12, default=-1, ignorable=False),
                        F("log_start_offset", INT64, since=5, default=-1),
                        F("partition_max_bytes", INT32),
                        F("replica_directory_id", UUID, since=17, tag=0),
                        F("high_watermark", INT64, since=18, tag=1, default=0x7FFF_FFFF_FFFF_FFFF),
                    ),
                ),
            ),
        ),
        F(
            "forgotten_topics_data",
            Array(
                F("topic", STRING, until=12),
                F("topic_id", UUID, since=13),
                F("partitions", Array(INT32)),
            ),
            since=7,
            ignorable=False,
        ),
        F("rack_id", STRING, since=11),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F("error_code", INT16, since=7),
        F("session_id", INT32, since=7),
        F(
            "responses",
            Array(
                F("topic", STRING, until=12),
                F("topic_id", UUID, since=13),
                F(
                    "partitions",
                    Array(
                        F("partition_index", INT32),
                        F("error_code", INT16),
                        F("high_watermark", INT64),
                        F("last_stable_offset", INT64, default=-1),
                        F("log_start_offset", INT64, since=5, default=-1),
                        F(
                            "diverging_epoch",
                            Struct(
                                F("epoch", INT32, default=-1),
                                F("end_offset", INT64, default=-1),
                            ),
                            since=12,
                            tag=0,
                        ),
                        F(
                            "current_leader",
                            Struct(
                                F("leader_id", INT32, default=-1),
                                F("leader_epoch", INT32, default=-1),
                            ),
                            since=12,
                            tag=1,
                        ),
                        F(
                            "snapshot_id",
                            Struct(
                                F("end_offset", INT64, default=-1),
                                F("epoch", INT32, default=-1),
                            ),
                            since=12,
                            tag=2,
                        ),
                        F(
                            "aborted_transactions",
                            Array(
                                F("producer_id", INT64),
                                F("first_offset", INT64),
                            ),
                            nullable_since=4,
                        ),
                        F("preferred_read_replica", INT32, since=11, default=-1),
                        F("records", BYTES, nullable_since=0, default=None),
                    ),
                ),
            ),
        ),
        F(
            "node_endpoints",
            Array(
                F("node_id", INT32),
                F("host", STRING),
                F("port", INT32),
                F("rack", STRING, nullable_since=16, default=None),
            ),
            since=16,
            tag=0,
        ),
    ),
)
