"""Where a table lies: a directory or a URL of an object store, with the options that open it.

Everything that reads or writes files of a table does it through the file system that Delta itself uses, so that one
set of options serves both. Values of this kind travel to tasks.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.fs
from deltalake.fs import DeltaStorageHandler


@dataclass(frozen=True, slots=True)
class Location:
    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # Passwords may be among them.

    @property
    def path(self) -> Path | None:
        """Of a directory of this machine; None of an object store."""
        return None if "://" in self.uri else Path(self.uri)

    def child(self, name: str) -> "Location":
        return Location(f"{self.uri}/{name}", self.options)

    def files(self) -> pyarrow.fs.FileSystem:
        """The table's files, by their paths within the table. A local table has to be there already."""
        return pyarrow.fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))

    def __str__(self) -> str:
        return self.uri


def parse_location(text: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Location:
    """A path, made absolute since tasks have another working directory, or a URL as it is."""
    place = os.fspath(text).rstrip("/") or "/"
    if place.startswith("file://"):
        place = place.removeprefix("file://")
    return Location(place if "://" in place else os.path.abspath(place), dict(options or {}))
