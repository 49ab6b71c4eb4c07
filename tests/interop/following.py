"""A Java consumer that follows a compacted partition, and what it may be shown of all that was written there.

A record may be missing only where compaction had it go: a later one of its key was compacted too. Everything else is
seen once, in order, as it was written. With each record goes how far the log was compacted when it came, which tells a
consumer that read *through* a cleaning from one that read before or after it.
"""

import base64
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.clients.scenario import Message, fingerprint
from tests.interop.clients import java_program

_CHECKPOINT = "cleaner-offset-checkpoint"
_END_TIMEOUT_S = 100.0


class Seen(NamedTuple):
    offset: int
    hash: str
    cleaned_offset: int


class Followed(Protocol):
    @property
    def bootstrap(self) -> str: ...
    @property
    def data_dir(self) -> Path: ...


def cleaned_offset(broker: Followed, topic: str) -> int:
    """How far partition 0 is compacted, by the file in which both brokers keep it; zero as long as it is not."""
    try:
        lines = (broker.data_dir / _CHECKPOINT).read_text().splitlines()[2:]
    except FileNotFoundError:
        return 0
    return next((int(offset) for name, _, offset in map(str.split, lines) if name == topic), 0)


class Follower:
    """The consumer, a process of its own. What it says is taken down by a thread as it comes."""

    def __init__(
        self, name: str, broker: Followed, topic: str, *, until: bytes, from_offset: int = 0, pause_ms: int = 0
    ) -> None:
        self.name = name
        self.seen: list[Seen] = []
        self.position = -1
        self._cleaned_offset: Callable[[], int] = lambda: cleaned_offset(broker, topic)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # Lives as long as the process.
        self._process = subprocess.Popen(
            java_program("Driver"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        step = {
            "do": "follow",
            "topic": topic,
            "partition": 0,
            "from": from_offset,
            "until": base64.b64encode(until).decode(),
            "pause_ms": pause_ms,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"bootstrap": broker.bootstrap, "steps": [step]}).encode())
        self._process.stdin.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def check_running(self) -> None:
        assert self._process.poll() is None, f"{self.name} ended{self._complaints()}"

    def wait_end(self) -> None:
        """Until it saw the last record, and everything that it said has been taken down."""
        try:
            status = self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end{self._complaints()}") from None
        assert status == 0, f"{self.name} ended with status {status}{self._complaints()}"
        self._reader.join()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                break  # It was killed while it spoke.
            self._take(json.loads(line))

    def _take(self, event: Mapping[str, object]) -> None:
        match event:
            case {"offsets": list(offsets), "hashes": list(hashes)}:
                cleaned = self._cleaned_offset()
                self.seen += [Seen(offset, one, cleaned) for offset, one in zip(offsets, hashes, strict=True)]
            case {"position": int(position)}:
                self.position = position

    def _complaints(self) -> str:
        self._errors.seek(0)
        return "\n" + self._errors.read().decode(errors="replace")[-3000:]


def cleanings_ahead(seen: Sequence[Seen]) -> int:
    """How often compaction got ahead of a follower while it was reading: what it read next had just been replaced."""
    ahead = {one.cleaned_offset for one in seen if one.cleaned_offset > one.offset}
    return len(ahead - {seen[0].cleaned_offset}) if seen else 0


def complaints(seen: Sequence[Seen], written: Sequence[Message], *, cleaned: int) -> list[str]:
    """All that is wrong with what a follower was shown of these, compacted up to an offset in the end."""
    found = [f"offset {two.offset} came after {one.offset}" for one, two in pairwise(seen) if two.offset <= one.offset]
    for one in seen:
        if not 0 <= one.offset < len(written):
            found.append(f"nothing was written at offset {one.offset}")
        elif one.hash != fingerprint(written[one.offset]):
            found.append(f"what came at offset {one.offset} was not written there")
    superseded_by = _superseded_by(written)
    missing = sorted(set(range(len(written))) - {one.offset for one in seen})
    return found + [
        f"offset {offset} is missing, superseded at {superseded_by[offset]}, compacted up to {cleaned}"
        for offset in missing
        if superseded_by[offset] >= cleaned
    ]


def _superseded_by(written: Sequence[Message]) -> list[int]:
    """For each record the offset of the next one with its key; one behind the end of all for the last of each."""
    found, following = [0] * len(written), dict[bytes | None, int]()
    for offset in range(len(written) - 1, -1, -1):
        key = written[offset].key
        found[offset] = following.get(key, len(written))
        following[key] = offset
    return found
