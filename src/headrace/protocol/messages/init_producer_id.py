"""InitProducerId: the id and epoch under which a producer numbers its batches."""

from headrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, ApiMessages, F

API = ApiMessages(
    key=22,
    name="InitProducerId",
    versions=(0, 6),
    flexible_since=2,
    request=(
        F("transactional_id", STRING, nullable_since=0),
        F("transaction_timeout_ms", INT32),
        F("producer_id", INT64, since=3, default=-1, ignorable=False),
        F("producer_epoch", INT16, since=3, default=-1, ignorable=False),
        F("enable_2pc", BOOL, since=6, ignorable=False),
        F("keep_prepared_txn", BOOL, since=6, ignorable=False),
    ),
    response=(
        F("throttle_time_ms", INT32),
        F("error_code", INT16),
        F("producer_id", INT64, default=-1),
        F("producer_epoch", INT16),
        F("ongoing_txn_producer_id", INT64, since=6, default=-1),
        F("ongoing_txn_producer_epoch", INT16, since=6, default=-1),
    ),
)
