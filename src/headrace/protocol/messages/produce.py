"""Produce, as clients and tools see it. The server parses and answers it by hand."""

from headrace.protocol.schema import BYTES, INT16, INT32, INT64, STRING, UUID, ApiMessages, Array, F, Struct

API = ApiMessages(
    key=0,
    name="Produce",
    versions=(3, 13),
    flexible_since=9,
    request=(
        F("transactional_id", STRING, nullable_since=0, default=None),
        F("acks", INT16),
        F("timeout_ms", INT32),
        F(
            "topic_data",
            Array(
                F("name", STRING, until=12),
                F("topic_id", UUID, since=13),
                F(
                    "partition_data",
                    Array(
                        F("index", INT32),
                        F("records", BYTES, nullable_since=0, default=None),
                    ),
                ),
            ),
        ),
    ),
    response=(
        F(
            "responses",
            Array(
                F("name", STRING, until=12),
                F("topic_id", UUID, since=13),
                F(
                    "partition_responses",
                    Array(
                        F("index", INT32),
                        F("error_code", INT16),
                        F("base_offset", INT64),
                        F("log_append_time_ms", INT64, default=-1),
                        F("log_start_offset", INT64, since=5, default=-1),
                        F(
                            "record_errors",
                            Array(
                                F("batch_index", INT32),
                                F("batch_index_error_message", STRING, nullable_since=8, default=None),
                            ),
                            since=8,
                        ),
                        F("error_message", STRING, since=8, nullable_since=8, default=None),
                        F(
                            "current_leader",
                            Struct(
                                F("leader_id", INT32, default=-1),
                                F("leader_epoch", INT32, default=-1),
                            ),
                            since=10,
                            tag=0,
                        ),
                    ),
                ),
            ),
        ),
        F("throttle_time_ms", INT32),
        F(
            "node_endpoints",
            Array(
                F("node_id", INT32),
                F("host", STRING),
                F("port", INT32),
                F("rack", STRING, nullable_since=10, default=None),
            ),
            since=10,
            tag=0,
        ),
    ),
)
