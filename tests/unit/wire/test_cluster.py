"""A cluster as clients see it, against brokers that lead, move and disappear as told."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

from headrace.errors import ApiError, ErrorCode
from headrace.ids import TopicId, TopicName, TopicPartition
from headrace.protocol.messages import list_groups
from headrace.protocol.messages.list_offsets import API as LIST_OFFSETS
from headrace.wire.cluster import Cluster, Leader
from headrace.wire.errors import (
    AuthenticationRefused,
    ConnectionClosed,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
    Unreachable,
)
from headrace.wire.offsets import EARLIEST, OffsetAt, list_offsets
from headrace.wire.settings import Address, ClientSettings, Mechanism, SaslSettings
from tests.unit.wire.scripted import TIMEOUT_S, Peer, Request, ScriptedBroker

ID = TopicId(bytes(15) + b"\x01")
BRIEFLY_S = 0.5  # Enough for an answer on a busy machine, several times over.


def place(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(TopicName(topic), partition)


class FakeCluster:
    """Brokers that answer from one state, which a test changes between questions."""

    def __init__(self, brokers: int = 2) -> None:
        self.brokers = [ScriptedBroker(partial(self.serve, node_id)) for node_id in range(brokers)]
        self.leaders: dict[str, list[tuple[int, int]]] = {"t": [(0, 5), (brokers - 1, 5)]}  # Node and epoch.
        self.topic_errors: dict[str, list[int]] = {}  # Answered in turn, before the topic itself.
        self.offset_errors: dict[int, list[int]] = {}  # By partition, likewise.
        self.asked: list[tuple[int, str]] = []
        self.down: set[int] = set()
        self.silent: set[str] = set()
        self.metadata_topics: list[list[str] | None] = []

    def settings(self, **changes: Any) -> ClientSettings:
        return self.brokers[0].settings(**{"api_timeout_s": TIMEOUT_S, **changes})

    def serve(self, node_id: int, peer: Peer) -> None:
        if node_id in self.down:
            return
        peer.greet()
        while True:
            request = peer.read()
            self.asked.append((node_id, request.api.name))
            if request.api.name in self.silent:
                peer.wait_closed()
                return
            if node_id in self.down:
                return
            peer.answer(request, getattr(self, f"_{request.api.name}")(request, node_id))

    def _Metadata(self, request: Request, node_id: int) -> Mapping[str, Any]:  # noqa: N802
        assert request.body["allow_auto_topic_creation"] is False
        asked = request.body["topics"]
        names = sorted(self.leaders) if asked is None else [one["name"] for one in asked]
        self.metadata_topics.append(None if asked is None else names)
        brokers = [{"node_id": n, "host": b.address.host, "port": b.address.port} for n, b in enumerate(self.brokers)]
        return {"brokers": brokers, "topics": [self._topic(name) for name in names]}

    def _topic(self, name: str) -> dict[str, Any]:
        errors = self.topic_errors.get(name, [])
        if errors or name not in self.leaders:
            return {"name": name, "error_code": errors.pop(0) if errors else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        partitions = [
            {"partition_index": number, "leader_id": node, "leader_epoch": epoch}
            for number, (node, epoch) in enumerate(self.leaders[name])
        ]
        return {"name": name, "topic_id": ID, "partitions": partitions}

    def _ListOffsets(self, request: Request, node_id: int) -> Mapping[str, Any]:  # noqa: N802
        def answer(topic: str, one: Mapping[str, Any]) -> dict[str, Any]:
            number = one["partition_index"]
            errors = self.offset_errors.get(number, [])
            leader, epoch = self.leaders[topic][number]
            code = errors.pop(0) if errors else 0 if leader == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER
            if not code:
                assert one["current_leader_epoch"] == epoch
            return {"partition_index": number, "error_code": code, "offset": 10 * number, "leader_epoch": epoch}

        return {
            "topics": [
                {"name": topic["name"], "partitions": [answer(topic["name"], one) for one in topic["partitions"]]}
                for topic in request.body["topics"]
            ]
        }

    def _ListGroups(self, request: Request, node_id: int) -> Mapping[str, Any]:  # noqa: N802
        return {"groups": [{"group_id": str(node_id)}]}


@contextmanager
def fake_cluster(brokers: int = 2) -> Iterator[FakeCluster]:
    fake = FakeCluster(brokers)
    with ExitStack() as stack:
        for broker in fake.brokers:
            stack.enter_context(broker)
        yield fake


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with fake_cluster() as made:
        yield made


@pytest.fixture
def cluster(fake: FakeCluster) -> Iterator[Cluster]:
    with Cluster(fake.settings()) as made:
        yield made


# --- What is known --------------------------------------------------------------------------------------------


def test_topics_partitions_and_leaders(cluster: Cluster) -> None:
    assert cluster.partitions("t") == range(2)
    assert cluster.topic("t").topic_id == ID
    assert [cluster.leader("t", 0), cluster.leader("t", 1)] == [Leader(0, 5), Leader(1, 5)]


def test_what_is_known_is_not_asked_again(cluster: Cluster, fake: FakeCluster) -> None:
    for _ in range(3):
        cluster.leader("t", 0)
    assert fake.metadata_topics == [["t"]]


def test_what_is_old_is_asked_again(fake: FakeCluster) -> None:
    with Cluster(fake.settings(metadata_age_s_max=0.0)) as cluster:
        cluster.topic("t")
        cluster.topic("t")
    assert fake.metadata_topics == [["t"], ["t"]]


def test_every_topic(cluster: Cluster, fake: FakeCluster) -> None:
    fake.leaders["u"] = []
    assert set(cluster.all_topics()) == {"t", "u"}
    assert fake.metadata_topics == [None]


def test_every_topic_but_those_that_went_away(cluster: Cluster, fake: FakeCluster) -> None:
    fake.leaders["u"] = [(0, 0)]
    assert set(cluster.all_topics()) == {"t", "u"}
    del fake.leaders["u"]
    assert set(cluster.all_topics()) == {"t"}


def test_a_refresh_asks_for_all_that_was_asked_before(cluster: Cluster, fake: FakeCluster) -> None:
    fake.leaders["u"] = [(0, 0)]
    cluster.topic("t")
    cluster.refresh(["u"])
    assert fake.metadata_topics == [["t"], ["t", "u"]]


def test_many_who_find_the_same_out_of_date_ask_once(cluster: Cluster, fake: FakeCluster) -> None:
    seen = cluster.refresh(["t"])
    news = cluster.refresh(than=seen)
    assert news is not seen
    assert cluster.refresh(than=seen) is news
    assert len(fake.metadata_topics) == 2


def test_a_topic_that_does_not_exist(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.wire.cluster._NEW_TOPIC_S", 0.01)
    with pytest.raises(UnknownTopic, match=r"there is no topic 'nope' at 127\.0\.0\.1:\d+"):
        cluster.topic("nope")


def test_a_topic_that_was_created_a_moment_ago(cluster: Cluster, fake: FakeCluster) -> None:
    fake.topic_errors["t"] = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE]
    assert cluster.partitions("t") == range(2)


def test_a_topic_that_one_may_not_see(cluster: Cluster, fake: FakeCluster) -> None:
    fake.topic_errors["t"] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    with pytest.raises(ApiError, match="topic 't': TOPIC_AUTHORIZATION_FAILED"):
        cluster.topic("t")
    assert len(fake.metadata_topics) == 1


@pytest.mark.parametrize("partition", [-1, 2])
def test_a_partition_that_does_not_exist(cluster: Cluster, partition: int) -> None:
    with pytest.raises(UnknownPartition, match=f"topic 't' has 2 partitions, and {partition} is none"):
        cluster.leader("t", partition)


def test_an_election_is_waited_for(cluster: Cluster, fake: FakeCluster) -> None:
    fake.leaders["t"][1] = (-1, 6)
    cluster.topic("t")
    fake.leaders["t"][1] = (0, 7)
    assert cluster.leader("t", 1) == Leader(0, 7)


def test_an_election_that_does_not_end(cluster: Cluster, fake: FakeCluster) -> None:
    fake.leaders["t"][1] = (-1, 6)
    with pytest.raises(ApiError, match="partition 1 of topic 't': LEADER_NOT_AVAILABLE"):
        cluster.leader("t", 1, timeout_s=BRIEFLY_S)


# --- Who is asked ---------------------------------------------------------------------------------------------


def test_a_connection_for_each_broker_and_purpose(cluster: Cluster) -> None:
    cluster.topic("t")
    one = cluster.connection(0, "fetch")
    assert cluster.connection(0, "fetch") is one
    assert cluster.connection(0, "produce") is not one
    assert cluster.connection(1, "fetch") is not one
    assert cluster.call(1, list_groups.API, {})["groups"][0]["group_id"] == "1"


def test_a_connection_that_failed_is_replaced(cluster: Cluster) -> None:
    cluster.topic("t")
    one = cluster.connection(0, "fetch")
    one.close()
    assert cluster.connection(0, "fetch").call(list_groups.API, {})["groups"]


def test_a_broker_that_is_not_there(cluster: Cluster) -> None:
    with pytest.raises(Unavailable, match="broker 9 is not part of the cluster"):
        cluster.connection(9)


def test_the_next_bootstrap_address_where_the_first_is_dead(fake: FakeCluster) -> None:
    with ScriptedBroker(Peer.wait_closed) as closed:
        dead = closed.address
    with Cluster(fake.settings(bootstrap=(dead, fake.brokers[0].address))) as cluster:
        assert cluster.partitions("t") == range(2)


def test_no_bootstrap_address_that_answers_is_an_error_soon(fake: FakeCluster) -> None:
    with ScriptedBroker(Peer.wait_closed) as closed:
        dead = closed.address
    with (
        Cluster(fake.settings(bootstrap=(dead,), api_timeout_s=3600.0)) as cluster,
        pytest.raises(Unreachable, match=f"cannot reach {dead}: connection refused"),
    ):
        cluster.topic("t")


def test_an_address_that_answered_somebody_before_is_waited_for(fake: FakeCluster) -> None:
    refusals = iter(range(6))

    def script(peer: Peer) -> None:
        if next(refusals, None) is None:
            fake.serve(0, peer)

    with ScriptedBroker(script) as broker:
        told = fake.settings(bootstrap=(broker.address,), bootstrap_answered=True, retry_backoff_s_max=0.01)
        with Cluster(told) as cluster:
            assert cluster.partitions("t") == range(2)
    assert next(refusals, None) is None


def test_another_broker_is_asked_where_one_went_down(cluster: Cluster, fake: FakeCluster) -> None:
    cluster.topic("t")
    fake.down.add(0)
    assert cluster.call_any(list_groups.API, {})["groups"][0]["group_id"] == "1"


def test_a_cluster_that_is_away_is_waited_for_only_so_long(cluster: Cluster, fake: FakeCluster) -> None:
    cluster.topic("t")
    fake.down |= {0, 1}
    with pytest.raises(Unavailable):
        cluster.call_any(list_groups.API, {}, timeout_s=BRIEFLY_S)


def test_a_wrong_password_is_not_tried_again() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.answer(peer.read(), {})
        refused = {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": "wrong"}
        peer.answer(peer.read(), refused)

    sasl = SaslSettings(mechanism=Mechanism.PLAIN, username="al", password="guess")
    with ScriptedBroker(script) as broker, Cluster(broker.settings(sasl=sasl)) as cluster:
        with pytest.raises(AuthenticationRefused, match="refused user 'al' by PLAIN: wrong"):
            cluster.topic("t")
        assert broker.connections == 1


# --- Leaders --------------------------------------------------------------------------------------------------


def test_leaders_are_asked_each_for_its_own(cluster: Cluster, fake: FakeCluster) -> None:
    found = list_offsets(cluster, {place(0): EARLIEST, place(1): EARLIEST})
    assert found == {place(0): OffsetAt(0, -1, 5), place(1): OffsetAt(10, -1, 5)}
    assert sorted(node_id for node_id, api in fake.asked if api == "ListOffsets") == [0, 1]


def test_a_leader_that_moved_is_found(cluster: Cluster, fake: FakeCluster) -> None:
    cluster.topic("t")
    fake.leaders["t"] = [(1, 6), (0, 6)]
    found = list_offsets(cluster, {place(0): EARLIEST, place(1): EARLIEST})
    assert {one.leader_epoch for one in found.values()} == {6}


def test_a_leader_that_died_is_followed(cluster: Cluster, fake: FakeCluster) -> None:
    list_offsets(cluster, {place(1): EARLIEST})
    fake.down.add(1)
    fake.leaders["t"][1] = (0, 6)
    assert list_offsets(cluster, {place(1): EARLIEST}) == {place(1): OffsetAt(10, -1, 6)}


def test_what_may_pass_is_tried_again(cluster: Cluster, fake: FakeCluster) -> None:
    fake.offset_errors[0] = [ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.FENCED_LEADER_EPOCH]
    assert list_offsets(cluster, {place(0): EARLIEST})[place(0)].offset == 0


def test_nothing_is_learnt_anew_where_only_time_is_needed(cluster: Cluster, fake: FakeCluster) -> None:
    fake.offset_errors[0] = [ErrorCode.OFFSET_NOT_AVAILABLE] * 3
    list_offsets(cluster, {place(0): EARLIEST})
    assert len(fake.metadata_topics) == 1


def test_what_will_not_pass_is_an_error_at_once(cluster: Cluster, fake: FakeCluster) -> None:
    fake.offset_errors[1] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(ApiError, match="ListOffsets of t-1: TOPIC_AUTHORIZATION_FAILED"):
        list_offsets(cluster, {place(0): EARLIEST, place(1): EARLIEST})


def test_what_does_not_pass_in_time_is_an_error(cluster: Cluster, fake: FakeCluster) -> None:
    fake.offset_errors[1] = [ErrorCode.OFFSET_NOT_AVAILABLE] * 1000
    with pytest.raises(ApiError, match="ListOffsets of t-1: OFFSET_NOT_AVAILABLE"):
        list_offsets(cluster, {place(1): EARLIEST}, timeout_s=BRIEFLY_S)


def test_a_partition_that_no_answer_tells_of(cluster: Cluster) -> None:
    with pytest.raises(Unavailable, match="ListOffsets: no answer told of t-0"):
        cluster.call_leaders(
            LIST_OFFSETS, [place(0)], body_of=lambda _: {"topics": []}, results_of=lambda _: (), timeout_s=BRIEFLY_S
        )


def test_nothing_to_ask(cluster: Cluster, fake: FakeCluster) -> None:
    assert list_offsets(cluster, {}) == {}
    assert fake.asked == []


# --- Closing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["Metadata", "ListOffsets"])
def test_closing_wakes_whoever_waits(cluster: Cluster, fake: FakeCluster, question: str) -> None:
    fake.silent.add(question)
    outcomes: list[BaseException] = []

    def wait() -> None:
        try:
            list_offsets(cluster, {place(0): EARLIEST})
        except BaseException as error:
            outcomes.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    while question not in [name for _, name in fake.asked]:
        waiter.join(0.001)
    cluster.close()
    waiter.join(TIMEOUT_S)
    assert [type(outcome) for outcome in outcomes] == [ConnectionClosed]


def test_a_closed_cluster_is_of_no_use(cluster: Cluster) -> None:
    cluster.topic("t")
    cluster.close()
    cluster.close()
    with pytest.raises(ConnectionClosed):
        cluster.refresh()
    with pytest.raises(ConnectionClosed):
        cluster.connection(0)


def test_closing_ends_a_wait_between_tries(fake: FakeCluster) -> None:
    fake.leaders["t"][0] = (-1, 6)
    settings = fake.settings(retry_backoff_s=TIMEOUT_S, retry_backoff_s_max=TIMEOUT_S, api_timeout_s=10 * TIMEOUT_S)
    with Cluster(settings) as cluster:
        cluster.topic("t")
        closer = threading.Timer(0.01, cluster.close)
        closer.start()
        with pytest.raises((ApiError, ConnectionClosed)):
            cluster.leader("t", 0)
        closer.join()


def test_addresses_of_brokers_are_those_that_the_cluster_tells(cluster: Cluster, fake: FakeCluster) -> None:
    assert cluster.refresh().brokers == {n: Address(*broker.address) for n, broker in enumerate(fake.brokers)}
