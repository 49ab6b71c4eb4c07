"""What the papers found, as questions to results: holds, does not hold, not measurable here.

Each finding has the words of its paper and a predicate. It is about shapes and ratios, which another machine may have
in common with theirs; a level in messages a second is none. The cells that a finding asks for are those of the preset
that reproduces it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.lab.bottleneck import Verdict as Bottleneck
from headrace.lab.evidence import (
    LOCAL,
    Answer,
    Evidence,
    NotMeasurable,
    Question,
    Verdict,
    alike,
    answered,
    each_reaches,
    higher,
    monotone,
    steady,
    times,
    together,
    verdict,
)
from headrace.lab.published import AWS, CKU, INSERT, KAFKA, Source
from headrace.lab.results import Results, cell_text

TIPS_LINGER: Final = "s2-tips-linger"
TIPS_COMPRESSION: Final = "s2-tips-compression"
TIPS_PARTITIONS: Final = "s2-tips-partitions"
TIPS_BEHIND: Final = "s2-tips-behind"
REMOTE: Final = "remote"
_REMOTE_WHY: Final = (
    "a remote sender is another host, or a network namespace over a link of 1 Gbit/s, and this run had none"
)
# A log that is no slower than this at its largest does not degrade.
_KEPT: Final = 0.90
# The lowest of three clouds had 106 of the 117.2 MB/s that were configured.
_CLOUD_SHARE_MIN: Final = 0.90


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    preset: str
    text: str
    source: Source
    question: Question


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


def _remote(question: Question) -> Question:
    """Asked only of a run that had a remote sender."""

    def asked(evidence: Evidence) -> Answer:
        if not evidence.cells(sender=REMOTE):
            raise NotMeasurable(_REMOTE_WHY)
        return question(evidence)

    return asked


def _limited_by(*wanted: Bottleneck, **match: Any) -> Question:
    """Every cell with these values, in all of its repeats, by one of these."""

    def question(evidence: Evidence) -> Answer:
        answers = []
        for where in evidence.cells(**match) or [evidence.one(**match)]:
            found = evidence.bottlenecks(where)
            why = f"the bottleneck with {cell_text(where[1])} is {', '.join(found)}"
            answers.append(verdict({*found} <= {each.value for each in wanted}, why))
        return together(answers)

    return question


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


def _all_of(*questions: Question) -> Question:
    return lambda evidence: together([answered(question, evidence.runs) for question in questions])


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


def _insert(section: str, quote: str) -> Source:
    return Source(paper=INSERT, section=f"section {section}", quote=quote)


_16K: Final[dict[str, Any]] = {"batch_size": "16KiB"}
_64K: Final[dict[str, Any]] = {"batch_size": "64KiB"}
_DURING: Final[dict[str, Any]] = {"consume": "during"}
_AFTER: Final[dict[str, Any]] = {"consume": "after"}

FINDINGS: Final[tuple[Finding, ...]] = (
    Finding(
        preset="s0-fig5",
        text="A local sender reaches 100 K messages/s with every acks level, read in RAM or not.",
        source=_insert(
            "IV-C",
            "All of the tested acks level and read-in-ram combinations reach the configured ingestion rate of 100K "
            "MPS.",
        ),
        question=each_reaches(sender=LOCAL),
    ),
    Finding(
        preset="s0-fig5",
        text="Only the remote laptop with acks=0 and without read-in-ram does not reach it.",
        source=_insert("IV-C", "The only exception is the remote; acks=0; read-in-ram=false configuration"),
        question=_remote(each_reaches(reaches=False, sender=REMOTE, acks="0", read_in_ram=False)),
    ),
    Finding(
        preset="s0-fig6",
        text="With read-in-ram, 250 K messages/s are reached.",
        source=_insert(
            "IV-D", "the three configurations where read-in-ram is set to true reach the configured input of 250K MPS"
        ),
        question=each_reaches(read_in_ram=True),
    ),
    Finding(
        preset="s0-fig6",
        text="Without read-in-ram they are not.",
        source=_insert(
            "IV-D",
            "This configuration, where read-in-ram is not active, is not able to handle more than about 220K MPS.",
        ),
        question=each_reaches(reaches=False, read_in_ram=False),
    ),
    Finding(
        preset="s0-fig6",
        text="Without read-in-ram the sender is the bottleneck.",
        source=_insert(
            "IV-D",
            "It is evident that with read-in-ram disabled, there is a bottleneck at the data sender side at this "
            "configured input rate.",
        ),
        question=_limited_by(Bottleneck.GENERATOR, Bottleneck.CLIENT_CPU, read_in_ram=False),
    ),
    Finding(
        preset="s0-fig7",
        text="No configuration reaches 1,000 K messages/s.",
        source=_insert("IV-E", "None of the configurations reach the configured ingestion rate."),
        question=each_reaches(reaches=False),
    ),
    Finding(
        preset="s0-fig7",
        text="Waiting for acknowledgements makes it faster: acks=1 and acks=all outdo acks=0.",
        source=_insert("IV-E", "Changing acks to either 1 or all resulted in a rise to a rate of about 320K MPS."),
        question=_all_of(
            *(higher("rate_per_s", this={**_16K, "acks": acks}, than={**_16K, "acks": "0"}) for acks in ("1", "all"))
        ),
    ),
    Finding(
        preset="s0-fig7",
        text="acks=1 and acks=all come to the same.",
        source=_insert("IV-B", "The results for the acks levels of 1 and all are similar"),
        question=alike("rate_per_s", this={**_16K, "acks": "1"}, that={**_16K, "acks": "all"}),
    ),
    Finding(
        preset="s0-fig7",
        text="With acks=0, larger batches are faster and as steady.",
        source=_insert(
            "IV-B",
            "the achievable input rate with acknowledgments disabled could be positively influenced by a higher batch "
            "size without harming the stability of the input rate",
        ),
        question=_all_of(
            higher("rate_per_s", this={**_64K, "acks": "0"}, than={**_16K, "acks": "0"}),
            steady(True, **_64K, acks="0"),
        ),
    ),
    Finding(
        preset="s0-fig7",
        text="With acks 1 and all, larger batches make it unsteady.",
        source=_insert(
            "IV-E", "For the other acknowledgment settings, the raised batch size led to an unstable ingestion rate."
        ),
        question=_all_of(*(steady(False, **_64K, acks=acks) for acks in ("1", "all"))),
    ),
    Finding(
        preset="s0-fig7",
        text="The disk is what limits it.",
        source=_insert(
            "IV-E",
            "the observations lead to the conclusion that the ingestion rate is likely to be disk-bound in the viewed "
            "benchmark setting",
        ),
        question=_limited_by(Bottleneck.DISK),
    ),
    Finding(
        preset="s0-fig10",
        text="Two senders of 250 K messages/s each do not come to 500 K.",
        source=_insert(
            "IV-G", "two independently executed data senders do not reach the expected input rate of 500K MPS"
        ),
        question=each_reaches(reaches=False),
    ),
    Finding(
        preset="s0-fig10",
        text="With both senders local, acks=1 outdoes acks=0.",
        source=_insert("IV-F", "the acks set to 1 overall outperforms acks set to 0"),
        question=higher("rate_per_s", this={"acks": "1", "sender": LOCAL}, than={"acks": "0", "sender": LOCAL}),
    ),
    Finding(
        preset="s0-fig10",
        text="With both senders local, it is not steady.",
        source=_insert("IV-F", "However, neither configuration reaches a steady input rate."),
        question=steady(False, sender=LOCAL),
    ),
    Finding(
        preset="s0-fig10",
        text="With a remote sender it is steady.",
        source=_insert(
            "IV-F",
            "the two settings where at least one data sender is executed remotely lead to the same result: a steady "
            "input rate of about 420K MPS",
        ),
        question=_remote(steady(True, sender=REMOTE)),
    ),
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
        question=_all_of(
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
        question=_all_of(*(_costs_more_cpu("gzip", than=codec) for codec in ("lz4", "snappy"))),
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
