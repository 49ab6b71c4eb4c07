"""What the papers found, as questions to results: holds, does not hold, not measurable here.

Each finding has the words of its paper and a predicate. It is about shapes and ratios, which another machine may have
in common with theirs; a level in messages a second is none. The cells that a finding asks for are those of the preset
that reproduces it.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from headrace.lab.evidence import (
    REACHED,
    Answer,
    Evidence,
    NotMeasurable,
    Question,
    Verdict,
    all_of,
    answered,
    higher,
    higher_of,
    monotone,
    ratio_of,
    times,
    within,
)
from headrace.lab.finding import Finding
from headrace.lab.insert_findings import INSERT_FINDINGS
from headrace.lab.load import UNPACED
from headrace.lab.published import AWS, CKU, KAFKA, Source
from headrace.lab.quantities import parse_time_s
from headrace.lab.results import Cell, Results, cell_text

TIPS_LINGER: Final = "s2-tips-linger"
TIPS_COMPRESSION: Final = "s2-tips-compression"
TIPS_PARTITIONS: Final = "s2-tips-partitions"
TIPS_BEHIND: Final = "s2-tips-behind"
# A log that is no slower than this at its largest does not degrade.
_KEPT: Final = 0.90
# The lowest of three clouds had 106 of the 117.2 MB/s that were configured.
_CLOUD_SHARE_MIN: Final = 0.90


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    finding: Finding
    answer: Answer

    def to_json(self) -> dict[str, str]:
        return {
            "preset": self.finding.preset,
            "finding": self.finding.text,
            "verdict": self.answer.verdict.value,
            "why": self.answer.why,
            "source": str(self.finding.source),
            "quote": self.finding.source.quote,
        }


def preset_of(runs: Sequence[Results]) -> str | None:
    """The one that all runs are of, told by their workloads' names: the preset's, or that and the name of a part."""
    presets = {
        next((each for each in _PRESETS if name == each or name.startswith(f"{each}-")), None)
        for name in (run.scenario.name for run in runs)
    }
    return presets.pop() if len(presets) == 1 else None


def judge(preset: str, runs: Sequence[Results]) -> list[Judgement]:
    return [
        Judgement(finding=finding, answer=answered(finding.question, runs))
        for finding in FINDINGS
        if finding.preset == preset
    ]


# --- Questions of one paper alone ------------------------------------------------------------------------------------


def _groups(evidence: Evidence, where: tuple[Results, Cell]) -> float:
    said = evidence.parameter(*where, "groups")
    if said == "None":
        raise NotMeasurable(f"no group of consumers was configured with {cell_text(where[1])}")
    return float(said)


def _most_of_the_rate(evidence: Evidence) -> Answer:
    where = evidence.one()
    planned, found = evidence.planned_per_s(where), evidence.interval(where, "rate_per_s")
    return within(found, f"{found.value:,.0f} of {planned:,.0f} messages/s", least=_CLOUD_SHARE_MIN * planned)


def _costs_more_cpu(codec: str, *, than: str) -> Question:
    """Client CPU for each MB that was sent: the codecs do not come to the same throughput."""

    def question(evidence: Evidence) -> Answer:
        costs, base = (
            evidence.per(evidence.one(part=TIPS_COMPRESSION, compression=each), "client_cpu_percent", "mb_per_s")
            for each in (codec, than)
        )
        why = f"with {codec} against {than} ({fmean(costs):.2f} against {fmean(base):.2f}% of a core)"
        return higher_of("CPU for each MB/s", costs, base, why=why)

    return question


def _keeps_its_rate(evidence: Evidence) -> Answer:
    """Of the smallest backlog and of the largest."""
    cells = sorted(evidence.cells(), key=lambda where: float(evidence.parameter(where[0], where[1], "messages")))
    if len(cells) < 2:
        raise NotMeasurable("a small backlog and a large one are needed")
    small, large = (evidence.values(where, "consumed_per_s") for where in (cells[0], cells[-1]))
    sizes = [evidence.parameter(run, cell, "messages") for run, cell in (cells[0], cells[-1])]
    why = f"{fmean(large):,.0f}/s out of a backlog of {sizes[1]}, {fmean(small):,.0f}/s out of one of {sizes[0]}"
    return within(ratio_of("consumed", large, small, why=why), why, least=_KEPT)


def _more_after_than_during(evidence: Evidence) -> Answer:
    """What consumers get while messages are sent is never more than that. Where the sender held itself back by a plan
    and they got all of it, nothing was learnt of what they could have got."""
    during = evidence.one(**_DURING)
    found = higher("consumed_mb_per_s", this=_AFTER, than=_DURING)(evidence)
    if found.verdict is Verdict.HOLDS and evidence.parameter(*during, "rate") != UNPACED:
        planned = evidence.planned_per_s(during) * _groups(evidence, during)
        consumed = evidence.interval(during, "consumed_per_s")
        if consumed.high >= REACHED * planned:
            why = f"{consumed.value:,.0f} of {planned:,.0f}/s planned were consumed with {cell_text(during[1])}"
            raise NotMeasurable(f"{why}: the sender's own pace, and not what consumers could have had")
    return found


def _less_in_all_behind(evidence: Evidence) -> Answer:
    """Written and read together, while all read at the end of the log and while some read further back.

    Those begin later, and must have begun before anything is measured: else they would have read less for that alone.
    """
    cells = evidence.cells(part=TIPS_BEHIND, consume="during")
    live, behind = (
        [where for where in cells if (_time_s(evidence, where, "behind") > 0) == is_behind]
        for is_behind in (False, True)
    )
    if not live or not behind:
        raise NotMeasurable("nothing was measured with all consumers at the end of the log, and with some behind it")
    if _time_s(evidence, behind[0], "behind") >= _time_s(evidence, behind[0], "warm_up"):
        raise NotMeasurable(f"with {cell_text(behind[0][1])} they begin when some of it was measured: raise warm_up")
    at_end, further_back = (
        evidence.together(where, "mb_per_s", "consumed_mb_per_s", operator.add) for where in (live[0], behind[0])
    )
    why = f"with {cell_text(live[0][1])} against {cell_text(behind[0][1])}"
    return higher_of("all that is written and read", at_end, further_back, why=why)


def _time_s(evidence: Evidence, where: tuple[Results, Cell], name: str) -> float:
    """Of a workload that says nothing, none."""
    said = evidence.parameter(*where, name)
    return 0.0 if said in ("0", "None") else parse_time_s(said)


# --- The table -------------------------------------------------------------------------------------------------------


_DURING: Final[dict[str, Any]] = {"consume": "during"}
_AFTER: Final[dict[str, Any]] = {"consume": "after"}

FINDINGS: Final[tuple[Finding, ...]] = (
    *INSERT_FINDINGS,
    Finding(
        preset="s2-cku",
        text="Three groups of consumers keep up: they read three times what is written.",
        source=Source(
            paper=CKU,
            section="Results",
            quote="In all environments, consumers were able to keep up with producers, resulting in 3x the producer "
            "bandwidth (3 consumer groups).",
        ),
        question=times("consumed_mb_per_s", "mb_per_s", factor=_groups, by=0.05),
    ),
    Finding(
        preset="s2-cku",
        text="At least nine tenths of the configured rate are written, as on each of the three clouds.",
        source=Source(
            paper=CKU,
            section="Results",
            quote="we configured producers in the benchmarks to produce with the rate slightly higher than sustained "
            "2-CKU rate: 120 MB/s",
        ),
        question=_most_of_the_rate,
    ),
    Finding(
        preset="s2-tips",
        text="lz4 and snappy let more through, counted before compression.",
        source=Source(
            paper=CKU,
            section="Benchmark Overview",
            quote="We recommend enabling lz4 or Snappy compression on the producer via compression.type producer "
            "configuration, which would both let you achieve higher client (pre-compression) bandwidth and save on "
            "ingress, egress, and storage costs.",
        ),
        question=all_of(
            *(
                higher("mb_per_s", part=TIPS_COMPRESSION, this={"compression": codec}, than={"compression": "none"})
                for codec in ("lz4", "snappy")
            )
        ),
    ),
    Finding(
        preset="s2-tips",
        text="gzip costs more CPU than lz4 and snappy do.",
        source=Source(
            paper=CKU,
            section="Benchmark Overview",
            quote="The trade-off of using lz4 or Snappy compression is a slightly higher CPU usage on both clients and "
            "brokers, while gzip could result in a more significant CPU overhead.",
        ),
        question=all_of(*(_costs_more_cpu("gzip", than=codec) for codec in ("lz4", "snappy"))),
    ),
    Finding(
        preset="s2-tips",
        text="Letting batches fill for 10 ms brings more throughput than sending at once.",
        source=Source(
            paper=CKU,
            section="Benchmark Overview",
            quote="We used producer configuration linger.ms=10 (default is 0) to ensure good batching of records, "
            "which optimizes throughput.",
        ),
        question=higher("mb_per_s", part=TIPS_LINGER, this={"linger": 10}, than={"linger": 0}),
    ),
    Finding(
        preset="s2-tips",
        text="Twenty partitions, ten for each unit of capacity, let more through than one.",
        source=Source(
            paper=CKU,
            section="Benchmark Overview",
            quote="You will need at least 10x the number of CKUs partitions to achieve the maximum CKU bandwidth, to "
            "account for per-partition bandwidth limits.",
        ),
        question=higher("mb_per_s", part=TIPS_PARTITIONS, this={"partitions": 20}, than={"partitions": 1}),
    ),
    Finding(
        preset="s2-tips",
        text="While messages are sent, less is written and read in all if some consumers read further back in the log.",
        source=Source(
            paper=CKU,
            section="Benchmark Overview",
            quote="If your application has non-real-time consumers, which are reading further back from the log, you "
            "may not achieve the full CKU bandwidth because the workload will become more disk bound.",
        ),
        question=_less_in_all_behind,
    ),
    Finding(
        preset="s4-fig9",
        text="The larger the messages, the fewer a second.",
        source=Source(
            paper=AWS,
            section="section IV-C",
            quote="with the increase in message size, the number of records/sec(records sent per sec) decreases though "
            "throughput increases",
        ),
        question=monotone("rate_per_s", "size", rises=False),
    ),
    Finding(
        preset="s4-fig9",
        text="The larger the messages, the more bytes a second.",
        source=Source(
            paper=AWS,
            section="section IV-C",
            quote="with the increase in message size, the number of records/sec(records sent per sec) decreases though "
            "throughput increases",
        ),
        question=monotone("mb_per_s", "size", rises=True),
    ),
    Finding(
        preset="s4-fig10",
        text="The larger the messages, the longer each takes.",
        source=Source(
            paper=AWS,
            section="section IV-C",
            quote="For larger message size, the data is getting en-queued for defined batch size which leads to "
            "increase in latency and increase in throughput",
        ),
        question=monotone("send_latency_p50_ms", "size", rises=True),
    ),
    Finding(
        preset="s1-backlog",
        text="Consuming is no slower out of a large backlog than out of a small one.",
        source=Source(
            paper=KAFKA,
            section="section 3.1",
            quote="The fact that the performance of Kafka doesn't degrade with a larger data size makes this long "
            "retention feasible.",
        ),
        question=_keeps_its_rate,
    ),
    Finding(
        preset="s4-after",
        text="Consumed after publishing has ended, throughput is greater than while publishing.",
        source=Source(
            paper=AWS,
            section="section IV-C",
            quote="In the former case(after publishing is done), the throughput observed by the consumer will be "
            "greater than the latter one",
        ),
        question=_more_after_than_during,
    ),
    Finding(
        preset="s4-after",
        text="Consumed after publishing has ended, messages take longer from end to end. That counts from when each "
        "was due or sent, so what has waited is older, however fast it is then consumed.",
        source=Source(
            paper=AWS,
            section="section IV-C",
            quote="If data is consumed after the publishing is completed, it may lead to increase in latency as "
            "fetching may start at the beginning of the log.",
        ),
        question=higher("end_to_end_p50_ms", this=_AFTER, than=_DURING),
    ),
)
_PRESETS: Final = tuple(dict.fromkeys(finding.preset for finding in FINDINGS))

__all__ = ["FINDINGS", "Finding", "Judgement", "Verdict", "judge", "preset_of"]
