"""What is known of a cluster, and what is believed of news."""

from headrace.errors import ErrorCode
from headrace.ids import TopicId
from headrace.protocol.messages.metadata import API
from headrace.wire.metadata import NO_EPOCH, NO_NODE, Metadata, Partition, Topic, parse_metadata
from headrace.wire.settings import Address

ID = TopicId(bytes(15) + b"\x01")
OTHER_ID = TopicId(bytes(15) + b"\x02")
BROKERS = {1: Address("a", 1), 2: Address("b", 2)}


def known(*partitions: Partition, topic_id: TopicId = ID) -> Metadata:
    return Metadata(BROKERS, {"t": Topic("t", topic_id, partitions)})


def test_an_answer_in_the_oldest_and_in_the_newest_version() -> None:
    partitions = [
        {"partition_index": 1, "leader_id": 2, "leader_epoch": 7, "error_code": 0},
        {"partition_index": 0, "leader_id": -1, "leader_epoch": 3, "error_code": ErrorCode.LEADER_NOT_AVAILABLE},
    ]
    answer = {
        "brokers": [{"node_id": 1, "host": "a", "port": 1}, {"node_id": 2, "host": "b", "port": 2}],
        "cluster_id": "c",
        "controller_id": 2,
        "topics": [
            {"name": "t", "topic_id": ID, "partitions": partitions, "is_internal": True},
            {"name": "u", "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        ],
    }
    new, old = (parse_metadata(API.response.decode(API.response.encode(answer, v), v)) for v in (13, 0))
    nobody = Partition(NO_NODE, 3, ErrorCode.LEADER_NOT_AVAILABLE)
    errors = {"u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert new == Metadata(BROKERS, {"t": Topic("t", ID, (nobody, Partition(2, 7)), True)}, errors, "c", 2)
    assert old.topics["t"].partitions[1] == Partition(2, NO_EPOCH)
    assert (old.cluster_id, old.brokers, old.errors) == (None, BROKERS, errors)


def test_a_gap_among_partitions_is_one_without_a_leader() -> None:
    answer = {"topics": [{"name": "t", "partitions": [{"partition_index": 1, "leader_id": 2}]}]}
    read = parse_metadata(API.response.decode(API.response.encode(answer, 9), 9))
    assert read.topics["t"].partitions[0].leader_id == NO_NODE


def test_a_leader_of_an_older_epoch_does_not_come_back() -> None:
    before = known(Partition(2, 8), Partition(2, 8))
    assert before.updated(known(Partition(1, 7), Partition(1, 9))) == known(Partition(2, 8), Partition(1, 9))


def test_a_broker_that_tells_no_epochs_is_believed() -> None:
    assert known(Partition(2, 8)).updated(known(Partition(1, NO_EPOCH))) == known(Partition(1, NO_EPOCH))


def test_a_topic_that_was_made_anew_begins_anew() -> None:
    fresh = known(Partition(1, 0), topic_id=OTHER_ID)
    assert known(Partition(2, 8), Partition(2, 8)).updated(fresh) == fresh


def test_partitions_are_never_taken_away() -> None:
    assert len(known(Partition(1, 1), Partition(2, 1)).updated(known(Partition(1, 1))).topics["t"].partitions) == 2


def test_topics_that_were_not_asked_for_stay_known() -> None:
    updated = known(Partition(1, 1)).updated(Metadata(BROKERS, {"u": Topic("u", OTHER_ID, ())}))
    assert set(updated.topics) == {"t", "u"}


def test_a_topic_that_is_gone_is_forgotten_and_one_that_came_is_no_error_any_more() -> None:
    gone = known(Partition(1, 1)).updated(Metadata(BROKERS, errors={"t": 3}))
    assert (dict(gone.topics), gone.errors) == ({}, {"t": 3})
    back = gone.updated(known(Partition(1, 1)))
    assert (set(back.topics), back.errors) == ({"t"}, {})
