"""An audited sender as a process of its own, for `kill -9`: BOOTSTRAP TOPIC JOURNAL TIME_MS COUNT [then].

Sends so many messages and waits until all are acknowledged, says so, and then does as told: `close`s, `wait`s to be
killed with nothing under way, or sends on (`more`) until it is.
"""

import sys
import time

from headrace.audit import AuditedProducer


def main(bootstrap: str, topic: str, journal: str, time_ms: str, count: str, then: str) -> None:
    producer = AuditedProducer(
        {"bootstrap.servers": bootstrap, "linger.ms": 1, "queue.buffering.max.messages": 1_000},
        producer_id="web-1",
        journal=journal,
        publish_every_s=60 if then == "wait" else 0.2,  # Left alone, it would say its last word on the window.
    )
    for number in range(int(count)):
        producer.produce(topic, b"%d" % number, timestamp=int(time_ms))
    assert producer.flush(20) == 0
    print("acknowledged", flush=True)
    while then == "more":
        try:
            producer.produce(topic, b"more", timestamp=int(time_ms))
        except BufferError:
            producer.poll(0.01)
    if then == "wait":
        time.sleep(60)
    producer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
