"""Writes the golden files beside it: bytes that Apache Kafka's own code makes of messages and record batches.

Run as `python -m tests.golden.kafka.capture` when a table gains a message or a version; needs Java and Maven. The
tests read the files alone.
"""

import base64
import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.protocol.compression import Codec
from headrace.protocol.fields import BOOL, Array, Bytes, F, Fixed, String, Struct, Type, Uuid
from headrace.protocol.messages import MESSAGES
from tests.golden.kafka.files import BATCHES, MESSAGE_LINES, NEWER_THAN_KAFKA, camel_case
from tests.oracle.kafka import java_command

SOURCE = Path(__file__).with_name("Capture.java")
Json = dict[str, Any]


def message_lines() -> Iterator[Json]:
    """Three values of each message and version: everything set, everything at its emptiest, and one in between."""
    for api in MESSAGES.values():
        for message in (api.request, api.response):
            for version in range(api.version_min, api.version_max + 1):
                if (api.name, version) in NEWER_THAN_KAFKA:
                    continue
                for items in (2, 0, 1):
                    numbers = itertools.count(1)
                    yield {
                        "message": message.name,
                        "key": api.key,
                        "version": version,
                        "value": struct_json(message.struct, version, items=items, numbers=numbers),
                    }


def struct_json(struct: Struct, version: int, *, items: int, numbers: Iterator[int]) -> Json:
    return {
        camel_case(field.name): field_json(field, version, items=items, numbers=numbers)
        for field in struct.fields
        if field.in_version(version) and not (field.tag is not None and items == 0)
    }


def field_json(field: F, version: int, *, items: int, numbers: Iterator[int]) -> Any:
    if items == 0 and field.nullable(version):
        return None
    return type_json(field.type, version, items=items, numbers=numbers)


def type_json(type_: Type, version: int, *, items: int, numbers: Iterator[int]) -> Any:
    """Values that differ from field to field, so that two fields confused cannot go unnoticed."""
    match type_:
        case Array():
            return [type_json(type_.of, version, items=items, numbers=numbers) for _ in range(items)]
        case Struct():
            return struct_json(type_, version, items=items, numbers=numbers)
    number = next(numbers) if items else 0
    match type_:
        case Fixed() if type_ is BOOL:
            return items > 0
        case Fixed():
            largest = (1 << 8 * type_.size - 1) - 1
            return -1 - number if items == 1 else largest - number if items else 0
        case String():
            return "é" * number if items else ""
        case Bytes():
            return base64.b64encode(bytes([number % 256]) * number).decode() if items else ""
        case Uuid():
            raw = bytes([number % 256]) * 16 if items else bytes(16)
            return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        case _:
            raise AssertionError(f"no value for {type_}")


# A value is repeated `times` over, so that one longer than any codec's block does not fill the file.
RECORDS: list[Json] = [
    {"key": "a2V5", "value": "dmFsdWU=", "times": 1, "headers": []},
    {"key": None, "value": None, "times": 1, "headers": []},
    {"key": "", "value": "", "times": 1, "headers": [["name", "Ynl0ZXM="], ["näme", None], ["name", ""]]},
]
LONG_RECORD: Json = {"key": None, "value": "AAECAwQFBgcICQoL", "times": 20_000, "headers": []}


def batch_lines() -> Iterator[Json]:
    plain: Json = {
        "base_offset": 0,
        "leader_epoch": -1,
        "append_time_ms": None,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "transactional": False,
    }
    owned = {"base_offset": 1 << 40, "leader_epoch": 5, "producer_id": 1 << 33, "producer_epoch": 3}
    sequenced = {"base_sequence": 9, "transactional": True}
    stamped = {"append_time_ms": 1_700_000_000_999}
    for codec in Codec:
        for changes in ({}, {**owned, **sequenced}, stamped):
            batch = {**plain, **changes, "codec": int(codec)}
            records = RECORDS if codec is Codec.NONE else [*RECORDS, LONG_RECORD]
            # Timestamps that fall and rise, offsets with gaps as compaction leaves them in the second form.
            step = 3 if changes.get("transactional") else 1
            yield {
                "batch": batch,
                "records": [
                    {
                        **record,
                        "offset": batch["base_offset"] + step * index,
                        "timestamp_ms": 1_700_000_000_000 + (-1) ** index * index * 1000,
                    }
                    for index, record in enumerate(records)
                ],
            }


def capture(lines: Iterator[Json], into: Path) -> None:
    asked = "".join(json.dumps(line) + "\n" for line in lines)
    answered = subprocess.run([*java_command(), str(SOURCE)], input=asked.encode(), stdout=subprocess.PIPE, check=True)
    into.write_bytes(answered.stdout)
    print(into.name, len(answered.stdout.splitlines()), "lines")


if __name__ == "__main__":
    capture(message_lines(), MESSAGE_LINES)
    capture(batch_lines(), BATCHES)
