"""The small local journal of a sender: the states of its open spans, in files that are mapped into memory.

A store into mapped memory is in the file whatever becomes of the process, so a sender that was killed at any moment
left behind exactly what it knew. Whoever starts next with the same directory tells the audit topic, for ever, what the
former one had acknowledged and what it had under way.

    <directory>/lock                          held while a sender lives
    <directory>/<incarnation>-<number>.json   whose the span is; there as long as it is not told of for the last time
    <directory>/<incarnation>-<number>.states a byte per sequence

Nothing is synced: after a power cut the files may lack what was last stored. They are then dropped, and what they tell
of stays uncertain. The machine's boot id tells.
"""

import fcntl
import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.audit.sender import Publish
from headrace.audit.spans import Span, States, recall
from headrace.audit.stamps import SpanId
from headrace.audit.windows import Window
from headrace.errors import ConfigError

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Journal:
    """A shelf for a `Sender`. Belongs to one process, until it is closed."""

    def __init__(self, directory: str | os.PathLike[str], *, boot_id: str | None = None) -> None:
        self._directory = Path(directory)
        self._boot_id = _boot_id() if boot_id is None else boot_id
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = (self._directory / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise ConfigError(f"journal={str(directory)!r} is in use by another sender ({error})") from None

    def close(self) -> None:
        self._lock.close()

    # --- For a sender --------------------------------------------------------------------------------------------

    def open(self, span: SpanId, *, topic: str, window: Window, host: str, size: int) -> States:
        meta, states = self._paths(span)
        fields = {
            "boot_id": self._boot_id,
            "producer": span.producer,
            "incarnation": span.incarnation,
            "span": span.number,
            "topic": topic,
            "window_start_ms": window.start_ms,
            "window_ms": window.length_ms,
            "host": host,
        }
        made = meta.with_suffix(".new")
        made.write_text(json.dumps(fields))
        states.write_bytes(bytes(size))
        made.replace(meta)
        return _map(states)

    def grow(self, span: SpanId, states: States, size: int) -> States:
        _, path = self._paths(span)
        # Written, not only made longer: a full disk is an error here, and a dead process when it is met in mapped
        # memory.
        with path.open("ab") as file:
            file.write(bytes(size - len(states)))
        assert isinstance(states, mmap.mmap)
        states.close()
        return _map(path)

    def discard(self, span: SpanId, states: States) -> None:
        if isinstance(states, mmap.mmap):
            states.close()
        meta, path = self._paths(span)
        meta.unlink()  # First: states without it mean nothing.
        path.unlink()

    # --- After the former one ------------------------------------------------------------------------------------

    def left_behind(self) -> Iterator[Span]:
        """The spans of former incarnations, as they left them. Files that cannot be trusted are removed."""
        for made in self._directory.glob("*.new"):
            made.unlink()
        for states in self._directory.glob("*.states"):
            if not states.with_suffix(".json").exists():
                states.unlink()
        for meta in sorted(self._directory.glob("*.json")):
            span = self._read(meta)
            if span is None:
                meta.unlink()
                meta.with_suffix(".states").unlink(missing_ok=True)
            else:
                yield span

    def _read(self, meta: Path) -> Span | None:
        try:
            fields = json.loads(meta.read_text())
        except ValueError:
            return None  # Only a power cut leaves half of it: it is renamed when it is whole.
        if fields["boot_id"] != self._boot_id:
            return None
        span = Span(
            SpanId(fields["producer"], fields["incarnation"], fields["span"]),
            topic=fields["topic"],
            window=Window(fields["window_start_ms"], fields["window_ms"]),
            host=fields["host"],
            states=_map(meta.with_suffix(".states")),
        )
        recall(span)
        return span

    def _paths(self, span: SpanId) -> tuple[Path, Path]:
        stem = f"{span.incarnation}-{span.number}"
        return self._directory / f"{stem}.json", self._directory / f"{stem}.states"


def settle_former(journal: Journal, *, now_us: int, publish: Publish) -> int:
    """Tell of what former incarnations left behind. The incarnation that may begin now, later than all of them."""
    left = list(journal.left_behind())
    incarnation = max([now_us, *(span.id.incarnation + 1 for span in left)])
    for span in left:
        span.abandon()
    if left:
        publish([span.tell(reserved=span.handed, told_by=incarnation) for span in left])
    for span in left:
        journal.discard(span.id, span.states)
    return incarnation


def _map(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def _boot_id() -> str:
    """Where the machine does not tell, every boot seems the same, and only kills are survived truthfully."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
