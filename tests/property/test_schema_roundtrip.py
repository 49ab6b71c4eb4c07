"""Every table, every version, both directions: what is written is read back, and bad bytes are only ever that."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ProtocolError
from headrace.protocol.schema import Message
from tests.message_values import VERSIONED, message_values, versioned_id, with_defaults

every_version = pytest.mark.parametrize(("message", "version"), VERSIONED, ids=versioned_id)
few = settings(max_examples=5, deadline=None, derandomize=True)

MUTATIONS = 20


@every_version
@few
@given(data=st.data())
def test_whole_cut_anywhere_and_followed_by_more(message: Message, version: int, data: st.DataObject) -> None:
    value = data.draw(message_values(message, version))
    encoded = message.encode(value, version)
    expected = with_defaults(message.struct, value)

    assert message.read(encoded, version) == (expected, len(encoded))
    assert message.decode(memoryview(encoded), version) == expected
    assert message.read(b"before" + encoded + b"after", version, 6) == (expected, 6 + len(encoded))
    for size in range(len(encoded)):
        with pytest.raises(ProtocolError):
            message.decode(memoryview(encoded)[:size], version)


@every_version
@few
@given(data=st.data(), seed=st.integers(0, 1 << 32), noise=st.binary(max_size=200))
def test_wrong_bytes_are_read_or_refused(
    message: Message, version: int, data: st.DataObject, seed: int, noise: bytes
) -> None:
    encoded = message.encode(data.draw(message_values(message, version)), version)
    chance = random.Random(seed)
    for _ in range(MUTATIONS):
        _read_or_refuse(message, version, _mutated(encoded, chance))
    _read_or_refuse(message, version, noise)


def _mutated(data: bytes, chance: random.Random) -> bytes:
    mutated = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(mutated))
        mutated[at : at + chance.randint(0, 2)] = chance.choice((b"\x00", b"\xff", b"\x7f", chance.randbytes(1)))
    return bytes(mutated)


def _read_or_refuse(message: Message, version: int, data: bytes) -> None:
    try:
        value, end = message.read(data, version)
    except ProtocolError:
        return
    assert end <= len(data)
    # Whatever we accept we can write, and read again as the same.
    assert message.decode(message.encode(value, version), version) == value
