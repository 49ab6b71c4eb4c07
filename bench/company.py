"""What else goes on at a broker in use: a consumer group at work, and a scraper of the metrics.

A race on a broker that does nothing else would hide what those cost. They run in a process of their own, beside
every load but that of the fresh start, and do little: what is measured is the load in their company, not they.
"""

import json
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.errors import LoadError

_TOPIC: Final = "company"
_PARTITIONS: Final = 6
_MEMBERS: Final = 3
_MESSAGES_PER_S: Final = 10
_COMMIT_MS: Final = 1000
_SCRAPE_S: Final = 5
_READY_S: Final = 60
_READY: Final = "ready"


class Company:
    """Those beside a load, for as long as `company` goes on."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """They do nothing meanwhile, and nobody takes them for gone if it is not for long."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


@contextmanager
def company(bootstrap: str, *, metrics_url: str | None) -> Iterator[Company]:
    """Keep them at work while the body runs; a body that had none of it is a failure, not a figure."""
    command = [sys.executable, "-m", "bench.company", bootstrap, *([metrics_url] if metrics_url else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            arrived = select.select([process.stdout], [], [], _READY_S)[0]
            if not arrived or process.stdout.readline().strip() != _READY:
                raise LoadError(f"the group beside the load did not form in {_READY_S} s")
            yield Company(process)
        except BaseException:
            process.kill()
            raise
        process.send_signal(signal.SIGTERM)
        told, complaint = process.communicate(timeout=_READY_S)
        if process.returncode != 0:
            raise LoadError(f"the company of the load failed: {complaint.strip()[-500:]}")
        idle = [name for name, count in json.loads(told).items() if not count]
        if idle:
            raise LoadError(f"beside the load nothing was {' and '.join(idle)}")


class _Group:
    """Its members, and the producer that gives them a little to do."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": _TOPIC,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": _COMMIT_MS,
        }
        self._members = [Consumer(settings) for _ in range(_MEMBERS)]
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


def main(arguments: Sequence[str]) -> int:
    bootstrap, *metrics_urls = arguments
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)])[_TOPIC].result()
    group = _Group(bootstrap)
    counts = dict.fromkeys(["scraped"] if metrics_urls else [], 0)
    scrape_at_s = time.monotonic()
    announced = False
    while not stop.wait(1 / _MESSAGES_PER_S):
        group.work()
        if not announced and group.is_complete() and group.consumed:
            announced = True
            print(_READY, flush=True)
        if metrics_urls and time.monotonic() >= scrape_at_s:
            counts["scraped"] += _scrape(metrics_urls[0])
            scrape_at_s += _SCRAPE_S
    group.close()
    print(json.dumps(counts | {"consumed": group.consumed}), flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KafkaException as error:
        sys.exit(str(error))
