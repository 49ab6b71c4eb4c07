"""What held consumers up: the same questions as of sending (`bottleneck`), of the other half of the way.

Messages go from the broker through the network to a consumer, which asks for them. Consumers that keep up with what is
written have no bottleneck, however busy anything was. Those that fall behind, and those that read a backlog as fast as
they can, wait for whatever has no idle time: the broker, its disk, the link, or a thread of their own; unless brokers
say that they hold answers back for a quota's sake.

Pure: a summary in, a finding out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.lab.bottleneck import Finding, Threshold, Verdict
from headrace.lab.sides import Cores, Side, cores_text, side_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumingSummary:
    """Consumers and what was read while they consumed. None is what was not seen."""

    is_backlog: bool = False  # All of it was written before, so that there was nothing to keep up with.
    written_per_s: float = 0.0  # For all groups together: each gets every message.
    consumed_per_s: float = 0.0
    behind_s: float = 0.0  # What was written and not consumed, by what was written a second; over the last half.
    throttled_share: float = 0.0  # Of the time, of the consumer that was held back most.
    consumer: Side | None = None
    broker: Side | None = None
    link: str = ""
    link_share: float | None = None
    cores: Cores | None = None


def find_consuming_bottleneck(summary: ConsumingSummary) -> Finding:
    if not summary.is_backlog and summary.behind_s < Threshold.BEHIND_S.limit:
        return Finding(Verdict.NONE, (_progress(summary), *_busiest(summary)), is_held_up=False)
    verdict = _find(summary)
    evidence = (_progress(summary), *_sentences(summary, verdict), *_busiest(summary))
    return Finding(verdict, evidence, is_held_up=True)


def _find(summary: ConsumingSummary) -> Verdict:
    if summary.throttled_share >= Threshold.THROTTLED.limit:
        return Verdict.QUOTA
    found = {verdict: share for verdict, share, threshold in _pressures(summary) if share >= threshold.limit}
    return max(found, key=lambda verdict: found[verdict]) if found else Verdict.NONE


def _pressures(summary: ConsumingSummary) -> Iterator[tuple[Verdict, float, Threshold]]:
    """How much of the time each had no idle time. Of equals the first is it, which others wait for."""
    if summary.broker is not None:
        yield Verdict.DISK, summary.broker.on_disk, Threshold.ON_DISK
        yield Verdict.BROKER_CPU, summary.broker.demand, Threshold.NO_IDLE
    if summary.link_share is not None:
        yield Verdict.NETWORK, min(1.0, summary.link_share), Threshold.LINK
    if summary.consumer is not None:
        yield Verdict.CONSUMER_CPU, summary.consumer.demand, Threshold.NO_IDLE


def _progress(summary: ConsumingSummary) -> str:
    if summary.is_backlog:
        return f"{summary.consumed_per_s:,.0f} messages a second were consumed out of a backlog"
    rates = (
        f"{summary.consumed_per_s:,.0f} messages a second were consumed of {summary.written_per_s:,.0f} "
        "that were there for all groups"
    )
    if summary.behind_s < Threshold.BEHIND_S.limit:
        return f"{rates}; over the last half consumers were {summary.behind_s:.2f} s behind, which is to keep up"
    return f"{rates}; over the last half consumers were {summary.behind_s:.1f} s behind"


def _sentences(summary: ConsumingSummary, verdict: Verdict) -> Iterator[str]:
    match verdict:
        case Verdict.QUOTA:
            share = f"{summary.throttled_share:.0%}"
            yield f"brokers held answers to a consumer back for a quota's sake for {share} of the time"
        case Verdict.DISK if summary.broker is not None:
            yield f"a thread of the broker waited for a device for {summary.broker.on_disk:.0%} of the time"
        case Verdict.NETWORK:
            yield f"{summary.link} carried {summary.link_share:.0%} of what its driver says that it can"
        case Verdict.NONE:
            yield "nothing of what was seen was without idle time"
            if summary.consumer is None:
                yield "the consumers were not seen: their processes are not on this machine"
            if summary.broker is None:
                yield "the broker was not seen: its page of metrics would tell more, and so would its own machine"


def _busiest(summary: ConsumingSummary) -> Iterator[str]:
    if summary.consumer is not None:
        yield side_text("consumer", summary.consumer)
    if summary.broker is not None:
        yield side_text("broker", summary.broker)
    if summary.cores is not None:
        yield cores_text(summary.cores)
