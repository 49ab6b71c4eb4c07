"""What the papers found, as questions to results: holds, does not hold, not measurable here.

Each finding has the words of its paper and a predicate. It is about shapes and ratios, which another machine may have
in common with theirs; a level in messages a second is none. The cells that a finding asks for are those of the preset
that reproduces it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.lab.evidence import (
    Answer,
    Evidence,
    NotMeasurable,
    Question,
    Verdict,
    all_of,
    answered,
    higher,
    monotone,
    times,
    verdict,
)
from headrace.lab.finding import Finding
from headrace.lab.insert_findings import INSERT_FINDINGS
from headrace.lab.published import AWS, CKU, KAFKA, Source
from headrace.lab.results import Results

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


def _groups(evidence: Evidence) -> float:
    run, cell = evidence.one()
    return float(evidence.parameter(run, cell, "groups"))


def _most_of_the_rate(evidence: Evidence) -> Answer:
    where = evidence.one()
    planned, found = evidence.planned_per_s(where), evidence.interval(where, "rate_per_s").value
    return verdict(found >= _CLOUD_SHARE_MIN * planned, f"{found:,.0f} of {planned:,.0f} messages/s")


def _costs_more_cpu(codec: str, *, than: str) -> Question:
    """Client CPU for each MB that was sent: the codecs do not come to the same throughput."""

    def question(evidence: Evidence) -> Answer:
        costs = []
        for each in (codec, than):
            where = evidence.one(part=TIPS_COMPRESSION, compression=each)
            cpu, mb = (evidence.interval(where, metric).value for metric in ("client_cpu_percent", "mb_per_s"))
            if mb <= 0:
                raise NotMeasurable(f"nothing was sent with {each}")
            costs.append(cpu / mb)
        why = f"{costs[0]:.2f} against {costs[1]:.2f}% of a core for each MB/s, {codec} against {than}"
        return verdict(costs[0] > costs[1], why)

    return question


def _keeps_its_rate(evidence: Evidence) -> Answer:
    """Of the smallest backlog and of the largest."""
    cells = sorted(evidence.cells(), key=lambda where: float(evidence.parameter(where[0], where[1], "messages")))
    if len(cells) < 2:
        raise NotMeasurable("a small backlog and a large one are needed")
    small, large = (evidence.interval(where, "consumed_per_s").value for where in (cells[0], cells[-1]))
    sizes = [evidence.parameter(run, cell, "messages") for run, cell in (cells[0], cells[-1])]
    why = f"{large:,.0f}/s out of a backlog of {sizes[1]}, {small:,.0f}/s out of one of {sizes[0]}"
    return verdict(large >= _KEPT * small, why)


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
        question=times("consumed_mb_per_s", "mb_per_s", factor=_groups, within=0.05),
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
        text="Consumers that read further back get less than those at the end of the log.",
        source=Source(
            paper=CKU,
            section="Benchmark Overview",
            quote="If your application has non-real-time consumers, which are reading further back from the log, you "
            "may not achieve the full CKU bandwidth because the workload will become more disk bound.",
        ),
        question=higher("consumed_mb_per_s", part=TIPS_BEHIND, this=_DURING, than=_AFTER),
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
        question=higher("consumed_mb_per_s", this=_AFTER, than=_DURING),
    ),
    Finding(
        preset="s4-after",
        text="Consumed after publishing has ended, messages take longer from end to end.",
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
