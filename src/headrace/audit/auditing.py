"""One audit, from a cluster and perhaps a lake to its findings.

The order of reading matters. First the audit topic: what it says was acknowledged is in the log already. Then the lake,
and last the log, which the others can only be behind.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.audit.audit_topic import read_audit
from headrace.audit.lake_tier import CountRows, count_lake
from headrace.audit.log_tier import count_log, find_life
from headrace.audit.messages import AUDIT_TOPIC, Sent
from headrace.audit.reconcile import GRACE_MS, LAKE, Audit, reconcile
from headrace.audit.tally import add_up

if TYPE_CHECKING:
    from headrace.wire.settings import ClientSettings


def audit(
    settings: "ClientSettings",
    topic: str,
    *,
    lake: str | None = None,
    lake_options: Mapping[str, str] | None = None,
    count_rows: CountRows | None = None,
    audit_topic: str = AUDIT_TOPIC,
    grace_ms: int = GRACE_MS,
    now_ms: int | None = None,
) -> Audit:
    """The node's tier, those of audited consumers, and the lake's if there is one, counted here or by `count_rows`."""
    began_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    messages = read_audit(settings, audit_topic)
    behind = dict(sorted(add_up(messages, topic=topic).items()))
    if lake is not None:
        life = find_life(settings, topic)
        behind[LAKE] = count_lake(lake, topic, life=life, options=lake_options, count_rows=count_rows)
    tiers = count_log(settings, topic, behind)
    sent = [message for message in messages if isinstance(message, Sent)]
    return reconcile(topic, sent, tiers, now_ms=began_ms, grace_ms=grace_ms)
