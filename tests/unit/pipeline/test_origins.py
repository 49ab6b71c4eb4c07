import pytest

from headrace.errors import ConfigError
from headrace.ids import TopicName
from headrace.pipeline.origins import (
    Origin,
    dead_key,
    dead_range_keys,
    epoch_key,
    loads_key,
    offset_key,
    parse_loader,
    partitions_key,
    settled_key,
)


def test_no_two_things_have_one_name() -> None:
    origins = [
        Origin(cluster, TopicName(topic), topic_id)
        for cluster in ("a", "b")
        for topic in ("t", "t1")
        for topic_id in ("x", "y")
    ]
    names = [key(loader, origin) for loader in ("l", "m") for origin in origins for key in (partitions_key,)]
    names += [key("l", origin, number) for origin in origins for number in (1, 11) for key in (offset_key, epoch_key)]
    names += [key("l", origin) for origin in origins for key in (dead_key, settled_key)]
    names += [name for origin in origins for number in (1, 11) for name in dead_range_keys("l", origin, number)]
    names += [loads_key(loader, topic) for loader in ("l", "m") for topic in ("t", "t1")]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["", "a:b", "a b", "x" * 101])
def test_a_loader_whose_name_could_be_taken_for_another_part_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="loader"):
        parse_loader(name)
