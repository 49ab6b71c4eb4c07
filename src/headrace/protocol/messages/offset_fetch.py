"""OffsetFetch: how far a group has read; many groups at once from version 8, topics by id from version 10."""

from headrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UUID, ApiMessages, Array, F

API = ApiMessages(
    key=9,
    name="OffsetFetch",
    versions=(1, 10),
    flexible_since=6,
    request=(
        F("group_id", STRING, until=7, ignorable=False),
        F(
            "topics",
            Array(F("name", STRING), F("partition_indexes", Array(INT32))),
            until=7,
            nullable_since=2,
            ignorable=False,
        ),
        F(
            "groups",
            Array(
                F("group_id", STRING),
                F("member_id", STRING, since=9, nullable_since=9, default=None),
                F("member_epoch", INT32, since=9, default=-1),
                F(
                    "topics",
                    Array(
                        F("name", STRING, until=9),
                        F("topic_id", UUID, since=10),
                        F("partition_indexes", Array(INT32)),
                    ),
                    nullable_since=8,
                ),
            ),
            since=8,
            ignorable=False,
        ),
        F("require_stable", BOOL, since=7, ignorable=False),
    ),
    response=(
        F("throttle_time_ms", INT32, since=3),
        F(
            "topics",
            Array(
                F("name", STRING),
                F(
                    "partitions",
                    Array(
                        F("partition_index", INT32),
                        F("committed_offset", INT64),
                        F("committed_leader_epoch", INT32, since=5, default=-1),
                        F("metadata", STRING, nullable_since=0),
                        F("error_code", INT16),
                    ),
                ),
            ),
            until=7,
        ),
        F("error_code", INT16, since=2, until=7),
        F(
            "groups",
            Array(
                F("group_id", STRING),
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
                                F("committed_leader_epoch", INT32, default=-1),
                                F("metadata", STRING, nullable_since=8),
                                F("error_code", INT16),
                            ),
                        ),
                    ),
                ),
                F("error_code", INT16),
            ),
            since=8,
        ),
    ),
)
