"""What a run has measured so far, kept as it comes: an interrupted run goes on where it stopped."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.results import Reading


class Journal:
    """A file of one JSON line per reading. Lines of other versions or of another scale stay, and are not ours."""

    def __init__(self, path: Path, *, versions: Mapping[str, str], scale: float) -> None:
        self._path = path
        self._versions = versions
        self._scale = scale

    def readings(self) -> list[Reading]:
        if not self._path.exists():
            return []
        return [
            Reading(row=line["row"], system=line["system"], repeat=line["repeat"], values=line["values"])
            for line in map(json.loads, self._path.read_text().splitlines())
            if line["scale"] == self._scale and line["version"] == self._versions.get(line["system"])
        ]

    def add(self, readings: Iterable[Reading]) -> None:
        with self._path.open("a") as lines:
            for one in readings:
                line = {
                    "row": one.row,
                    "system": one.system,
                    "repeat": one.repeat,
                    "version": self._versions[one.system],
                    "scale": self._scale,
                    "values": dict(one.values),
                }
                lines.write(json.dumps(line) + "\n")
