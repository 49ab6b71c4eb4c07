"""A sender's books in the real world: audit topic, journal, clock, and a thread that publishes now and then.

Whatever a sender sends with, it takes sequences from `sender`, settles them there, and closes the books at the end.
"""

import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from headrace.audit.audit_topic import AuditTopic, AuditUnavailable
from headrace.audit.journal import Journal, settle_former
from headrace.audit.sender import MemoryShelf, Sender
from headrace.audit.stamps import check_name, nameable
from headrace.audit.windows import check_length

PUBLISH_EVERY_S: Final = 5.0


class Accountant:
    """Belongs to whoever closes it."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        producer_id: str,
        journal: str | os.PathLike[str] | None,
        window_ms: int,
        audit_topic: str,
        publish_every_s: float,
        publish_timeout_s: float,
        host: str | None,
    ) -> None:
        check_name(producer_id, word="producer_id")
        self.window_ms = check_length(window_ms)
        self._every_s = publish_every_s
        self._topic = AuditTopic(config, audit_topic, timeout_s=publish_timeout_s)
        self._journal: Journal | None = None
        try:
            incarnation = time.time_ns() // 1_000
            if journal is not None:
                self._journal = Journal(journal)
                incarnation = settle_former(self._journal, now_us=incarnation, publish=self._topic.publish)
        except BaseException:
            if self._journal is not None:
                self._journal.close()
            raise
        self.sender = Sender(
            producer=producer_id,
            incarnation=incarnation,
            host=nameable(socket.gethostname()) if host is None else check_name(host, word="host"),
            publish=self._topic.publish,
            shelf=self._journal or MemoryShelf(),
        )
        self.is_closed = False
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-audit", daemon=True)
        self._thread.start()

    def publish(self) -> None:
        self.sender.tick(now_ms=time.time_ns() // 1_000_000)

    def close(self) -> None:
        """The last word. AuditUnavailable if it did not get through; a journal then keeps it for the next to start."""
        if self.is_closed:
            return
        self.is_closed = True
        self._is_over.set()
        self._thread.join()
        try:
            self.sender.close()
        finally:
            if self._journal is not None:
                self._journal.close()

    def _run(self) -> None:
        while not self._is_over.wait(self._every_s):
            try:
                self.publish()
            except AuditUnavailable:
                # Said again at the next turn, and at the end, where it is an error. Meanwhile nothing is claimed, and
                # whoever needs a new reservation is told.
                continue
