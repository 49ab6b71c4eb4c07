"""What else goes on at a broker in use: a consumer group at work, and a scraper of the metrics.

A measurement on a broker that does nothing else would hide what those cost. They run in a process of their own beside
what is measured, and do little: what is measured is the load in their presence, not they.
"""

import os
import select
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.lab.child import Child, Pipe, run_child
from headrace.lab.errors import LabError

_TOPIC: Final = "bystanders"
_PARTITIONS: Final = 6
_MEMBERS: Final = 3
_MESSAGES_PER_S: Final = 10
_COMMIT_MS: Final = 1000
_SCRAPE_S: Final = 5
_WAIT_S: Final = 60


class Bystanders:
    """Those beside a load, for as long as `bystanders` goes on."""

    def __init__(self, child: Child) -> None:
        self._child = child

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """They do nothing meanwhile, and nobody takes them for gone if it is not for long."""
        assert self._child.pid is not None
        os.kill(self._child.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._child.pid, signal.SIGCONT)


@contextmanager
def bystanders(settings: Mapping[str, str], *, metrics_urls: Sequence[str]) -> Iterator[Bystanders]:
    """Keep them at work while the body runs; a body that had none of it is a failure, not a figure."""
    child = Child(__name__)
    try:
        child.say({"settings": dict(settings), "metrics_urls": list(metrics_urls)})
        _hear(child, "ready")
        yield Bystanders(child)
        child.say({"stop": True})
        counts = _hear(child, "counts")
    finally:
        child.end()
    idle = [name for name, count in counts.items() if not count]
    if idle:
        raise LabError(f"beside the load nothing was {' and '.join(idle)}")


def _hear(child: Child, word: str) -> Any:
    """What it has to say, which is one thing at a time."""
    if not select.select([child], [], [], _WAIT_S)[0]:
        raise LabError(f"those beside the load did not say {word!r} in {_WAIT_S} s")
    heard = child.hear()
    if not heard or word not in heard[0]:
        why = heard[0].get("trouble") if heard else child.last_words()
        raise LabError(f"those beside the load failed: {why}")
    return heard[0][word]


# --- Within the process ------------------------------------------------------------------------------------------


class _Group:
    """Its members, and the producer that gives them a little to do."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._producer = Producer({**settings, "linger.ms": 0})
        for_members = {
            **settings,
            "group.id": _TOPIC,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": _COMMIT_MS,
        }
        self._members = [Consumer(for_members) for _ in range(_MEMBERS)]
        self.consumed = 0
        for member in self._members:
            member.subscribe([_TOPIC])

    def is_complete(self) -> bool:
        return sum(len(member.assignment()) for member in self._members) == _PARTITIONS

    def work(self) -> None:
        self._producer.produce(_TOPIC, b"a little")
        self._producer.poll(0)
        for member in self._members:
            message = member.poll(0)
            self.consumed += message is not None and message.error() is None

    def close(self) -> None:
        for member in self._members:
            member.close()


def _scrape(url: str) -> int:
    """How many scrapes succeeded: none while the broker is restarted."""
    try:
        with urllib.request.urlopen(url, timeout=_SCRAPE_S) as page:
            return int(bool(page.read()))
    except (urllib.error.URLError, OSError):
        return 0


def run(pipe: Pipe) -> None:
    told = pipe.hear()
    try:
        pipe.say({"counts": _work(pipe, told["settings"], told["metrics_urls"])})
    except KafkaException as error:
        raise LabError(error.args[0].str()) from error


def _work(pipe: Pipe, settings: Mapping[str, Any], metrics_urls: Sequence[str]) -> dict[str, int]:
    admin = AdminClient(dict(settings))
    admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)])[_TOPIC].result()
    group = _Group(settings)
    counts = dict.fromkeys(["scraped"] if metrics_urls else [], 0)
    scrape_at_s = time.monotonic()
    is_announced = False
    while not pipe.is_spoken_to():
        time.sleep(1 / _MESSAGES_PER_S)
        group.work()
        if not is_announced and group.is_complete() and group.consumed:
            is_announced = True
            pipe.say({"ready": True})
        if metrics_urls and time.monotonic() >= scrape_at_s:
            counts["scraped"] += sum(map(_scrape, metrics_urls))
            scrape_at_s += _SCRAPE_S
    group.close()
    return counts | {"consumed": group.consumed}


if __name__ == "__main__":
    run_child(run)
