"""Where Spark runs, in its own words: `local[2]`, `spark://host:7077`. Nothing of Spark is needed to read them."""

import os
import re
import socket
from dataclasses import dataclass
from typing import Final, Self

from headrace.errors import ConfigError
from headrace.lab.errors import LabError

_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*(?:\d+|\*))?\])?")
_STANDALONE: Final = re.compile(r"spark://[^,:/\s]+:\d+(?:,[^,:/\s]+:\d+)*")
_REACH_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMaster:
    text: str
    slots: int | None  # Of Spark on this machine; a cluster's are known when it is asked.
    addresses: tuple[tuple[str, int], ...] = ()  # Of a standalone cluster's masters.

    @classmethod
    def parse(cls, text: str) -> Self:
        if found := _LOCAL.fullmatch(text):
            slots = os.cpu_count() or 1 if found[1] == "*" else int(found[1] or 1)
            if slots < 1:
                raise ConfigError(f"{text!r}: on no processor nothing runs")
            return cls(text=text, slots=slots)
        if _STANDALONE.fullmatch(text):
            pairs = (address.rpartition(":") for address in text.removeprefix("spark://").split(","))
            return cls(text=text, slots=None, addresses=tuple((host, int(port)) for host, _, port in pairs))
        if text == "yarn" or text.startswith(("k8s://", "local-cluster[")):
            return cls(text=text, slots=None)
        raise ConfigError(f"{text!r} is no master of Spark's, such as local[2] or spark://host:7077")

    @property
    def is_here(self) -> bool:
        return self.slots is not None

    def check_reachable(self) -> None:
        """Spark itself would try for a minute, and then tell it in a hundred lines."""
        troubles = []
        for host, port in self.addresses:
            try:
                socket.create_connection((host, port), timeout=_REACH_S).close()
            except OSError as error:
                troubles.append(f"{host}:{port}: {error.strerror or error}")
            else:
                return
        if troubles:
            raise LabError(f"no master of Spark's answers ({'; '.join(troubles)})")
