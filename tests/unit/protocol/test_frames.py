import random

import pytest

from headrace.errors import ProtocolError
from headrace.protocol.frames import FrameReader, frame


def frames_in(reader: FrameReader) -> list[bytes]:
    frames = []
    while (found := reader.next_frame()) is not None:
        frames.append(found)
    return frames


CONTENTS = [b"hello", b"", b"x" * 300, b"bye"]
STREAM = b"".join(frame([content]) for content in CONTENTS)


def test_a_frame_is_its_size_and_its_parts() -> None:
    assert frame([b"ab", bytearray(b"c"), memoryview(b"d")]).hex() == "00000004" + b"abcd".hex()
    assert frame([]) == bytes(4)


def test_all_at_once() -> None:
    reader = FrameReader(frame_bytes_max=300)
    reader.receive(STREAM)
    assert frames_in(reader) == CONTENTS
    assert reader.pending_bytes == 0


def test_byte_by_byte() -> None:
    reader = FrameReader(frame_bytes_max=300)
    found = []
    for byte in STREAM:
        reader.receive(bytes([byte]))
        found += frames_in(reader)
    assert found == CONTENTS


def test_cut_anywhere() -> None:
    chance = random.Random(7)
    for _ in range(200):
        reader = FrameReader(frame_bytes_max=300)
        found = []
        position = 0
        while position < len(STREAM):
            size = chance.randint(0, 120)
            reader.receive(memoryview(STREAM)[position : position + size])
            position += size
            found += frames_in(reader)
        assert found == CONTENTS


def test_a_frame_cut_off_by_the_end_of_the_stream_is_never_given_out() -> None:
    for size in range(len(STREAM)):
        reader = FrameReader(frame_bytes_max=300)
        reader.receive(STREAM[:size])
        whole = frames_in(reader)
        assert whole == CONTENTS[: len(whole)]
        assert reader.pending_bytes == size - sum(4 + len(content) for content in whole)


@pytest.mark.parametrize("size", [301, 0x7FFF_FFFF, -1, -(1 << 31)])
def test_a_size_out_of_bounds_fails_the_stream_for_good(size: int) -> None:
    reader = FrameReader(frame_bytes_max=300)
    reader.receive(frame([b"good"]) + size.to_bytes(4, "big", signed=True))
    assert reader.next_frame() == b"good"
    for _ in range(2):
        with pytest.raises(ProtocolError, match=f"frame of {size} bytes, outside 0..300"):
            reader.next_frame()
    reader.receive(frame([b"good"]))
    with pytest.raises(ProtocolError):
        reader.next_frame()
    assert reader.pending_bytes == 0
