"""What `lab send --to` names, before anything is started."""

import pytest

from headrace.errors import ConfigError
from headrace.lab.send_targets import find_send_target, ready
from headrace.lab.targets.spec import BUILT_IN

SETTINGS = {"bootstrap.servers": "kafka:9092", "sasl.password": "x"}


def test_a_cluster_is_where_the_settings_say_and_is_asked_nothing() -> None:
    spec = find_send_target("cluster", {"bootstrap.servers": "PLAINTEXT://192.0.2.1:9092, 192.0.2.2"})
    with ready(spec, topic="t", partitions=1, metrics=["http://192.0.2.1:9/metrics"]) as target:
        assert target.settings["bootstrap.servers"] == target.name == "PLAINTEXT://192.0.2.1:9092, 192.0.2.2"
        assert (target.pids, target.metrics) == ([], ["http://192.0.2.1:9/metrics"])


@pytest.mark.parametrize("name", [*BUILT_IN, "other:9092"])
def test_every_target_of_runs_can_be_sent_to(name: str) -> None:
    spec = find_send_target(name, SETTINGS)
    assert (spec.name, spec.client) == (name, SETTINGS)
    assert ("log.retention.check.interval.ms" in spec.properties) == spec.has_own_brokers


def test_what_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match="there is no target 'nod'"):
        find_send_target("nod", SETTINGS)
