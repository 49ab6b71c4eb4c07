"""OffsetCommit: how far a group has read; topics by id from version 10."""

from headrace.protocol.schema import INT16, INT32, INT64, STRING, UUID, ApiMessages, Array, F

API = ApiMessages(
    key=8,
    name="OffsetCommit",
    versions=(2, 10),
    flexible_since=8,
    request=(
        F("group_id", STRING),
        F("generation_id_or_member_epoch", INT32, default=-1),
        F("member_id", STRING),
        F("group_instance_id", STRING, since=7, nullable_since=7, default=None, ignorable=False),
        F("retention_time_ms", INT64, until=4, default=-1),
        F(
            "topics",
            Array(
                F("name", STRING, until=9),
                F("topic_id", UUID, since=10),
                F(
                    "partitions",
                    Array(
                        F("partition_index", INT32),
                        F("committed_offset", INT64),
                        F("committed_leader_epoch", INT32, since=6, default=-1),
                        F("committed_metadata", STRING, nullable_since=0),
                    ),
                ),
            ),
        ),
    ),
    response=(
        F("throttle_time_ms", INT32, since=3),
        F(
            "topics",
            Array(
                F("name", STRING, until=9),
                F("topic_id", UUID, since=10),
                F("partitions", Array(F("partition_index", INT32), F("error_code", INT16))),
            ),
        ),
    ),
)
