"""Record batches against the bytes that Apache Kafka 4.1.1 makes of them, in every codec."""

import base64
import json
from typing import Any, NamedTuple

import pytest

from headrace.protocol.batch import parse_whole_batch
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, decode_records, encode_batch
from tests.golden.kafka.files import BATCHES


class Golden(NamedTuple):
    batch: dict[str, Any]
    records: list[Record]
    encoded: bytes


def read_golden() -> list[Golden]:
    golden = []
    for text in BATCHES.read_text("utf-8").splitlines():
        line = json.loads(text)
        records = [
            Record(
                key=raw(record["key"]),
                value=raw(record["value"], times=record["times"]),
                headers=tuple((name, raw(content)) for name, content in record["headers"]),
                timestamp_ms=record["timestamp_ms"],
                offset=record["offset"],
            )
            for record in line["records"]
        ]
        golden.append(Golden(line["batch"], records, bytes.fromhex(line["hex"])))
    return golden


def raw(text: str | None, *, times: int = 1) -> bytes | None:
    return None if text is None else base64.b64decode(text) * times


GOLDEN = read_golden()


def golden_id(golden: Golden) -> str:
    batch = golden.batch
    kind = "append-time" if batch["append_time_ms"] else "transactional" if batch["transactional"] else "plain"
    return f"{Codec(batch['codec']).name}-{kind}"


def test_every_codec_was_captured() -> None:
    assert {golden.batch["codec"] for golden in GOLDEN} == set(Codec)


@pytest.mark.parametrize("golden", GOLDEN, ids=golden_id)
def test_kafkas_batches_are_read(golden: Golden) -> None:
    expected = golden.records
    if (append_time_ms := golden.batch["append_time_ms"]) is not None:
        expected = [record._replace(timestamp_ms=append_time_ms) for record in expected]
    assert decode_records(golden.encoded) == expected


@pytest.mark.parametrize("golden", GOLDEN, ids=golden_id)
def test_the_same_batch_is_written(golden: Golden) -> None:
    ours = encode_batch(golden.records, keep_offsets=True, **{**golden.batch, "codec": Codec(golden.batch["codec"])})
    if golden.batch["codec"] == Codec.NONE:
        assert ours.hex() == golden.encoded.hex()
    else:  # Compressors differ in what they choose, so only what stands around and inside is the same.
        varying = {"batch_length": 0, "crc": 0}
        assert parse_whole_batch(ours)._replace(**varying) == parse_whole_batch(golden.encoded)._replace(**varying)
        assert decode_records(ours) == decode_records(golden.encoded)
