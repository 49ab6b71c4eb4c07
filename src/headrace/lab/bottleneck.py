"""What held a run up: a verdict out of what was read meanwhile, with the evidence in sentences.

Messages go from the generator through the client, the network and the broker to its disk. In such a chain the slowest
link has no idle time; what lies before it waits for it, what lies behind it has too little to do. So two questions:

1. Where do messages wait that are behind the plan? Before the client took them: then generator or client are to blame,
   and nothing behind them. With a client that has no room, or sent and not answered: then what lies behind, and the
   client itself, which may be too slow to send what it took.
2. Which of those had no idle time? A thread has none that runs, waits for a CPU or is stopped all the time: a broker
   that is kept from its CPU uses little of it, and is no less slow for that.

A verdict is only as good as what was seen. What was not seen is said, and 'none found' is a verdict, too: of a run that
was on time, and of one that was held up by something that nobody saw. A finding tells the two apart.

Where clients reach brokers through a proxy of the lab's own, what waits on the way may wait for that, and the network
is not accused.

Messages that were refused wait for nobody any more, and are no answers: a run of which many failed is not on time.

Pure: a summary in, a finding out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any, Final, NamedTuple

from headrace.lab.sides import Cores, Side, cores_text, side_text

_READ_S: Final = 2.0  # Less than that has hardly a whole reading in it.


class Verdict(StrEnum):
    GENERATOR = "generator"
    CLIENT_CPU = "client CPU"
    CONSUMER_CPU = "consumer CPU"
    NETWORK = "network"
    BROKER_CPU = "broker CPU"
    DISK = "disk"
    QUOTA = "quota"
    NONE = "none found"


class Threshold(Enum):
    """Each with why it is there. All but the first and the last are shares of the time."""

    def __init__(self, limit: float, why: str) -> None:
        self.limit = limit
        self.why = why

    BEHIND_S = 0.25, "seconds of the plan: more than a linger, a round trip or a collection of garbage; less is on time"
    NO_ROOM = 0.1, "a client that was refused so often would have sent more, had there been more answers"
    NO_IDLE = 0.9, "a thread that runs, wants to, or is stopped for so long can hardly do more than it does"
    MAKING = 0.5, "more went into making messages than into all that is done with them"
    ON_DISK = 0.5, "with a flush under way, or a thread at a device, more often than not, answers wait for that"
    UNDERWAY = 0.5, "bytes wait to leave the client more often than not, and the broker has read all that has come"
    LINK = 0.9, "of what the driver says that the link can do: headers and gaps take most of the rest"
    ELSEWHERE = 0.8, "of the time until an answer, spent neither in the broker nor in anything busy: so, on the way"
    THROTTLED = 0.1, "a broker that says that it holds back for a quota is believed, unless it is for a moment"
    CALM = 0.5, "a thread with half of its time to spare is not what others wait for"
    FAILED = 0.01, "of the messages planned: with more of them refused it was not on time, however soon they were"


class Counts(NamedTuple):
    """Messages of a whole run."""

    planned: int
    answered: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run and what was read meanwhile. None is what was not seen."""

    seconds: float
    is_unpaced: bool = False  # There was no plan to be behind: it sent as fast as it could.
    planned_per_s: float = 0.0
    answered_per_s: float = 0.0
    failed_per_s: float = 0.0
    whole: Counts | None = None  # Where it had no whole second, and so none of these rates, nor the next two.
    # What was planned and not sent, and sent and not answered, by what was planned a second; over the last half.
    unsent_s: float = 0.0
    unanswered_s: float = 0.0
    # Of the sender's time.
    no_room_share: float = 0.0
    making_share: float = 0.0
    throttled_share: float = 0.0
    client: Side | None = None
    broker: Side | None = None
    underway_share: float = 0.0
    unread_share: float = 0.0
    answer_ms: float | None = None  # From sent to answered, as the client sees it.
    in_broker_ms: float | None = None  # What of it the broker says it was there.
    sync_share: float | None = None
    link: str = ""
    link_share: float | None = None
    disk: str = ""
    disk_busy_share: float | None = None
    cores: Cores | None = None
    is_proxied: bool = False  # Clients reached the broker through a proxy of the lab's own.


class Finding(NamedTuple):
    verdict: Verdict
    evidence: tuple[str, ...]
    is_held_up: bool | None  # Whether anything was in its way, named or not; None where nobody knows.

    def to_json(self) -> dict[str, Any]:
        return {"verdict": self.verdict.value, "evidence": list(self.evidence), "is_held_up": self.is_held_up}


class Place(Enum):
    """Where messages wait."""

    NOWHERE = auto()
    UNSENT = auto()  # Before the client took them, and it would have.
    NO_ROOM = auto()  # Before the client took them, for it was full of those that were not sent or not answered.
    UNANSWERED = auto()
    REFUSED = auto()  # Nowhere: all were sent in time, and many have failed.


def find_bottleneck(summary: Summary) -> Finding:
    place = find_place(summary)
    if place is Place.NOWHERE:
        is_known = summary.whole is None
        return Finding(Verdict.NONE, (_progress(summary), *_busiest(summary)), is_held_up=False if is_known else None)
    if place is Place.REFUSED:
        evidence = (_progress(summary), _place_sentence(summary, place), *_busiest(summary))
        return Finding(Verdict.NONE, evidence, is_held_up=True)
    verdict = _before_sending(summary) if place is Place.UNSENT else _after_taking(summary, place)
    evidence = (_progress(summary), _place_sentence(summary, place), *_sentences(summary, verdict))
    if verdict is Verdict.NETWORK and summary.is_proxied:
        told = "a proxy of the lab's own stood between: what waited on the way may have waited for that"
        return Finding(Verdict.NONE, (*evidence, told), is_held_up=True)
    return Finding(verdict, evidence, is_held_up=True)


def find_place(summary: Summary) -> Place:
    behind_s = summary.unsent_s + summary.unanswered_s
    if not summary.is_unpaced and behind_s < Threshold.BEHIND_S.limit:
        return Place.REFUSED if failed_share(summary) >= Threshold.FAILED.limit else Place.NOWHERE
    if summary.no_room_share >= Threshold.NO_ROOM.limit:
        return Place.NO_ROOM
    if summary.is_unpaced or summary.unsent_s > summary.unanswered_s:
        return Place.UNSENT
    return Place.UNANSWERED


def failed_share(summary: Summary) -> float:
    """Of what was planned."""
    planned, failed = summary.planned_per_s, summary.failed_per_s
    if summary.whole is not None:
        planned, failed = summary.whole.planned, summary.whole.failed
    return failed / planned if planned else 0.0


def _before_sending(summary: Summary) -> Verdict:
    client = summary.client
    has_no_idle = client is not None and client.demand >= Threshold.NO_IDLE.limit
    # Whoever is kept from the CPU is late with whatever it does; how its time divides says nothing then.
    if client is not None and has_no_idle and client.held > client.ran:
        return Verdict.CLIENT_CPU
    if summary.making_share >= Threshold.MAKING.limit:
        return Verdict.GENERATOR
    if has_no_idle:
        return Verdict.CLIENT_CPU
    # It had room and time, and was late all the same. Unseen, it may have had neither; without a plan nobody is late.
    return Verdict.GENERATOR if client is not None and not summary.is_unpaced else Verdict.NONE


def _after_taking(summary: Summary, place: Place) -> Verdict:
    if summary.throttled_share >= Threshold.THROTTLED.limit:
        return Verdict.QUOTA
    found = {verdict: share for verdict, share, threshold in _pressures(summary, place) if share >= threshold.limit}
    if found:
        return max(found, key=lambda verdict: found[verdict])
    if _leaves_unread(summary):
        return Verdict.BROKER_CPU
    if summary.client is not None and summary.client.demand >= Threshold.NO_IDLE.limit:
        return Verdict.CLIENT_CPU
    if _elsewhere_share(summary) >= Threshold.ELSEWHERE.limit:
        return Verdict.NETWORK
    return Verdict.NONE


def _leaves_unread(summary: Summary) -> bool:
    """A broker that always has bytes to read and does not, though neither calm nor at its disk: it does what it can."""
    broker = summary.broker
    is_calm = broker is None or broker.demand < Threshold.CALM.limit
    return not is_calm and summary.unread_share >= Threshold.NO_IDLE.limit


def _pressures(summary: Summary, place: Place) -> Iterator[tuple[Verdict, float, Threshold]]:
    """How much of the time each had no idle time. Of equals the first is it, which lies furthest behind."""
    yield Verdict.DISK, _disk_share(summary), Threshold.ON_DISK
    if summary.broker is not None:
        yield Verdict.BROKER_CPU, summary.broker.demand, Threshold.NO_IDLE
        # With nobody to look at the other end, bytes that wait here may wait for whoever reads there.
        yield Verdict.NETWORK, summary.underway_share, Threshold.UNDERWAY
    if summary.link_share is not None:
        yield Verdict.NETWORK, min(1.0, summary.link_share), Threshold.LINK
    # A client that is full may be so because others are slow: it is asked last then.
    if summary.client is not None and place is Place.UNANSWERED:
        yield Verdict.CLIENT_CPU, summary.client.demand, Threshold.NO_IDLE


def _disk_share(summary: Summary) -> float:
    on_disk = 0.0 if summary.broker is None else summary.broker.on_disk
    return min(1.0, max(summary.sync_share or 0.0, on_disk))


def _elsewhere_share(summary: Summary) -> float:
    """Of the time until an answer, what was spent neither in the broker nor, it seems, in the client."""
    sides = (summary.client, summary.broker)
    is_calm = all(side is not None and side.demand < Threshold.CALM.limit for side in sides)
    if not is_calm or summary.unread_share >= Threshold.CALM.limit:
        return 0.0
    if not summary.answer_ms or summary.in_broker_ms is None:
        return 0.0
    return max(0.0, 1 - summary.in_broker_ms / summary.answer_ms)


# --- In words ----------------------------------------------------------------------------------------------------


def _progress(summary: Summary) -> str:
    if summary.whole is not None:
        return _progress_as_a_whole(summary, summary.whole)
    failed = f", {summary.failed_per_s:,.0f} a second failed" if summary.failed_per_s else ""
    if summary.is_unpaced:
        return f"there was no plan: {summary.answered_per_s:,.0f} messages a second were answered{failed}"
    behind_s = summary.unsent_s + summary.unanswered_s
    rates = f"{summary.answered_per_s:,.0f} messages a second were answered of {summary.planned_per_s:,.0f} planned"
    if behind_s >= Threshold.BEHIND_S.limit:
        return f"{rates}{failed}; over the last half answers were {behind_s:.1f} s behind the plan"
    behind = f"over the last half answers were {behind_s:.2f} s behind the plan"
    return f"{rates}{failed}; {behind}{'' if failed_share(summary) >= Threshold.FAILED.limit else ', which is on time'}"


def _progress_as_a_whole(summary: Summary, whole: Counts) -> str:
    """Nothing is known of how it went, for there was no whole second of it."""
    failed = f", {whole.failed:,} failed" if whole.failed else ""
    of = "" if summary.is_unpaced else f" of {whole.planned:,} planned"
    plan = "there was no plan, and " if summary.is_unpaced else ""
    return f"{plan}it was over in {summary.seconds:.2f} s: {whole.answered:,} messages were answered{of}{failed}"


def _place_sentence(summary: Summary, place: Place) -> str:
    match place:
        case Place.NO_ROOM:
            return (
                f"in {summary.no_room_share:.0%} of its time the sender had messages to send and no room for them: "
                "its buffer was full of messages that were not answered, or not even on the wire"
            )
        case Place.UNSENT if summary.is_unpaced:
            return "the client had room for more all the time, and was not given more"
        case Place.UNSENT:
            return f"of that, {summary.unsent_s:.1f} s were not sent yet, though there was room for them"
        case Place.UNANSWERED:
            return f"of that, {summary.unanswered_s:.1f} s were sent and not answered yet"
        case Place.REFUSED:
            share = f"{failed_share(summary):.0%}"
            return f"{share} of what was planned failed: nothing waits for that, but what is refused is not on time"
        case Place.NOWHERE:
            return ""


def _sentences(summary: Summary, verdict: Verdict) -> Iterator[str]:
    """Those of the verdict, and then what the others were doing."""
    match verdict:
        case Verdict.GENERATOR if summary.making_share >= Threshold.MAKING.limit:
            yield f"reading or generating messages took {summary.making_share:.0%} of the sender's time"
        case Verdict.GENERATOR:
            yield "the sender had room, and time to spare, and still did not keep to the plan"
        case Verdict.QUOTA:
            yield f"brokers held answers back for a quota's sake for {summary.throttled_share:.0%} of the time"
        case Verdict.DISK:
            yield from _disk_sentences(summary)
        case Verdict.NETWORK:
            yield from _network_sentences(summary)
        case Verdict.NONE:
            yield "nothing of what was seen was without idle time"
            if summary.seconds < _READ_S:
                yield f"it was over in {summary.seconds:.1f} s, and what happens is read once a second"
            if summary.client is None:
                yield "the senders were not seen: their processes are not on this machine"
            if summary.broker is None:
                yield "the broker was not seen: its page of metrics would tell more, and so would its own machine"
    yield from _busiest(summary)


def _busiest(summary: Summary) -> Iterator[str]:
    if summary.client is not None:
        yield side_text("sender", summary.client)
    if summary.broker is not None:
        yield side_text("broker", summary.broker)
        if summary.unread_share >= Threshold.CALM.limit:
            yield f"in {summary.unread_share:.0%} of all looks there were bytes at the broker that it had not read"
    if summary.cores is not None:
        yield cores_text(summary.cores)


def _disk_sentences(summary: Summary) -> Iterator[str]:
    if summary.sync_share is not None and summary.sync_share >= Threshold.ON_DISK.limit:
        yield f"a flush to the broker's device was under way for {min(1.0, summary.sync_share):.0%} of the time"
    if summary.broker is not None and summary.broker.on_disk >= Threshold.ON_DISK.limit:
        yield f"a thread of the broker waited for a device for {summary.broker.on_disk:.0%} of the time"
    if summary.disk_busy_share is not None:
        busy = f"{min(1.0, summary.disk_busy_share):.0%}"
        yield f"the busiest device of this machine, {summary.disk}, had work for {busy} of the time"


def _network_sentences(summary: Summary) -> Iterator[str]:
    if summary.underway_share >= Threshold.UNDERWAY.limit:
        yield (
            f"in {summary.underway_share:.0%} of all looks bytes waited to leave the client's machine "
            "while the broker had nothing left to read"
        )
    if summary.link_share is not None and summary.link_share >= Threshold.LINK.limit:
        yield f"{summary.link} carried {summary.link_share:.0%} of what its driver says that it can"
    if summary.answer_ms is not None and summary.in_broker_ms is not None:
        there = f"{summary.in_broker_ms:,.1f} ms"
        yield f"an answer took {summary.answer_ms:,.0f} ms, in which its request was at the broker for {there}"
