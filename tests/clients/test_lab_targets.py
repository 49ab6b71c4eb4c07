"""A node as a target: how long it took to answer, that it comes back with what it kept, and where it says it is."""

from confluent_kafka import Producer

from headrace.lab.targets.running import advertised_addresses, running
from headrace.lab.targets.spec import find_target
from headrace.lab.topics import create_topic, wait_kept


def test_a_target_knows_how_long_it_took_to_start_and_to_start_again() -> None:
    with running(find_target("node")) as target:
        assert target.start_s is not None
        assert 0 < target.start_s < 20
        create_topic(target.settings, "kept", partitions=1)
        producer = Producer({"bootstrap.servers": target.bootstrap})
        producer.produce("kept", b"a record")
        assert producer.flush(30) == 0
        before = target.pid
        restart_s = target.restart(answer_from="kept")
        assert restart_s is not None
        assert 0 < restart_s < 20
        assert target.pid != before
        assert target.trouble() is None
        wait_kept(target.settings, "kept", messages=1)


def test_where_a_cluster_says_that_it_is_and_not_where_it_is_named() -> None:
    with running(find_target("node")) as target:
        named = find_target(target.bootstrap.replace("127.0.0.1", "localhost"))
        assert advertised_addresses(named) == [target.bootstrap]
