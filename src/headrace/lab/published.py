"""What the papers state, word for word: the one table of published values.

A value is here only if a paper's text or one of its tables states it; what can be seen in a figure alone is not. A
value of one configuration is drawn as a bar beside ours. A level that is known from prose alone, such as a peak, is a
labelled line. Machines differ: shapes and ratios are for comparing, lengths are not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.lab.sender_places import MIXED

_K: Final = 1000

INSERT: Final = "Hesse, Matthies, Uflacker: How Fast Can We Insert?"
KAFKA: Final = "Kreps, Narkhede, Rao: Kafka: a Distributed Messaging System for Log Processing"
CKU: Final = "Povzner, Hendricks: white paper on benchmarking a 2-CKU cluster (Confluent, 2020)"
AWS: Final = "Pandey, Gandhi: Performance Benchmark of Apache Kafka on AWS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    paper: str
    section: str
    quote: str

    def __str__(self) -> str:
        return f"{self.paper}, {self.section}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    preset: str
    metric: str
    value: float
    text: str  # What it is of: a configuration, or what the line means.
    source: Source
    cell: Mapping[str, Any] | None = None  # The configuration of ours that it belongs to, where it is one of its sweep.
    is_level: bool = False
    remark: str | None = None  # Ours about it, in no word the paper's.


def _insert(section: str, quote: str) -> Source:
    return Source(paper=INSERT, section=f"section {section}", quote=quote)


_FIG5: Final = _insert(
    "IV-C", "All of the tested acks level and read-in-ram combinations reach the configured ingestion rate of 100K MPS."
)
_FIG6: Final = _insert(
    "IV-D", "the three configurations where read-in-ram is set to true reach the configured input of 250K MPS"
)
_FIG6_DISK: Final = _insert(
    "IV-D",
    "This configuration, where read-in-ram is not active, is not able to handle more than about 220K MPS.",
)
_FIG7_LOWEST: Final = _insert("IV-E", "the lowest one is at about 250K MPS")
_FIG7_ACKS: Final = _insert("IV-E", "Changing acks to either 1 or all resulted in a rise to a rate of about 320K MPS.")
_FIG7_BATCH: Final = _insert("IV-B", "The maximum is at about 294K MPS with increased batch size.")
_FIG7_SUMMARY: Final = _insert(
    "IV-B", "The results for the acks levels of 1 and all are similar with input rates around 340K MPS."
)
_FIG7_PEAK: Final = _insert("IV-E", "the highest ingestion rates peak at about 420K MPS for a short period")
_FIG8: Final = _insert("IV-E", "The highest peaks are at about 80 MB/second.")
_FIG10_REMOTE: Final = _insert(
    "IV-F",
    "the two settings where at least one data sender is executed remotely lead to the same result: a steady input rate "
    "of about 420K MPS",
)
_FIG10_SUMMARY: Final = _insert(
    "IV-B",
    "The highest input rate with about 421K MPS was achieved with two distinct data sender processes, each sending "
    "250K MPS.",
)
_FIG10_LOCAL: Final = _insert("IV-F", "with a maximum input rate of about 460K MPS")
_FIG11_LOCAL: Final = _insert(
    "IV-F", "The maximally achieved input rate of Figure 10 corresponds to an input rate of about 100 MB/s."
)
_FIG11_REMOTE: Final = _insert(
    "IV-F",
    "For the constant input rate where both senders were executed remotely, a size-wise input of close to 92 MB/s is "
    "reached.",
)
_FIG9_STEADY: Final = _insert(
    "IV-E",
    "in all settings which led to a steady input rate, the broker node has a system load lower than eight",
)
_FIG9_UNSTEADY: Final = _insert(
    "IV-E", "The two remaining scenarios show the highest system loads with a value close to 15"
)
_FIG10_LOAD_LOCAL: Final = _insert("IV-F", "the system loads are also equal with a value consistently approaching 15")
_FIG10_LOAD_REMOTE: Final = _insert(
    "IV-F", "The system load never exceeds a value of three on any server with distributed data senders."
)
_FIG12_NONE: Final = _insert("IV-F", "no remote data senders result in between 25 and 60 received packages on eth0")
_FIG12_ONE: Final = _insert("IV-F", "One remote data sender amounts to about 30K received packages")
_FIG12_TWO: Final = _insert("IV-F", "two remote data senders are about to double this number accordingly")
_UNIT: Final = Source(
    paper=CKU,
    section="Introduction",
    quote="one CKU is capable of sustaining 50 MB/s producer bandwidth and 150 MB/s consumer bandwidth",
)
_UNIT_LIMITS: Final = Source(
    paper=CKU,
    section="Introduction",
    quote="Notable upper limits include the maximum number of simultaneously connected clients (1,000 per CKU) and the "
    "maximum number of topic partitions (3,000 per CKU).",
)
_PARTITION_LIMITS: Final = Source(
    paper=CKU,
    section="Introduction",
    quote="there is also an upper limit on per-partition producer bandwidth (5 MB/s) and per-partition consumer "
    "bandwidth (15 MB/s)",
)
_SUSTAINED: Final = Source(
    paper=CKU,
    section="Results",
    quote="2 CKUs are capable of sustaining 100 MB/s producer bandwidth and 300 MB/s consumer bandwidth, but may "
    "support larger bandwidth bursts.",
)
_CONFIGURED: Final = Source(
    paper=CKU,
    section="Results",
    quote="we configured producers in the benchmarks to produce with the rate slightly higher than sustained 2-CKU "
    "rate: 120 MB/s",
)
_DIPS: Final = Source(
    paper=CKU,
    section="Results",
    quote="On other clouds, bandwidth fluctuated between about 100 MB/s and 150 MB/s, where log flushes to disk caused "
    "dips in bandwidth followed by bandwidth spikes due to clients catching up to their throughput rate.",
)
_CLOUDS: Final = Source(paper=CKU, section="table in Results", quote="AWS 117 351 GCP 106 318 Azure 106 318")

# Of 2^20 bytes, in which its tools count.
_AWS_REMARK: Final = (
    "AWS wrote all that it was sent: 4 producers of 60,000 messages/s and 512 B are 117.2 MB/s. Its limit was the "
    "generator, and what the cluster could have taken is not known"
)

_BANDWIDTHS: Final = ("mb_per_s", "consumed_mb_per_s")


def _levels(preset: str, source: Source, values: tuple[float, float], text: str) -> list[Published]:
    """In and out, as the white paper has them by pairs."""
    return [
        Published(
            preset=preset, metric=metric, value=value, is_level=True, source=source, text=f"{value:g} MB/s: {text}"
        )
        for metric, value in zip(_BANDWIDTHS, values, strict=True)
    ]


PUBLISHED: Final[tuple[Published, ...]] = (
    Published(
        preset="s0-fig5", metric="rate_per_s", value=100 * _K, is_level=True, source=_FIG5,
        text="100 K: reached by every local configuration",
    ),
    Published(
        preset="s0-fig6", metric="rate_per_s", value=250 * _K, is_level=True, source=_FIG6,
        text="250 K: reached by all three with read-in-ram",
    ),
    Published(
        preset="s0-fig6", metric="rate_per_s", value=220 * _K, is_level=True, source=_FIG6_DISK,
        text="220 K: no more without read-in-ram",
    ),
    Published(
        preset="s0-fig7", metric="rate_per_s", value=250 * _K, text="acks=0, 16 KiB", source=_FIG7_LOWEST,
        cell={"acks": "0", "batch_size": "16KiB"},
    ),
    *(
        Published(
            preset="s0-fig7", metric="rate_per_s", value=320 * _K, text=f"acks={acks}, 16 KiB", source=_FIG7_ACKS,
            cell={"acks": acks, "batch_size": "16KiB"},
        )
        for acks in ("1", "all")
    ),
    Published(
        preset="s0-fig7", metric="rate_per_s", value=294 * _K, text="acks=0, 64 KiB, its maximum", source=_FIG7_BATCH,
        cell={"acks": "0", "batch_size": "64KiB"},
    ),
    Published(
        preset="s0-fig7", metric="rate_per_s", value=340 * _K, is_level=True, source=_FIG7_SUMMARY,
        text="340 K: acks 1 and all, as summed up",
    ),
    Published(
        preset="s0-fig7", metric="rate_per_s", value=420 * _K, is_level=True, source=_FIG7_PEAK,
        text="420 K: peaks of 64 KiB, acks 1 and all",
    ),
    Published(
        preset="s0-fig7", metric="mb_per_s", value=80, is_level=True, source=_FIG8, text="80 MB/s: the highest peaks",
    ),
    Published(
        preset="s0-fig10", metric="rate_per_s", value=420 * _K, is_level=True, source=_FIG10_REMOTE,
        text="420 K: steady, one sender or both remote",
    ),
    Published(
        preset="s0-fig10", metric="rate_per_s", value=421 * _K, is_level=True, source=_FIG10_SUMMARY,
        text="421 K: the highest, as summed up",
    ),
    Published(
        preset="s0-fig10", metric="rate_per_s", value=460 * _K, is_level=True, source=_FIG10_LOCAL,
        text="460 K: peak, both local",
    ),
    Published(
        preset="s0-fig10", metric="mb_per_s", value=92, is_level=True, source=_FIG11_REMOTE,
        text="92 MB/s: steady, both remote",
    ),
    Published(
        preset="s0-fig10", metric="mb_per_s", value=100, is_level=True, source=_FIG11_LOCAL,
        text="100 MB/s: peak, both local",
    ),
    Published(
        preset="s0-fig7", metric="load", value=8, is_level=True, source=_FIG9_STEADY,
        text="8: what is steady stays below, on 8 cores",
    ),
    Published(
        preset="s0-fig7", metric="load", value=15, is_level=True, source=_FIG9_UNSTEADY,
        text="15: close to it what is not steady, on 8 cores",
    ),
    Published(
        preset="s0-fig10", metric="load", value=15, is_level=True, source=_FIG10_LOAD_LOCAL,
        text="15: both local, on 8 cores",
    ),
    Published(
        preset="s0-fig10", metric="load", value=3, is_level=True, source=_FIG10_LOAD_REMOTE,
        text="3: never more with a remote sender, on 8 cores",
    ),
    Published(
        preset="s0-fig10", metric="received_packets_per_s", value=60, is_level=True, source=_FIG12_NONE,
        text="25 to 60: none remote",
    ),
    Published(
        preset="s0-fig10", metric="received_packets_per_s", value=30 * _K, text="one remote", source=_FIG12_ONE,
        cell={"sender": MIXED},
    ),
    Published(
        preset="s0-fig10", metric="received_packets_per_s", value=60 * _K, is_level=True, source=_FIG12_TWO,
        text="60 K: two remote, as 30 K doubled",
    ),
    *(
        Published(
            preset="s2-cku", metric=metric, value=value, text=cloud, source=_CLOUDS,
            remark=_AWS_REMARK if cloud == "AWS" else None,
        )
        for cloud, values in {"AWS": (117, 351), "GCP": (106, 318), "Azure": (106, 318)}.items()
        for metric, value in zip(_BANDWIDTHS, values, strict=True)
    ),
    *_levels("s2-cku", _SUSTAINED, (100, 300), "sustained by two units"),
    *_levels("s2-cku", _UNIT, (50, 150), "sustained by one unit"),
    Published(
        preset="s2-cku", metric="mb_per_s", value=120, is_level=True, source=_CONFIGURED,
        text="120 MB/s: configured",
    ),
    Published(
        preset="s2-cku", metric="mb_per_s", value=150, is_level=True, source=_DIPS,
        text="100 to 150 MB/s: GCP and Azure",
    ),
    *_levels("s2-tips", _UNIT, (50, 150), "sustained by one unit"),
    *_levels("s2-tips", _PARTITION_LIMITS, (5, 15), "the limit of one partition"),
    Published(
        preset="s2-tips", metric="connections", value=1000, is_level=True, source=_UNIT_LIMITS,
        text="1,000 connections: the limit of one unit",
    ),
    Published(
        preset="s2-tips", metric="partitions", value=3000, is_level=True, source=_UNIT_LIMITS,
        text="3,000 partitions: the limit of one unit",
    ),
)  # fmt: skip

# What each paper says about the machines that it measured on, in its own words.
MACHINES: Final[Mapping[str, Mapping[str, str]]] = {
    INSERT: {
        "where it says so": "Table I",
        "CPU": "Intel(R) Xeon(R) CPU E5-2697 v3 @ 2.60GHz, 8 cores",
        "RAM": "32GB",
        "measured bandwidth between nodes": "117.5 MB/s",
        "measured bandwidth of intra-node transfer": "908 MB/s",
        "measured write performance": "about 70 MB/s",
        "Kafka version": "2.3.0",
    },
    KAFKA: {
        "where it says so": "section 5",
        "machines": "2 Linux machines, each with 8 2GHz cores, 16GB of memory, 6 disks with RAID 10",
        "network": "a 1Gb network link",
    },
    CKU: {
        "where it says so": "Results",
        "brokers": "2-CKU multi-zone clusters created in AWS, GCP, and Azure clouds",
        "client version": "Apache Kafka 2.4 / Confluent Platform 5.4",
    },
    AWS: {
        "where it says so": "section IV-A",
        "machines": "Each EC2 m3xlarge machine has 4 vCPU, 15 GB of memory, 240 GB SSD storage",
        "processor": "2.5 GHz, Intel Xeon E5-2670v2 processors",
        "Kafka version": "0.9",
    },
}


def published_for(preset: str) -> list[Published]:
    return [each for each in PUBLISHED if each.preset == preset]
