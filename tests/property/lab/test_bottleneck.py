"""Whatever was read: a verdict follows from evidence that is in it, and more of a cause never acquits it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.bottleneck import Place, Summary, Threshold, Verdict, find_bottleneck, find_place
from headrace.lab.sides import Cores, Side

shares = st.floats(0, 1)
maybe_shares = st.none() | shares
times_ms = st.none() | st.floats(0, 1e5)
sides = st.builds(Side, thread=st.just("main"), ran=shares, waited=shares, stopped=shares, on_disk=shares)
summaries = st.builds(
    Summary,
    seconds=st.floats(1, 600),
    is_unpaced=st.booleans(),
    planned_per_s=st.floats(0, 1e6),
    answered_per_s=st.floats(0, 1e6),
    unsent_s=st.floats(0, 100),
    unanswered_s=st.floats(0, 100),
    no_room_share=shares,
    making_share=shares,
    throttled_share=shares,
    client=st.none() | sides,
    broker=st.none() | sides,
    underway_share=shares,
    unread_share=shares,
    answer_ms=times_ms,
    in_broker_ms=times_ms,
    sync_share=st.none() | st.floats(0, 8),
    link=st.just("eth0"),
    link_share=maybe_shares,
    disk=st.just("vda"),
    disk_busy_share=maybe_shares,
    cores=st.none() | st.builds(Cores, busy=shares, others=shares, stolen=shares),
)


@given(summaries)
def test_only_what_lies_where_messages_wait_is_accused(summary: Summary) -> None:
    found, place = find_bottleneck(summary), find_place(summary)
    before = {Verdict.GENERATOR, Verdict.CLIENT_CPU}
    behind = {Verdict.QUOTA, Verdict.DISK, Verdict.BROKER_CPU, Verdict.NETWORK}
    allowed = {
        Place.NOWHERE: set(),
        Place.UNSENT: before,
        Place.NO_ROOM: behind | {Verdict.CLIENT_CPU},
        Place.UNANSWERED: behind | {Verdict.CLIENT_CPU},
    }[place]
    assert found.verdict in allowed | {Verdict.NONE}
    assert all(found.evidence)


@given(summaries)
def test_nobody_unseen_is_accused(summary: Summary) -> None:
    unseen = replace(summary, broker=None, client=None, sync_share=None, link_share=None, throttled_share=0.0)
    if unseen.making_share < Threshold.MAKING.limit:
        assert find_bottleneck(unseen).verdict is Verdict.NONE


@given(summaries, st.sampled_from([Side(ran=1.0), Side(waited=1.0), Side(stopped=1.0)]))
def test_what_has_no_idle_time_at_all_is_it_where_nothing_else_is_at_its_limit(summary: Summary, side: Side) -> None:
    nothing_else = replace(
        summary, throttled_share=0.0, sync_share=0.0, underway_share=0.0, link_share=0.0, making_share=0.0
    )
    match find_place(nothing_else):
        case Place.UNSENT:
            assert find_bottleneck(replace(nothing_else, client=side)).verdict is Verdict.CLIENT_CPU
        case Place.NO_ROOM:
            assert find_bottleneck(replace(nothing_else, broker=side)).verdict is Verdict.BROKER_CPU
        case Place.UNANSWERED:
            calm = Side(ran=0.1)
            assert find_bottleneck(replace(nothing_else, client=calm, broker=side)).verdict is Verdict.BROKER_CPU
            assert find_bottleneck(replace(nothing_else, client=side, broker=calm)).verdict is Verdict.CLIENT_CPU


@given(summaries, shares)
def test_a_busier_broker_stays_accused(summary: Summary, more: float) -> None:
    if summary.broker is None or find_bottleneck(summary).verdict is not Verdict.BROKER_CPU:
        return
    busier = replace(summary.broker, stopped=min(1.0, summary.broker.stopped + more))
    assert find_bottleneck(replace(summary, broker=busier)).verdict is Verdict.BROKER_CPU
