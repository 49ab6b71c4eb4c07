"""The faults that are laid out, and how often each was met."""

from collections.abc import Callable
from itertools import count

from headrace.errors import HeadraceError
from headrace.protocol.messages import MESSAGES
from headrace.testing.messages import DiskOperation, FaultSpec

_KEYS = {api.name.lower(): api.key for api in MESSAGES.values()}


class LaidFault:
    __slots__ = ("api_key", "hits", "spec")

    def __init__(self, spec: FaultSpec) -> None:
        self.spec = spec
        self.hits = 0
        self.api_key: int | None = None
        if spec.api is not None:
            self.api_key = _KEYS.get(spec.api.lower())
            if self.api_key is None:
                known = ", ".join(sorted(api.name for api in MESSAGES.values()))
                raise HeadraceError(f"there is no API {spec.api!r}; there are {known}")

    @property
    def is_spent(self) -> bool:
        return self.spec.times is not None and self.hits >= self.spec.times


class FaultTable:
    def __init__(self) -> None:
        self._numbers = count(1)
        self._all: dict[int, LaidFault] = {}
        # Those that can still be met, in the order they were laid out: most of the time, none.
        self.of_requests: tuple[LaidFault, ...] = ()
        self._of_disk: tuple[LaidFault, ...] = ()

    def add(self, spec: FaultSpec) -> int:
        number = next(self._numbers)
        self._all[number] = LaidFault(spec)
        self._sort()
        return number

    def hits(self, number: int) -> int:
        return self._all[number].hits if number in self._all else 0

    def remove(self, number: int) -> int:
        """How often it was met."""
        fault = self._all.pop(number, None)
        self._sort()
        return 0 if fault is None else fault.hits

    def clear(self) -> None:
        self._all.clear()
        self._sort()

    def meet(self, fault: LaidFault) -> None:
        fault.hits += 1
        if fault.is_spent:
            self._sort()

    def disk_errno(self, operation: DiskOperation, path: str) -> int | None:
        """What an operation on this file fails with, if it does."""
        for fault in self._of_disk:
            if fault.spec.operation == operation and is_log_of(path, fault.spec.topic):
                self.meet(fault)
                return fault.spec.errno
        return None

    def _sort(self) -> None:
        def laid(is_wanted: Callable[[FaultSpec], bool]) -> tuple[LaidFault, ...]:
            return tuple(fault for fault in self._all.values() if not fault.is_spent and is_wanted(fault.spec))

        self.of_requests = laid(lambda spec: spec.kind != "disk")
        self._of_disk = laid(lambda spec: spec.kind == "disk")


def is_log_of(path: str, topic: str | None) -> bool:
    """Whether the file holds records, of this topic or of any."""
    directory, _, name = path.rpartition("/")
    return name.endswith(".log") and (topic is None or directory.rpartition("-")[0] == topic)
