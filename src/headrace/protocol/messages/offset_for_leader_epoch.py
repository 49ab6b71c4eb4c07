"""OffsetForLeaderEpoch: where a leader epoch ended, by which followers and consumers find a truncation."""

from headrace.protocol.schema import INT16, INT32, INT64, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=23,
    name="OffsetForLeaderEpoch",
    versions=(2, 4),
    flexible_since=4,
    request=(
        F("replica_id", INT32, since=3, default=-2),
        F(
            "topics",
            Array(
                F("topic", STRING),
                F(
                    "partitions",
                    Array(
                        F("partition", INT32),
                        F("current_leader_epoch", INT32, default=-1),
                        F("leader_epoch", INT32),
                    ),
                ),
            ),
        ),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F(
            "topics",
            Array(
                F("topic", STRING),
                F(
                    "partitions",
                    Array(
                        F("error_code", INT16),
                        F("partition", INT32),
                        F("leader_epoch", INT32, default=-1),
                        F("end_offset", INT64, default=-1),
                    ),
                ),
            ),
        ),
    ),
)
