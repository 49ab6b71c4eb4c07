"""Workload files: what they mean, and one line for whatever is wrong with them."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.lab.documents import parse_assignment
from headrace.lab.engines import Terms
from headrace.lab.gate import Thresholds
from headrace.lab.load import NOBODY, Load, Share
from headrace.lab.programs import PROGRAMS, Job, Outcome, Program
from headrace.lab.workload import KEYS, parse_workload, read_workload


def workload(**given: Any) -> Any:
    return parse_workload({"rate": "1K", **given}, name="named")


def load(**given: Any) -> Load:
    made: Load = workload(**given).cells[0].load
    return made


def test_a_rate_is_enough() -> None:
    found = workload()
    assert (found.name, found.repeats, found.interleave, found.gate) == ("named", 3, True, Thresholds())
    assert [cell.values for cell in found.cells] == [{}]
    assert (load().warm_up_s, load().measured_s, load().send_s) == (5, 30, 35)


def test_values_are_written_as_people_write_them() -> None:
    made = load(
        rate="2.5K", duration="500ms", warm_up="1500ms", linger="20ms", batch_size="64KiB", buffer="1MB", acks=0
    )
    assert (made.rate, made.measured_s, made.warm_up_s, made.send_s) == (2500, 0.5, 2, 2.5)
    assert made.terms == Terms(acks="0", linger_ms=20, batch_bytes=65_536, buffer_bytes=1_000_000)
    assert load(linger=20, acks=1).terms == Terms(acks="1", linger_ms=20)
    assert load(rate=0.5).rate == 0.5


def test_a_profile_is_less_than_what_is_said_beside_it() -> None:
    assert load(profile="s0", acks="all").terms == Terms(acks="all", linger_ms=0.0)


def test_what_a_sender_is_told() -> None:
    made = load(rate="max", processes=2, payload="random", size="100-300", messages=1000, stagger="1s")
    scenario = made.scenario(topic="t", seed=7)
    assert (scenario.schedule, scenario.rate_per_s, scenario.duration_s, scenario.messages) == (
        "unpaced",
        None,
        None,
        1000,
    )
    assert (scenario.topic, scenario.seed, scenario.stagger_s, made.warm_up_s) == ("t", 7, 1.0, 0)


def test_where_senders_are() -> None:
    assert (load().places, load().has_remote) == (["local"], False)
    mixed = load(sender="local+remote", processes=2)
    assert (mixed.places, mixed.has_remote) == (["local", "remote"], True)
    with pytest.raises(ConfigError, match=r"are 2 places, for processes: 1"):
        load(sender="local+remote")


def test_a_sweep_is_every_combination() -> None:
    found = parse_workload({"sweep": {"rate": ["1K", "2K"], "acks": [0, "all"], "target.brokers": [3]}}, name="n")
    assert [(cell.values["rate"], cell.values["acks"]) for cell in found.cells] == [
        ("1K", 0),
        ("1K", "all"),
        ("2K", 0),
        ("2K", "all"),
    ]
    assert [cell.load.rate for cell in found.cells] == [1000, 1000, 2000, 2000]
    assert found.cells[0].target == {"brokers": 3}


def test_repeats_are_interleaved_unless_told_otherwise() -> None:
    sweep = {"acks": [0, 1]}
    order = [(cell.values["acks"], repeat) for cell, repeat in workload(sweep=sweep, repeats=2).order()]
    assert order == [(0, 0), (1, 0), (0, 1), (1, 1)]
    order = [
        (cell.values["acks"], repeat) for cell, repeat in workload(sweep=sweep, repeats=2, interleave=False).order()
    ]
    assert order == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_limits_of_the_gate() -> None:
    assert workload(gate={"interval": 0.1}).gate == Thresholds(interval=0.1)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"rat": 5}, "there is no key 'rat': did you mean 'rate'?"),
        ({"xyzzy": 5}, "there is no key 'xyzzy': there are name, topic, partitions"),
        ({"rate": None}, "rate is missing: how many messages a second?"),
        ({"rate": 0}, "rate: '0' is not a rate"),
        ({"rate": "fast"}, "rate: 'fast' is not a rate"),
        ({"rate": -5}, "rate: '-5' is not a rate"),
        ({"rate": True}, "rate: True is not a rate"),
        ({"rate": "500M"}, "rate: 500,000,000 messages a second from 1 process(es) is impossible"),
        ({"rate": "max", "schedule": "poisson"}, "rate: max has no schedule"),
        ({"duration": "0s"}, "duration: of 0 s nothing can be told"),
        ({"record": "yes"}, "record: 'yes' is neither true nor false"),
        ({"record": True, "readings": False}, "record: what is recorded is a part of the readings"),
        ({"duration": 30}, "duration: '30' is not a length of time such as 500ms, 30s or 10m"),
        ({"partitions": 0}, "partitions: 0 is not a whole number of 1 or more"),
        ({"partitions": 2.5}, "partitions: 2.5 is not a whole number"),
        ({"partition": 3}, "partition: there is no 3 in a topic of 1"),
        ({"acks": 7}, "acks: 7 is none of 0, 1, all"),
        ({"compressible": 2}, "compressible: 2 is not a number from 0 to 1"),
        ({"read_in_ram": "perhaps"}, "read_in_ram: 'perhaps' is neither true nor false"),
        ({"client": 3}, "client: 3 is not a mapping"),
        ({"file": "/nowhere/at/all"}, "file: there is no file /nowhere/at/all"),
        ({"size": "big"}, "size 'big' is none of"),
        ({"gate": {"intervall": 1}}, "gate: there is no key 'intervall': did you mean 'interval'?"),
        ({"gate": {"interval": 0}}, "gate: interval of 0 lets nothing pass"),
        ({"gate": 3}, "gate: 3 is not a mapping"),
        ({"sweep": {"ack": [1]}}, "sweep: there is no key 'ack': did you mean 'acks'?"),
        ({"sweep": {"rate": [1]}}, "sweep: rate has a value of its own, too"),
        ({"sweep": {"acks": 1}}, "sweep: acks: 1 is not a list"),
        ({"sweep": {"acks": [1, 1]}}, "sweep: acks: [1, 1] has a value twice"),
        ({"sweep": {"acks": [1, 9]}}, "with acks=9: acks: 9 is none of 0, 1, all"),
        ({"sweep": {"repeats": [1]}}, "sweep: there is no key 'repeats'"),
        ({"faults": "explode@5s"}, "faults: 'explode@5s' is not a fault such as"),
        ({"faults": "kill@90s", "duration": "10s"}, "faults: kill@90s comes after the end, 15 s after the start"),
        ({"stagger": "30s", "processes": 3}, "a stagger of 30 s: the last of 3 processes would start after the end"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        workload(**given)
    assert str(raised.value).startswith(why)
    assert "\n" not in str(raised.value)


def test_every_key_is_one_of_the_load_or_of_the_whole() -> None:
    whole = {"name", "repeats", "interleave", "gate", "sweep", "cases", "cold", "attempts"}
    of_a_cell = {"title", "require"}
    assert set(KEYS) - whole - of_a_cell == set(Load.__dataclass_fields__)


def test_a_file_and_what_is_set_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "acks.yaml"
    file.write_text("rate: 1K  # messages a second\nsweep: {acks: [0, all]}\n")
    found = read_workload(file, dict([parse_assignment("rate=2K"), parse_assignment("sweep={linger: [0, 5]}")]))
    assert found.name == "acks"
    assert [(cell.load.rate, cell.values) for cell in found.cells] == [(2000, {"linger": 0}), (2000, {"linger": 5})]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rate: [1", "not YAML: line 1, column 9"),
        ("- rate", "not a mapping"),
        ("", "not a mapping"),
        ("rate: 1K\nduration: soon", "duration: 'soon' is not a length of time"),
        ("rate: !!python/object:os.system x", "not YAML: line 1"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_workload(file)
    assert str(raised.value).startswith(f"{file}: {why}")


def test_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere"):
        read_workload(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("words", ["rate", "=5", "rate=[1"])
def test_an_assignment_that_is_none(words: str) -> None:
    with pytest.raises(ConfigError):
        parse_assignment(words)


# --- Cases, titles and requirements ------------------------------------------------------------------------------


def test_cases_are_cells_that_are_no_grid() -> None:
    found = workload(cases={"few": {"messages": 5}, "many": {"messages": 500, "processes": 2}}, sweep={"acks": [0, 1]})
    assert [cell.values for cell in found.cells] == [
        {"case": "few", "acks": 0},
        {"case": "few", "acks": 1},
        {"case": "many", "acks": 0},
        {"case": "many", "acks": 1},
    ]
    assert [(cell.load.messages, cell.load.processes, cell.load.acks) for cell in found.cells[1:3]] == [
        (5, 1, "1"),
        (500, 2, "0"),
    ]
    assert found.row_name(found.cells[3]) == "named/many/1"


def test_a_title_has_the_values_of_keys_in_it() -> None:
    found = workload(title="{rate} with acks={acks}", sweep={"acks": [0, "all"]})
    assert [cell.title for cell in found.cells] == ["1K with acks=0", "1K with acks=all"]
    assert [cell.title for cell in workload(sweep={"acks": [0]}).cells] == ["named/0"]


def test_a_case_has_its_own_requirements_beside_those_of_all() -> None:
    all_of_them = {"rate_per_s": "at least 2 x kafka", "start_s": "at most 1"}
    found = workload(cases={"a": {}, "b": {"require": {"rate_per_s": "at least 5"}}}, require=all_of_them)
    asked = [[(each.metric, each.bound_text) for each in cell.require] for cell in found.cells]
    assert asked == [
        [("rate_per_s", ">= 2 x kafka"), ("start_s", "<= 1")],
        [("rate_per_s", ">= 5"), ("start_s", "<= 1")],
    ]


def test_a_rate_may_be_a_share_of_another_rows() -> None:
    assert load(rate="12.5% of bulk/one").rate == Share(12.5, "bulk/one")


# --- Programs ----------------------------------------------------------------------------------------------------


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(job: Job) -> Outcome:
        raise AssertionError

    monkeypatch.setitem(PROGRAMS, "sender", Program(send=nothing))
    monkeypatch.setitem(PROGRAMS, "both", Program(send=nothing, consuming=nullcontext, exchange=nothing))  # type: ignore[arg-type]


@pytest.mark.usefixtures("programs")
def test_a_program_is_an_engine() -> None:
    made = load(engine="sender", rate="max", messages=5, size=100)
    assert made.is_by_program
    assert not made.is_exchange
    assert load(engine="both", consumer_engine="both", groups=1, rate="1K", duration="5s").is_exchange
    assert not load(engine="both", consumer_engine="both", groups=2, rate="max", messages=5).is_exchange
    assert not load(
        engine="both", consumer_engine="both", groups=1, rate="max", messages=5, consume="after"
    ).is_exchange


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"engine": "sender", "rate": "max"}, "messages is missing"),
        ({"engine": "sender", "messages": 5}, "engine: sender does not send without consuming, or not at a rate"),
        ({"engine": "sender", "rate": "max", "messages": 5, "size": "1-9"}, "size: '1-9'; what a program sends"),
        ({"engine": "sender", "rate": "max", "messages": 5, "groups": 1}, "consumer_engine: what sender sends"),
        (
            {"engine": "sender", "rate": "max", "messages": 5, "groups": 1, "consumer_engine": "sender"},
            "consumer_engine: sender does not consume",
        ),
        ({"consumer_engine": "both", "groups": 1}, "consumer_engine: both consumes what a program has sent"),
        (
            {"engine": "sender", "rate": "max", "messages": 5, "record": True},
            "record: only the lab.s own engines are read",
        ),
        ({"engine": "none", "record": True}, "record: only the lab.s own engines are read, and none is none"),
        ({"cases": {"a": {"repeats": 2}}}, "cases: a: repeats is of all cases"),
        ({"cases": {"a": 1}}, "cases: .* is not a mapping of names"),
        ({"require": {"rate_per_s": "fast"}}, "require: rate_per_s: 'fast' is not"),
        ({"title": "{acks} of it"}, "title: 'acks' is no key that is set"),
    ],
)
def test_what_programs_and_cases_cannot_be_is_told(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        workload(**given)


def test_nobody_sends_nothing() -> None:
    (cell,) = parse_workload({"engine": "none"}, name="idle").cells
    assert cell.load.engine == NOBODY
