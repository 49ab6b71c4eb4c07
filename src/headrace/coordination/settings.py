"""The limits that groups live by, under Kafka's names with our units; the defaults are Kafka's."""

from typing import NamedTuple

_MINUTE_MS = 60 * 1000
_DAY_MS = 24 * 60 * _MINUTE_MS


class GroupSettings(NamedTuple):
    session_timeout_ms_min: int = 6_000  # group.min.session.timeout.ms
    session_timeout_ms_max: int = 30 * _MINUTE_MS  # group.max.session.timeout.ms
    members_max: int = 2**31 - 1  # group.max.size
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    offset_metadata_chars_max: int = 4_096  # offset.metadata.max.bytes, which Kafka counts in UTF-16 units
    offsets_retention_ms: int = 7 * _DAY_MS  # offsets.retention.minutes
    offsets_retention_check_ms: int = 10 * _MINUTE_MS  # offsets.retention.check.interval.ms
    # A new member cannot send heartbeats, not knowing its id yet, and a dead one must not be waited for indefinitely.
    # Fixed in Kafka.
    new_member_join_timeout_ms: int = 5 * _MINUTE_MS
