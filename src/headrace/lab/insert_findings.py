"""What 'How Fast Can We Insert?' found: rates, steadiness, load and packets, by acks, batches and where senders are."""

from functools import partial
from typing import Any, Final

from headrace.lab.bottleneck import Verdict as Bottleneck
from headrace.lab.evidence import (
    Answer,
    Evidence,
    NotMeasurable,
    Question,
    alike,
    all_of,
    each_reaches,
    guarded,
    higher,
    steady,
    together,
    verdict,
    within,
)
from headrace.lab.finding import Finding
from headrace.lab.machine_evidence import (
    load_at_most,
    load_is_not_proportional,
    more,
    overloaded,
    steady_ones_have_cores_left,
    unsteady_ones_are_overloaded,
)
from headrace.lab.published import INSERT, Source
from headrace.lab.readings.machine_metrics import PACKETS
from headrace.lab.results import Cell, Results, cell_text
from headrace.lab.sender_places import LOCAL, MIXED, REMOTE

_AWAY: Final = (MIXED, REMOTE)  # With at least one sender that is remote.
_REMOTE_WHY: Final = (
    "a remote sender is another host, or a network namespace over a link of 1 Gbit/s, and this run had none"
)
# A load of three on eight cores.
_LOAD_SHARE_MAX: Final = 3 / 8
# Both are told as "about": 30 K packets, and to double them.
_DOUBLED_WITHIN: Final = 0.20
# 92 of the 117.5 MB/s of their link are close to it.
_CLOSE_SHARE: Final = 0.75
_LINK_MB_PER_S: Final = 1e9 / 8 / 2**20


def _remote(question: Question) -> Question:
    """Asked only of a run that had a remote sender."""

    def asked(evidence: Evidence) -> Answer:
        if not evidence.cells(sender=_AWAY):
            raise NotMeasurable(_REMOTE_WHY)
        return question(evidence)

    return asked


def _limited_by(*wanted: Bottleneck, **match: Any) -> Question:
    """Every cell with these values, in all of its repeats, by one of these."""

    def question(evidence: Evidence) -> Answer:
        cells = evidence.cells(**match) or [evidence.one(**match)]
        return together([guarded(partial(answer, evidence, where)) for where in cells])

    def answer(evidence: Evidence, where: tuple[Results, Cell]) -> Answer:
        found = evidence.bottlenecks(where)
        why = f"the bottleneck with {cell_text(where[1])} is {', '.join(found)}"
        told, untold = _told(evidence, where)
        if untold is not None and told <= {each.value for each in wanted}:
            raise NotMeasurable(untold)
        return verdict({*found} <= {each.value for each in wanted}, why)

    return question


def _not_limited_by(unwanted: Bottleneck) -> Question:
    """No cell, in any of its repeats."""

    def question(evidence: Evidence) -> Answer:
        found = dict.fromkeys(each for where in evidence.cells() for each in evidence.bottlenecks(where))
        if not found:
            raise NotMeasurable("no bottleneck was named")
        untold = next((why for where in evidence.cells() if (why := _told(evidence, where)[1]) is not None), None)
        if untold is not None and unwanted.value not in found:
            raise NotMeasurable(untold)
        return verdict(unwanted.value not in found, f"the bottlenecks are {', '.join(found)}")

    return question


def _told(evidence: Evidence, where: tuple[Results, Cell]) -> tuple[set[str], str | None]:
    """The verdicts of its repeats that are evidence; and why not all are. None found is evidence where a repeat was on
    time, for nothing held it up, and none where something did that nobody saw."""
    told, untold = set(), None
    for line in evidence.calm_repeats(where, "the bottleneck"):
        if (found := line.bottleneck) is None:
            continue
        if found.verdict != Bottleneck.NONE.value or found.is_held_up is False:
            told.add(found.verdict)
        else:
            is_known = "was held up" if found.is_held_up else "may have been held up"
            untold = f"with {cell_text(where[1])} repeat {line.repeat + 1} {is_known}, and nothing was seen that did"
    return told, untold


def _is_close_to_the_link(evidence: Evidence) -> Answer:
    where = evidence.one(sender=REMOTE)
    if where[0].scenario.target.get("kind") == "cluster":
        raise NotMeasurable("what the link to the brokers can carry is not known")
    found = evidence.interval(where, "mb_per_s")
    why = f"{found.value:,.1f} MB/s over a link of {_LINK_MB_PER_S:,.1f} MB/s"
    return within(found, why, least=_CLOSE_SHARE * _LINK_MB_PER_S)


def _insert(section: str, quote: str) -> Source:
    return Source(paper=INSERT, section=f"section {section}", quote=quote)


_16K: Final[dict[str, Any]] = {"batch_size": "16KiB"}
_64K: Final[dict[str, Any]] = {"batch_size": "64KiB"}

INSERT_FINDINGS: Final[tuple[Finding, ...]] = (
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
        question=all_of(
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
        question=all_of(
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
        question=all_of(*(steady(False, **_64K, acks=acks) for acks in ("1", "all"))),
    ),
    *(
        Finding(
            preset="s0-fig7",
            text=f"With acks={acks}, larger batches are slower.",
            source=_insert(
                "VI",
                "the observed average input rates for acks set to 1 and all are lower for the configuration with an "
                "increased batch size",
            ),
            question=higher("rate_per_s", this={**_16K, "acks": acks}, than={**_64K, "acks": acks}),
        )
        for acks in ("1", "all")
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
        preset="s0-fig7",
        text="Between processes on one host the network is no bottleneck.",
        source=_insert(
            "IV-E",
            "there was intra-node transfer and we used the loopback interface with its higher bandwidth of about 908 "
            "MB/second, which is not a bottleneck",
        ),
        question=_not_limited_by(Bottleneck.NETWORK),
    ),
    Finding(
        preset="s0-fig7",
        text="Where the rate is steady, the load is below the number of cores.",
        source=_insert(
            "IV-E",
            "in all settings which led to a steady input rate, the broker node has a system load lower than eight and "
            "thus, seems to be not over-utilized from a system load perspective",
        ),
        question=steady_ones_have_cores_left,
    ),
    Finding(
        preset="s0-fig7",
        text="Where it is not, the load is highest, and above the number of cores.",
        source=_insert(
            "IV-E",
            "The two remaining scenarios show the highest system loads with a value close to 15, which indicates an "
            "over-utilization that could limit the achievable ingestion rate.",
        ),
        question=unsteady_ones_are_overloaded,
    ),
    Finding(
        preset="s0-fig7",
        text="The load is not in proportion to the rate.",
        source=_insert("IV-E", "the system load is not proportional to the corresponding ingestion rates"),
        question=load_is_not_proportional,
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
        text="With one sender remote, and with both, it is steady.",
        source=_insert(
            "IV-F",
            "the two settings where at least one data sender is executed remotely lead to the same result: a steady "
            "input rate of about 420K MPS",
        ),
        question=_remote(steady(True, sender=_AWAY)),
    ),
    Finding(
        preset="s0-fig10",
        text="One remote sender and two come to the same.",
        source=_insert(
            "IV-F",
            "the two settings where at least one data sender is executed remotely lead to the same result: a steady "
            "input rate of about 420K MPS",
        ),
        question=_remote(alike("rate_per_s", this={"sender": MIXED}, that={"sender": REMOTE})),
    ),
    Finding(
        preset="s0-fig10",
        text="With both senders local, the load is above the number of cores.",
        source=_insert(
            "IV-F",
            "the system loads are also equal with a value consistently approaching 15. This again indicates an "
            "over-utilization of the server.",
        ),
        question=overloaded(sender=LOCAL),
    ),
    Finding(
        preset="s0-fig10",
        text="With a remote sender, no host's load is more than three of eight cores.",
        source=_insert(
            "IV-F", "The system load never exceeds a value of three on any server with distributed data senders."
        ),
        question=_remote(load_at_most(_LOAD_SHARE_MAX, sender=_AWAY)),
    ),
    Finding(
        preset="s0-fig10",
        text="A remote sender brings packets from elsewhere, and a local one none.",
        source=_insert(
            "IV-F",
            "While the number of received packages is not impacted if data is only sent from the node where the "
            "corresponding target topic is stored, transmitting data from a remote host significantly increases this "
            "KPI.",
        ),
        question=_remote(
            all_of(*(more(PACKETS, this={"sender": away}, than={"sender": LOCAL, "acks": "1"}) for away in _AWAY))
        ),
    ),
    Finding(
        preset="s0-fig10",
        text="Two remote senders bring twice as many packets as one.",
        source=_insert(
            "IV-F",
            "One remote data sender amounts to about 30K received packages, while two remote data senders are about to "
            "double this number accordingly.",
        ),
        question=_remote(
            alike(PACKETS, this={"sender": REMOTE}, that={"sender": MIXED}, factor=2.0, by=_DOUBLED_WITHIN)
        ),
    ),
    Finding(
        preset="s0-fig10",
        text="With both senders remote, what comes in is close to what the link can carry.",
        source=_insert(
            "IV-F",
            "Since the reported number of incoming bytes is close to this limit and metadata or further traffic might "
            "not be captured, the network represents a potential bottleneck.",
        ),
        question=_remote(_is_close_to_the_link),
    ),
)
