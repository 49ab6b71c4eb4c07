"""A topic that one broker is to have."""

from headrace.lab.topics import assigned


def test_all_partitions_to_one_broker_and_replicas_to_those_that_follow() -> None:
    places = assigned(partitions=2, replication=2, leader=3, brokers=[1, 2, 3])
    assert places == [
        {"partition_index": 0, "broker_ids": [3, 1]},
        {"partition_index": 1, "broker_ids": [3, 1]},
    ]
