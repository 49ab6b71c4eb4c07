"""A link to a network namespace, before any command is run."""

import ipaddress

import pytest

from headrace.lab.errors import NotMeasurableHere
from headrace.lab.remote import (
    ADDRESSES,
    check_elsewhere,
    decide_lack,
    decide_leftovers,
    decide_link,
    decide_steps,
    is_this_host,
)


def test_what_is_made_and_what_takes_it_away() -> None:
    steps = decide_steps(decide_link(7, []))
    assert [" ".join(step.do) for step in steps] == [
        "ip netns add headrace-lab-7",
        "ip link add hr7n type veth peer name hr7f netns headrace-lab-7",
        "ip address add 198.18.0.29/30 dev hr7n",
        "ip -n headrace-lab-7 address add 198.18.0.30/30 dev hr7f",
        "ip link set hr7n up",
        "ip -n headrace-lab-7 link set hr7f up",
        "ip -n headrace-lab-7 link set lo up",
        "tc qdisc add dev hr7n root tbf rate 1gbit burst 256kb latency 25ms",
        "tc -n headrace-lab-7 qdisc add dev hr7f root tbf rate 1gbit burst 256kb latency 25ms",
    ]
    assert [" ".join(step.undo) for step in reversed(steps) if step.undo] == [
        "ip link delete hr7n",
        "ip netns delete headrace-lab-7",
    ]


@pytest.mark.parametrize("owner", [1, 32_768, 4_194_304])
def test_every_process_has_names_and_addresses_that_fit(owner: int) -> None:
    link = decide_link(owner, [])
    assert max(len(link.near), len(link.far)) <= 15
    near, far = (ipaddress.IPv4Address(address) for address in (link.near_address, link.far_address))
    assert near in ADDRESSES
    assert far in ADDRESSES
    assert int(far) == int(near) + 1


def test_addresses_that_are_taken_are_left_alone() -> None:
    first = decide_link(7, [])
    second = decide_link(7, [ipaddress.IPv4Address(first.far_address)])
    assert second.near_address == "198.18.0.33"


def test_the_last_addresses_are_followed_by_the_first() -> None:
    last = decide_link(32_767, [])
    assert last.near_address == "198.19.255.253"
    assert decide_link(32_767, [ipaddress.IPv4Address(last.near_address)]).near_address == "198.18.0.1"


def test_senders_are_begun_at_the_far_end() -> None:
    assert decide_link(7, []).crew.where == "a network namespace over 1 Gbit/s"


@pytest.mark.parametrize(
    ("system", "user_id", "tools", "lack"),
    [
        ("linux", 0, {"ip", "tc"}, None),
        ("darwin", 0, {"ip", "tc"}, "Linux's"),
        ("linux", 0, {"ip"}, "tc of iproute2"),
        ("linux", 0, set(), "ip and tc of iproute2"),
        ("linux", 1000, {"ip", "tc"}, "takes root"),
    ],
)
def test_what_is_missing_is_named(system: str, user_id: int, tools: set[str], lack: str | None) -> None:
    found = decide_lack(system=system, user_id=user_id, find=lambda tool: tool if tool in tools else None)
    assert (found is None) if lack is None else (found is not None and lack in found)


def test_only_what_dead_runs_left_is_taken_away() -> None:
    names = ["headrace-lab-1", "headrace-lab-2", "somebodys", "headrace-lab-x", "my-headrace-lab-2"]
    assert decide_leftovers(names, is_running={1}.__contains__) == ["headrace-lab-2"]


def test_a_cluster_on_this_host_is_not_remote() -> None:
    assert is_this_host("127.0.0.1")
    assert not is_this_host("192.0.2.1")  # RFC 5737's, for documents.
    check_elsewhere("192.0.2.1:9092")
    with pytest.raises(NotMeasurableHere, match=r"^not measurable here: 127.0.0.1:9092 is on this host"):
        check_elsewhere("192.0.2.1:9092, 127.0.0.1:9092")
