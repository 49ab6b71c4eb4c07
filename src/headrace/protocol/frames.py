"""Frames: a four-byte size, then as many bytes. Bytes in, whole frames out; who moves them is not known here.

Clients, tools and the simulator use this. The server has a path of its own, where a frame is a view into a
shared buffer: copying a frame of 1 MiB as here costs about a millisecond.
"""

from collections.abc import Iterable

from headrace.errors import ProtocolError
from headrace.ports import Buffer

SIZE_BYTES = 4


class FrameReader:
    """Cuts a stream into frames. After a wrong size the stream cannot be trusted: it stays failed."""

    __slots__ = ("_buffer", "_failure", "_frame_bytes_max")

    def __init__(self, *, frame_bytes_max: int) -> None:
        assert 0 <= frame_bytes_max <= 0x7FFF_FFFF
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._failure: str | None = None

    def receive(self, data: Buffer) -> None:
        if self._failure is None:  # Nothing is kept for a peer that is done for.
            self._buffer += data

    def next_frame(self) -> bytes | None:
        """The next whole frame without its size, or None until more bytes arrive."""
        if self._failure is not None:
            raise ProtocolError(self._failure)
        if len(self._buffer) < SIZE_BYTES:
            return None
        size = int.from_bytes(self._buffer[:SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self._frame_bytes_max:
            self._failure = f"frame of {size} bytes, outside 0..{self._frame_bytes_max}"
            self._buffer.clear()
            raise ProtocolError(self._failure)
        end = SIZE_BYTES + size
        if len(self._buffer) < end:
            return None
        frame = bytes(memoryview(self._buffer)[SIZE_BYTES:end])
        del self._buffer[:end]
        return frame

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that has not ended: more than none at the end of a stream means it was cut off."""
        return len(self._buffer)


def frame(parts: Iterable[Buffer]) -> bytes:
    """One frame of all parts."""
    content = b"".join(parts)
    return len(content).to_bytes(SIZE_BYTES, "big") + content
