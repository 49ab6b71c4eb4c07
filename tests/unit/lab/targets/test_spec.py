"""Target files: what they mean, and one line for whatever is wrong with them."""

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.lab.targets.spec import BUILT_IN, find_target, parse_target


def test_built_in_names_addresses_and_files(tmp_path: Path) -> None:
    assert {find_target(name).kind for name in BUILT_IN} == {"node", "kafka", "null"}
    assert find_target("kafka-3").brokers == 3
    assert find_target("a.example:9092,b.example:9093").bootstrap == "a.example:9092,b.example:9093"
    file = tmp_path / "big.yaml"
    file.write_text(
        "kind: kafka\nbrokers: 3\nheap: 2G\nproperties: {num.io.threads: 4, auto.create.topics.enable: false}\n"
    )
    found = find_target(str(file))
    assert (found.name, found.brokers, found.heap) == ("big", 3, "2G")
    assert found.properties == {"num.io.threads": "4", "auto.create.topics.enable": "false"}


def test_a_sweep_may_change_it() -> None:
    found = find_target("kafka").with_changes({"brokers": 3})
    assert (found.name, found.brokers) == ("kafka", 3)
    with pytest.raises(ConfigError, match="did you mean 'brokers'"):
        find_target("kafka").with_changes({"broker": 3})


def test_passwords_are_not_shown() -> None:
    made = parse_target(
        {"kind": "cluster", "bootstrap": "h:1", "client": {"sasl.password": "x", "sasl.username": "u"}}, name="n"
    )
    assert made.client["sasl.password"] == "x"
    assert made.to_json()["client"] == {"sasl.password": "***", "sasl.username": "u"}
    assert "'x'" not in repr(made)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "kind is missing: one of node, cluster, kafka, null"),
        ({"kind": "kafke"}, "'kafke' is none of node, cluster, kafka, null"),
        ({"kind": "kafka", "broker": 3}, "there is no key 'broker': did you mean 'brokers'?"),
        ({"kind": "node", "brokers": 3}, "a target of kind node has no key 'brokers': it has properties"),
        ({"kind": "kafka", "brokers": 99}, "brokers: 99 brokers on one machine are too many"),
        ({"kind": "kafka", "heap": "much"}, "heap: 'much' is not a heap such as 512M or 1G"),
        ({"kind": "cluster"}, "bootstrap is missing"),
        ({"kind": "cluster", "bootstrap": "here"}, "bootstrap: 'here' is not HOST:PORT"),
        ({"kind": "null", "limit": "slow"}, "limit: 'slow' is not a rate"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_target(given, name="n")
    assert str(raised.value).startswith(why)


def test_a_target_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no target 'kafka3': it is one of node, kafka, kafka-3, null"):
        find_target("kafka3")
    file = tmp_path / "wrong.yaml"
    file.write_text("kind: nodes\n")
    with pytest.raises(ConfigError, match=r"wrong\.yaml: 'nodes' is none of"):
        find_target(str(file))
