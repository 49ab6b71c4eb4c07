"""What librdkafka is told: the user's settings in either spelling, under what these clients need for their promises."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.errors import ConfigError
from headrace.wire.settings import Config, librdkafka_settings

logger: Final = logging.getLogger("headrace.client")

# By default a consumer whose queue is full fetches nothing for a whole second, however soon the queue is empty.
_CONSUMER: Final[Mapping[str, Any]] = {
    "partition.assignment.strategy": "cooperative-sticky",  # Who keeps a partition is not interrupted.
    "fetch.queue.backoff.ms": 20,
    # What librdkafka holds when a partition is held back is thrown away, and fetched again later.
    "queued.min.messages": 5_000,
    "queued.max.messages.kbytes": 4_096,
}

# What is said in another way, because something else depends on it.
_CONSUMER_SAYS: Final = {
    "group.id": "group",
    "auto.offset.reset": "start",
    "enable.auto.commit": "commit_every_s",
    "auto.commit.interval.ms": "commit_every_s",
    "enable.auto.offset.store": "commit_every_s",
    "on_commit": "the result of commit_async",
}
_PRODUCER_SAYS: Final = {
    "partitioner": "partitioner",
    "batch.num.messages": "batch_messages_max",
    "linger.ms": "linger_ms",
    "queue.buffering.max.ms": "linger_ms",
    "on_delivery": "the receipt of send",
    "delivery.report.only.error": "the receipt of send",
    "transactional.id": "nothing: transactions are not offered here",
}


def consumer_settings(bootstrap: str | Sequence[str] | None, config: Config, own: Mapping[str, Any]) -> dict[str, Any]:
    return _settings(bootstrap, config, own, defaults=_CONSUMER, says=_CONSUMER_SAYS)


def producer_settings(bootstrap: str | Sequence[str] | None, config: Config, own: Mapping[str, Any]) -> dict[str, Any]:
    settings = _settings(bootstrap, config, own, defaults={}, says=_PRODUCER_SAYS)
    acks = str(settings.get("acks", settings.get("request.required.acks", "all")))
    if acks == "0":
        raise ConfigError("acks=0: nothing would ever be acknowledged, and no receipt could be given")
    if acks in {"all", "-1"}:
        settings.setdefault("enable.idempotence", "true")  # Sent twice, written once, and never out of order.
    return settings


def _settings(
    bootstrap: str | Sequence[str] | None,
    config: Config,
    own: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any],
    says: Mapping[str, str],
) -> dict[str, Any]:
    given, not_in_force = librdkafka_settings(bootstrap, config)
    if not_in_force:
        logger.info("not in force here: %s", ", ".join(not_in_force))
    for name in given:
        if name in says:
            raise ConfigError(f"{name} is not set here: use {says[name]}")
    return {"logger": logger, **defaults, **given, **own}
