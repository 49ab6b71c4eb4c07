"""What a test can make go wrong: requests that are late, lost, refused or cut off, and a disk that fails.

    with broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", topic="orders", times=2) as fault:
        service.place_order(...)
    assert fault.hits == 2

A fault meets the next `times` requests that match it, or all of them until it is removed where `times` is None. An API
is named as in Kafka's protocol guide: Produce, Fetch, Metadata, JoinGroup and so on. Of several faults that match one
request, the one that was made first meets it.
"""

import errno as errnos
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.errors import ErrorCode
from headrace.testing.control import BrokerError
from headrace.testing.messages import DiskOperation, FaultSpec

if TYPE_CHECKING:
    from headrace.testing.broker import Broker

_POLL_S = 0.005


class Fault:
    """One fault, from when it was made until it is removed. As a context manager it is removed at the end."""

    def __init__(self, broker: "Broker", number: int) -> None:
        self._broker = broker
        self._number = number
        self._hits_at_end: int | None = None

    @property
    def hits(self) -> int:
        """How often it was met."""
        if self._hits_at_end is not None:
            return self._hits_at_end
        hits: int = self._broker.command("fault_hits", number=self._number)
        return hits

    def wait(self, hits: int = 1, *, timeout_s: float = 10.0) -> None:
        """Until it was met so often; BrokerError where it was not."""
        deadline_s = time.monotonic() + timeout_s
        while (seen := self.hits) < hits:
            if time.monotonic() > deadline_s:
                raise BrokerError(f"the fault was met {seen} times in {timeout_s} s, not {hits}")
            time.sleep(_POLL_S)

    def remove(self) -> None:
        """From now on nobody meets it. What it has done is done."""
        if self._hits_at_end is None:
            self._hits_at_end = self._broker.command("remove_fault", number=self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class Faults:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def delay(
        self,
        *,
        seconds: float,
        api: str | None = None,
        topic: str | None = None,
        client_id: str | None = None,
        times: int | None = 1,
    ) -> Fault:
        """Hold an answer back, and with it all that come after it on its connection. Goes by the monotonic clock."""
        return self._add(
            FaultSpec(kind="delay", delay_ms=seconds * 1000, api=api, topic=topic, client_id=client_id, times=times)
        )

    def drop(
        self,
        *,
        api: str | None = None,
        topic: str | None = None,
        client_id: str | None = None,
        times: int | None = 1,
        handled: bool = False,
    ) -> Fault:
        """Never answer. Its connection is stuck from then on, since answers keep their order, until the client gives
        it up. With `handled` the request is carried out, and only its answer is lost."""
        return self._add(
            FaultSpec(kind="drop", handled=handled, api=api, topic=topic, client_id=client_id, times=times)
        )

    def error(
        self,
        code: ErrorCode | str | int,
        *,
        api: str,
        topic: str | None = None,
        client_id: str | None = None,
        times: int | None = 1,
    ) -> Fault:
        """Refuse with one of Kafka's errors, in each place where the API has room for one. Nothing is carried out.

        A request that names several topics is refused whole where it names this one, but a Fetch for this one alone.
        """
        number = ErrorCode[code] if isinstance(code, str) else ErrorCode(code)
        return self._add(
            FaultSpec(kind="error", error_code=number, api=api, topic=topic, client_id=client_id, times=times)
        )

    def disconnect(
        self,
        *,
        api: str | None = None,
        topic: str | None = None,
        client_id: str | None = None,
        times: int | None = 1,
        handled: bool = False,
    ) -> Fault:
        """Close the connection instead of answering. With `handled` the request is carried out before."""
        return self._add(
            FaultSpec(kind="disconnect", handled=handled, api=api, topic=topic, client_id=client_id, times=times)
        )

    def disk(
        self,
        errno: int = errnos.ENOSPC,
        *,
        on: DiskOperation = "append",
        topic: str | None = None,
        times: int | None = 1,
    ) -> Fault:
        """Fail an operation on a partition's log: writing a batch, or making what was written durable.

        After anything but ENOSPC on an append, the partition is offline until the broker is restarted, as it would be
        on a real disk. Syncs are few: `flush.messages=1` makes one for every batch.
        """
        return self._add(FaultSpec(kind="disk", errno=errno, operation=on, topic=topic, times=times))

    def clear(self) -> None:
        """Remove all of them."""
        self._broker.command("clear_faults")

    def _add(self, spec: FaultSpec) -> Fault:
        if spec.times is not None and spec.times < 1:
            raise ValueError(f"times is {spec.times}; a fault is met once at least, or without end (None)")
        return Fault(self._broker, self._broker.command("add_fault", spec=spec))
