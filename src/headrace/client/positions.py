"""Where to read on: an offset, a moment, or one of the two ends."""

import datetime
from typing import Final, Literal

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

# The Kafka paper's words for the two ends of a partition (NetDB'11, section 3.2).
End = Literal["smallest", "largest"]
Position = int | datetime.datetime | End

ENDS: Final = {"smallest": OFFSET_BEGINNING, "largest": OFFSET_END}
RESET: Final = {"smallest": "earliest", "largest": "latest"}


def moment_ms(moment: datetime.datetime) -> int:
    """Milliseconds since 1970. A time without a zone means another moment on every machine, and is refused."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone")
    return round(moment.timestamp() * 1000)


def offset_of(position: int | End) -> int:
    """As librdkafka has it: the ends have numbers below zero."""
    if isinstance(position, str):
        if position not in ENDS:
            raise ValueError(f"{position!r} is neither 'smallest' nor 'largest'")
        return ENDS[position]
    if position < 0:
        raise ValueError(f"there is no offset {position}")
    return position
