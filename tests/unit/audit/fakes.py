"""An audit topic that remembers what was published, and can be away."""

from collections.abc import Sequence

from headrace.audit.audit_topic import AuditUnavailable
from headrace.audit.messages import Sent, newest


class FakeTopic:
    """What was published; `is_away` makes publishing fail."""

    def __init__(self) -> None:
        self.published: list[Sent] = []
        self.is_away = False

    def publish(self, told: Sequence[Sent]) -> None:
        if self.is_away:
            raise AuditUnavailable("away")
        self.published += told

    def newest(self) -> list[Sent]:
        return [told for told in newest(self.published) if isinstance(told, Sent)]
