"""What engines of consumers say of themselves."""

from confluent_kafka import ThrottleEvent

from headrace.lab.consumer_engines import LibrdkafkaConsumer


def test_brokers_that_hold_back_at_the_same_time_add_up_to_no_more_than_the_one_that_did_for_longest() -> None:
    engine = LibrdkafkaConsumer({"bootstrap.servers": "127.0.0.1:1"}, "t", "g")
    try:
        assert engine.throttled_ns == 0
        for broker_id, throttled_s in ((1, 0.5), (2, 0.4), (3, 0.1), (2, 0.2)):
            engine._note_throttle(ThrottleEvent(f"broker{broker_id}", broker_id, throttled_s))
        assert engine.throttled_ns == 600_000_000
    finally:
        engine.close()
