"""OffsetDelete: a group forgets how far it has read some partitions."""

from headrace.protocol.schema import INT16, INT32, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=47,
    name="OffsetDelete",
    versions=(0, 0),
    flexible_since=1,
    request=(
        F("group_id", STRING),
        F("topics", Array(F("name", STRING), F("partitions", Array(F("partition_index", INT32))))),
    ),
    response=(
        F("error_code", INT16),
        F("throttle_time_ms", INT32),
        F(
            "topics",
            Array(
                F("name", STRING),
                F("partitions", Array(F("partition_index", INT32), F("error_code", INT16))),
            ),
        ),
    ),
)
