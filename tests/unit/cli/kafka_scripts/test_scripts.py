"""Every script: mistyped command lines are one line and status 1, and ask no broker."""

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from headrace.cli.kafka_scripts import (
    configs,
    console_consumer,
    console_producer,
    consumer_perf,
    e2e_latency,
    groups,
    producer_perf,
    topics,
)
from headrace.cli.kafka_scripts.script import Script, left_aligned, status_of

SCRIPTS: dict[str, Script] = {
    module.SCRIPT.name: module.SCRIPT
    for module in (
        configs,
        console_consumer,
        console_producer,
        consumer_perf,
        e2e_latency,
        groups,
        producer_perf,
        topics,
    )
}
NOBODY = "--bootstrap-server 127.0.0.1:1"
PRODUCER_PERF = "kafka-producer-perf-test --topic t --throughput -1 --num-records 9 --record-size 5"


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_help_and_version(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(script, ["--help"]) == status_of(script, []) == 0
    assert f"{script.name}: {script.about}" in capsys.readouterr().out
    assert status_of(script, ["--version"]) == 0
    assert capsys.readouterr().out.startswith("headrace ")


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_table_names_each_flag_once_and_says_what_it_does(script: Script) -> None:
    flags = (*script.common, *script.flags)
    assert len({flag.name for flag in flags}) == len(flags)
    for flag in flags:
        assert sum(map(bool, (flag.help, flag.refused, flag.ignored))) == 1, flag.name


def test_each_script_is_a_command() -> None:
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    doors = {name: door for name, door in project["scripts"].items() if name.startswith("kafka-")}
    assert doors.keys() == SCRIPTS.keys()
    for door in doors.values():
        module, _, function = door.partition(":")
        assert callable(getattr(import_module(module), function))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("kafka-topics --list", "--bootstrap-server is missing"),
        (f"kafka-topics {NOBODY}", "exactly one of --list, --create"),
        (f"kafka-topics {NOBODY} --list --create", "exactly one of"),
        (f"kafka-topics {NOBODY} --create", "--topic is missing"),
        (f"kafka-topics {NOBODY} --list --config a=b", "--config does not go with --list"),
        (f"kafka-topics {NOBODY} --delete --topic t --delete-config c", "--delete-config is not supported here"),
        (f"kafka-topics {NOBODY} --zookeeper z", "--zookeeper is not a flag"),
        (f"kafka-topics {NOBODY} --create --topic t --partitions many", "--partitions 'many' is not a whole number"),
        (f"kafka-consumer-groups {NOBODY}", "exactly one of --list, --describe"),
        (f"kafka-consumer-groups {NOBODY} --describe", "--group, or --all-groups"),
        (f"kafka-consumer-groups {NOBODY} --describe --group g --members --state", "exactly one of --members"),
        (f"kafka-consumer-groups {NOBODY} --describe --group g --state stable", "does not take a value"),
        (f"kafka-consumer-groups {NOBODY} --list --state asleep", "'asleep' is no state"),
        (f"kafka-consumer-groups {NOBODY} --list --group g", "--group does not go with --list"),
        (f"kafka-consumer-groups {NOBODY} --reset-offsets --group g --all-topics", "exactly one of --to-offset"),
        (f"kafka-consumer-groups {NOBODY} --reset-offsets --group g --to-latest", "--all-topics, or --topic"),
        (f"kafka-consumer-groups {NOBODY} --delete-offsets --group g", "needs --group and --topic"),
        (f"kafka-configs {NOBODY} --describe", "--entity-type is missing"),
        (f"kafka-configs {NOBODY} --describe --entity-type users", "--entity-type users is not supported"),
        (f"kafka-configs {NOBODY} --describe --user u", "--user is not supported here"),
        (f"kafka-configs {NOBODY} --describe --broker one", "must be a valid integer"),
        (f"kafka-configs {NOBODY} --alter --topic t", "needs --add-config"),
        (f"kafka-configs {NOBODY} --alter --entity-type topics --add-config a=b", "needs --entity-name"),
        (f"kafka-configs {NOBODY} --describe --topic t --add-config a=b", "--describe changes nothing"),
        (f"kafka-configs {NOBODY} --describe --entity-type topics --entity-default", "with --entity-type brokers"),
        (f"kafka-configs {NOBODY} --describe --broker-defaults --entity-name 1", "--broker-defaults already says"),
        ("kafka-consumer-groups --validate-regex (a", "The regular expression `(a` is invalid: missing ): (a."),
        ("kafka-consumer-groups --validate-regex (?=a)", "is invalid: invalid perl operator"),
        ("kafka-console-producer --topic t", "--bootstrap-server is missing"),
        (f"kafka-console-producer {NOBODY}", "--topic is missing"),
        (f"kafka-console-producer {NOBODY} --topic t --line-reader Mine", "--line-reader Mine"),
        (f"kafka-console-producer {NOBODY} --topic t --property parse.keys=true", "parse.keys"),
        (f"kafka-console-producer {NOBODY} --topic t --request-required-acks 2", "--request-required-acks '2'"),
        (f"kafka-console-consumer {NOBODY}", "exactly one of --topic, --include"),
        (f"kafka-console-consumer {NOBODY} --topic t --formatter Mine", "--formatter Mine"),
        (f"kafka-console-consumer {NOBODY} --topic t --offset 5", "--offset needs --partition"),
        (f"kafka-console-consumer {NOBODY} --topic t --partition 0 --offset -5", "--offset '-5'"),
        (f"kafka-console-consumer {NOBODY} --topic t --partition 0 --group g", "exclude each other"),
        (f"{PRODUCER_PERF}", "--bootstrap-server is missing, and no bootstrap.servers is among the settings"),
        (f"{PRODUCER_PERF} {NOBODY} --broker-list b:1", "exactly one of --bootstrap-server, --broker-list"),
        (f"{PRODUCER_PERF} {NOBODY} --messages 5", "exactly one of --num-records, --messages"),
        (f"{PRODUCER_PERF} {NOBODY} --payload-monotonic", "exactly one of --record-size, --payload-file"),
        (f"{PRODUCER_PERF} {NOBODY} --warmup-records 9", "--warmup-records 9 must be fewer than the 9 records"),
        (f"{PRODUCER_PERF} {NOBODY} --reporting-interval 0", "--reporting-interval 0 is below 1"),
        (f"{PRODUCER_PERF} {NOBODY} --transaction-duration-ms 0", "--transaction-duration-ms 0 is below 1"),
        (f"{PRODUCER_PERF} {NOBODY} --producer-props acks", "--producer-props 'acks' is not KEY=VALUE"),
        (f"{PRODUCER_PERF} {NOBODY} --producer-props", "--producer-props needs a value"),
        (f"{PRODUCER_PERF} {NOBODY} --producer-props acks=1 partitioner.class=P", "partitioner.class=P is not"),
        (f"{PRODUCER_PERF} {NOBODY} --producer-props no.such.setting=1", "no.such.setting"),
        (f"{PRODUCER_PERF} {NOBODY} --producer.config /no/such/file", "cannot read /no/such/file"),
        (f"kafka-producer-perf-test {NOBODY} --topic t", "--throughput is missing"),
        (f"kafka-producer-perf-test {NOBODY} --topic t --throughput fast", "--throughput 'fast' is not a number"),
        (f"kafka-producer-perf-test {NOBODY} --topic t --throughput 0", "--throughput 0 would send nothing"),
        (f"kafka-producer-perf-test {NOBODY} --throughput 1 --num-records 1 --record-size 1", "--topic is missing"),
        (f"kafka-producer-perf-test {NOBODY} --topic t --throughput -1 --num-records 0", "--num-records 0 is below 1"),
        ("kafka-consumer-perf-test --topic t --messages 1", "--bootstrap-server is missing"),
        (f"kafka-consumer-perf-test {NOBODY} --messages 1", "exactly one of --topic, --include"),
        (f"kafka-consumer-perf-test {NOBODY} --topic t", "exactly one of --num-records, --messages"),
        (f"kafka-consumer-perf-test {NOBODY} --include ( --messages 1", "--include '(' is not a regular expression"),
        (f"kafka-consumer-perf-test {NOBODY} --topic t --messages 1 --zookeeper z", "--zookeeper is not supported"),
        (f"kafka-consumer-perf-test {NOBODY} --topic t --messages 1 --date-format b", "'b' is not supported here"),
        (f"kafka-consumer-perf-test {NOBODY} --topic t --messages 1 --fetch-size 0", "--fetch-size 0 is below 1"),
        (f"kafka-consumer-perf-test {NOBODY} --topic t --messages 1 --command-property a.b=c", "a.b"),
        ("kafka-e2e-latency 127.0.0.1:1 t 10 1", "4 words without flags are not 5 or 6"),
        ("kafka-e2e-latency 127.0.0.1:1 t 10 0 20", "--producer-acks 0"),
        ("kafka-e2e-latency 127.0.0.1:1 t 0 1 20", "--num-records 0 is below 1"),
        (f"kafka-e2e-latency {NOBODY} --topic t --num-records 1 --producer-acks 1", "--record-size is missing"),
        (f"kafka-e2e-latency {NOBODY} --topic t --num-records 1 --producer-acks all --record-size -1", "is below 0"),
    ],
)
def test_a_mistyped_line_is_told_in_one_line(line: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *arguments = line.split()
    assert status_of(SCRIPTS[name], arguments) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert complaint in told.err
    assert told.err.splitlines()[-1].startswith(f"{name}: ")


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert left_aligned([("A", "B", "C"), ("long", 1, "x y")], [2, 3]) == ["A    B   C", "long 1   x y"]


def test_the_latency_test_may_be_called_without_flags() -> None:
    flags = "--bootstrap-server b:1 --topic t --num-records 10 --producer-acks 1 --record-size 20".split()
    assert e2e_latency.spell_out(["b:1", "t", "10", "1", "20"]) == flags
    assert e2e_latency.spell_out(["b:1", "t", "10", "1", "20", ""]) == flags
    assert e2e_latency.spell_out(["b:1", "t", "10", "1", "20", "f"]) == [*flags, "--command-config", "f"]
    assert e2e_latency.spell_out(flags) == flags
