"""Where the golden files are, and how Kafka's JSON spells what our tables name."""

from pathlib import Path

MESSAGE_LINES = Path(__file__).with_name("messages-4.1.1.jsonl")
BATCHES = Path(__file__).with_name("batches-4.1.1.jsonl")

# Versions in our tables that Kafka 4.1.1 does not have yet; kio vouches for these.
NEWER_THAN_KAFKA = {("ListOffsets", 11), ("DescribeLogDirs", 5)}

_SPELLED_APART = {"enable_2pc": "enable2Pc"}


def camel_case(name: str) -> str:
    if name in _SPELLED_APART:
        return _SPELLED_APART[name]
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
