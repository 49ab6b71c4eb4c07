"""Configuration as DescribeConfigs tells it: each value, where it came from, and what stands behind it.

Kafka's order and Kafka's oddities, because tools compare them: synonyms are listed from the strongest source
to the default, and the list begins at the first one that bears the setting's own name at the broker. So a
topic's `retention.ms` that comes from `log.retention.hours` has no synonyms, and counts as a default.
"""

from collections.abc import Iterator
from functools import cache
from itertools import dropwhile
from typing import NamedTuple

from headrace.node.configs import BrokerConfig, TopicConfig
from headrace.node.settings import Layer, Setting, Settings, Source, value_text


class SynonymEntry(NamedTuple):
    name: str
    value: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """One setting. `synonyms` are strongest first; the head, where there is one, is what holds."""

    name: str
    value: str | None  # None where it is unset, and where it is a secret.
    source: Source
    read_only: bool
    sensitive: bool
    synonyms: tuple[SynonymEntry, ...]
    type_code: int
    documentation: str

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT


def describe_topic(topic: TopicConfig, broker: BrokerConfig) -> Iterator[ConfigEntry]:
    """Every setting of a topic, in the table's order."""
    (overrides,) = topic.layers or (Layer(Source.TOPIC, {}),)
    for row in topic.rows.values():
        if row.internal and row.name not in overrides.texts:
            continue
        value = _shown(row, topic)
        names = tuple(each.name for each in row.synonyms)
        synonyms = tuple(_broker_synonyms(broker, names, own=names[0])) if names else ()
        if row.name in overrides.texts:
            synonyms = (SynonymEntry(row.name, value, Source.TOPIC), *synonyms)
        yield _entry(row, value, synonyms, read_only=False)


def describe_broker(broker: BrokerConfig) -> Iterator[ConfigEntry]:
    """Every setting of a broker that this node knows, in the table's order."""
    for row in broker.rows.values():
        if not row.internal:
            names = _FALLBACKS.get(row.name, (row.name,))
            synonyms = tuple(_broker_synonyms(broker, names, own=row.name))
            yield _entry(row, _shown(row, broker), synonyms, read_only=not row.dynamic)


def describe_broker_defaults(broker: BrokerConfig) -> Iterator[ConfigEntry]:
    """What was set at run time for all nodes at once, and nothing else."""
    for layer in broker.layers:
        if layer.source is Source.DYNAMIC_BROKER_DEFAULT:
            for name, text in layer.texts.items():
                row = broker.rows[name]
                value = None if row.sensitive else text
                yield _entry(row, value, (SynonymEntry(name, value, layer.source),), read_only=not row.dynamic)


def _entry(row: Setting, value: str | None, synonyms: tuple[SynonymEntry, ...], *, read_only: bool) -> ConfigEntry:
    return ConfigEntry(
        name=row.name,
        value=value,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        read_only=read_only,
        sensitive=row.sensitive,
        synonyms=synonyms,
        type_code=row.kind.value,
        documentation=row.doc,
    )


def _shown(row: Setting, settings: Settings) -> str | None:
    return None if row.sensitive else value_text(getattr(settings, row.attribute))


# Broker settings that have coarser ones beside them are described together with those. Kafka leaves out
# `log.flush.scheduler.interval.ms`, which is a setting in its own right.
_FALLBACKS = {
    name: names
    for row in TopicConfig.rows.values()
    for names in [tuple(each.name for each in row.synonyms)]
    for name in names
    if name != "log.flush.scheduler.interval.ms"
}


def _broker_synonyms(broker: BrokerConfig, names: tuple[str, ...], *, own: str) -> Iterator[SynonymEntry]:
    found = (
        SynonymEntry(name, None if broker.rows[name].sensitive else layer.texts[name], layer.source)
        for layer in (*broker.layers, _defaults())
        for name in names
        if name in layer.texts
    )
    return dropwhile(lambda each: each.name != own, found)


@cache
def _defaults() -> Layer:
    texts = {row.name: value_text(row.default) for row in BrokerConfig.rows.values()}
    return Layer(Source.DEFAULT, {name: text for name, text in texts.items() if text is not None})
