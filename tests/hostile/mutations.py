"""Seeded mutations of honest requests: flipped bits, lying lengths, cuts, repeats, splices.

One seed makes one frame, so a failure is rerun by its number. The seeds start from a request of every served API and
version, which reaches deeper than noise would.
"""

import random
import struct
from collections.abc import Sequence

from headrace.node.handlers import APIS
from headrace.protocol.records import Record, encode_batch
from headrace.protocol.schema import Value
from tests.hostile.target import TOPIC, request_body

_INTERESTING = (0, 1, -1, 2, 127, 128, 255, 256, 0x7FFF, -0x8000, 0x7FFFFFFF, -0x80000000, 0x40000000)


def honest_bodies() -> list[bytes]:
    """One request of every API and version, with something in it."""
    return [
        request_body(key, version, _request(key, version))
        for key, api in sorted(APIS.items())
        for version in range(api.version_min, api.version_max + 1)
    ]


def _request(key: int, version: int) -> Value:
    batch = encode_batch([Record(b"k", b"v" * 30, (("h", b"x"),), 1_700_000_000_000)])
    # DeleteTopics and DeleteRecords name what the honest client does not use.
    samples: dict[int, Value] = {
        0: {
            "acks": 1,
            "timeout_ms": 10,
            "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}],
        },
        1: {
            "max_wait_ms": 1,
            "min_bytes": 1,
            "session_epoch": -1,
            "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 9}]}],
        },
        2: {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        3: {"topics": [{"name": TOPIC}]},
        19: {"topics": [{"name": "mutant", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 10},
        20: {"topics": [{"name": "mutant"}]} if version >= 6 else {"topic_names": ["mutant"]},
        21: {"topics": [{"name": "mutant", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 10},
        32: {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}]},
        37: {"topics": [{"name": "mutant", "count": 2, "assignments": None}], "timeout_ms": 10},
    }
    return samples.get(key) or _group_request(key, version)


def _group_request(key: int, version: int) -> Value:
    """The group is founded by what is left whole of a JoinGroup, and lives as well as it can."""
    member = {"group_id": "mutant", "generation_id": 1, "member_id": "mutant-1"}
    place = {"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}]}
    offsets = {"group_id": "mutant", "topics": [{"name": TOPIC, "partition_indexes": [0, 1]}]}
    join = {
        "group_id": "mutant",
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 6_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes.fromhex("000000000001000161ffffffff")}],
    }
    samples: dict[int, Value] = {
        8: {"group_id": "mutant", "topics": [place]},
        9: {"groups": [offsets]} if version >= 8 else offsets,
        10: {"coordinator_keys": ["mutant", "another"]} if version >= 4 else {"key": "mutant"},
        11: join,
        12: member,
        13: {"group_id": "mutant", "members": [{"member_id": "mutant-1"}]}
        if version >= 3
        else {"group_id": "mutant", "member_id": "mutant-1"},
        14: {**member, "assignments": [{"member_id": "mutant-1", "assignment": b"part"}]},
        15: {"groups": ["mutant", "another"]},
        42: {"groups_names": ["mutant"]},
        47: {"group_id": "mutant", "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]},
    }
    return samples.get(key, {})


def mutated(seed: int, bodies: Sequence[bytes]) -> bytes:
    """A frame, most often with a length that fits, sometimes with one that lies."""
    chance = random.Random(seed)
    body = bytearray(chance.choice(bodies))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        _mutate(body, chance, bodies)
    size = len(body)
    if chance.random() < 0.05:
        size = chance.choice((size - 1, size + 1, size * 2, 90_000_000, *_INTERESTING))
    return struct.pack(">i", max(-0x80000000, min(0x7FFFFFFF, size))) + bytes(body)


def _mutate(body: bytearray, chance: random.Random, bodies: Sequence[bytes]) -> None:
    kind = chance.randrange(7)
    at = chance.randrange(len(body)) if body else 0
    if kind == 0 and body:
        body[at] ^= 1 << chance.randrange(8)
    elif kind == 1 and body:
        body[at] = chance.randrange(256)
    elif kind == 2:
        width, code = chance.choice(((1, "b"), (2, "h"), (4, "i")))
        number = chance.choice(_INTERESTING) & ((1 << (8 * width)) - 1)
        body[at : at + width] = struct.pack(">" + code.upper(), number)
    elif kind == 3:
        del body[at:]
    elif kind == 4:
        body[at:at] = chance.randbytes(chance.randrange(1, 20))
    elif kind == 5:
        del body[at : at + chance.randrange(1, 10)]
    else:
        other = chance.choice(bodies)
        body[at:] = other[chance.randrange(len(other)) :]
