"""A link to a network namespace, before any command is run."""

import ipaddress
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.errors import NotMeasurableHere
from headrace.lab.remote import (
    ADDRESSES,
    Way,
    check_elsewhere,
    decide_here,
    decide_lack,
    decide_leftovers,
    decide_link,
    decide_steps,
    parse_kinds,
    parse_way,
    stands_on_device,
    where_here,
)
from headrace.lab.targets.running import check_remote
from headrace.lab.targets.spec import find_target


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
    assert where_here("127.0.0.1") == "on this host"
    assert where_here("192.0.2.1") is None  # RFC 5737's, for documents.
    check_elsewhere(["192.0.2.1:9092"])
    with pytest.raises(NotMeasurableHere, match=r"^not measurable here: 127.0.0.1:9092 is on this host; --to node"):
        check_elsewhere(["192.0.2.1:9092", " 127.0.0.1:9092"])


def test_without_the_tools_only_own_addresses_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert where_here("127.0.0.1") == "on this host"
    assert where_here("192.0.2.1") is None


def way(**told: Any) -> Way:
    """To a container, if nothing else is said."""
    usual = Way(device="docker0", is_local=False, has_gateway=False, kind="bridge", has_device=False)
    return usual._replace(**told)


@pytest.mark.parametrize(
    ("told", "here"),
    [
        ({}, "on this host, at docker0, a bridge without a device"),
        ({"device": "vethab12", "kind": "veth"}, "on this host, at vethab12, a veth without a device"),
        ({"is_local": True, "device": "lo", "kind": ""}, "on this host"),
        ({"kind": "", "device": "eth0", "has_device": True}, None),
        # A host of virtual machines has its own device in the bridge, and others are behind it.
        ({"has_device": True, "device": "br0"}, None),
        # From inside a container everybody else is behind the gateway.
        ({"kind": "veth", "device": "eth0", "has_gateway": True}, None),
        # And beside it, at the other end of its own interface, may be what an overlay network brings from anywhere.
        ({"kind": "veth", "device": "eth0", "is_from_host": False}, None),
        ({"is_from_host": False}, "on this host, at docker0, a bridge without a device"),
        ({"kind": "tun", "device": "tun0"}, None),
        ({"kind": "vlan", "device": "eth0.7", "has_device": True}, None),
    ],
)
def test_a_container_of_this_host_is_not_remote(told: dict[str, Any], here: str | None) -> None:
    assert decide_here(way(**told)) == here


def test_what_nobody_knows_the_way_to_is_not_here() -> None:
    assert decide_here(None) is None


def test_ways_as_iproute2_tells_them() -> None:
    told = '[{"ifname":"lo"},{"ifname":"docker0","link_type":"ether","linkinfo":{"info_kind":"bridge","info_data":{}}}]'
    bridge = parse_kinds(told)
    assert bridge == {"docker0": "bridge"}
    route = '[{"dst":"172.17.0.2","dev":"docker0","prefsrc":"172.17.0.1","flags":[],"uid":0,"cache":[]}]'
    assert parse_way(route, bridge, has_device=False) == way()
    device = parse_kinds('[{"ifname":"eth0","link_type":"ether","parentbus":"virtio"}]')
    beyond = '[{"dst":"1.1.1.1","gateway":"192.0.2.1","dev":"eth0","prefsrc":"192.0.2.2","flags":[],"cache":[]}]'
    expected = Way(device="eth0", is_local=False, has_gateway=True, kind="", has_device=True)
    assert parse_way(beyond, device, has_device=True) == expected
    across = '[{"dst":"10.1.1.1","via":{"family":"inet6","host":"fe80::1"},"dev":"eth0"}]'  # IPv4 by way of IPv6.
    assert parse_way(across, device, has_device=True) == expected
    own = '[{"type":"local","dst":"127.0.0.1","dev":"lo","prefsrc":"127.0.0.1","cache":["local"]}]'
    assert parse_way(own, {}, has_device=False) == Way(
        device="lo", is_local=True, has_gateway=False, kind="", has_device=False
    )


@pytest.mark.parametrize("route", ["", "[]", "[{}]", "not JSON"])
def test_what_iproute2_does_not_know_is_no_way(route: str) -> None:
    assert parse_way(route, {}, has_device=False) is None


@pytest.mark.parametrize("links", ["", "[]", "not JSON", "[1]", '[{"linkinfo":{"info_kind":"bridge"}}]'])
def test_of_what_iproute2_does_not_know_there_is_no_kind(links: str) -> None:
    assert parse_kinds(links) == {}


def test_what_stands_on_a_device(tmp_path: Path) -> None:
    def interface(name: str, *below: str, is_device: bool = False) -> Path:
        made = tmp_path / name
        made.mkdir()
        if is_device:
            (made / "device").mkdir()
        for each in below:
            (made / f"lower_{each}").symlink_to(tmp_path / each)
        return made

    eth0, veth = interface("eth0", is_device=True), interface("veth1")
    assert stands_on_device(eth0, {})
    assert not stands_on_device(veth, {"veth1": "veth"})
    assert not stands_on_device(interface("docker0", "veth1"), {"docker0": "bridge", "veth1": "veth"})
    assert stands_on_device(interface("bond0", "eth0"), {"bond0": "bond"})
    assert stands_on_device(interface("br0", "veth1", "bond0"), {})
    assert not stands_on_device(tmp_path / "gone", {})
    # Frames of an overlay network leave a bridge by a tunnel, which is no device and has none below it.
    interface("vx0")
    overlay = interface("br1", "veth1", "vx0")
    for kind in ("vxlan", "geneve", "gretap", "ip6gretap"):
        assert stands_on_device(overlay, {"br1": "bridge", "veth1": "veth", "vx0": kind})
    assert not stands_on_device(overlay, {"br1": "bridge", "veth1": "veth", "vx0": "veth"})


def test_where_brokers_say_that_they_are_counts_too() -> None:
    """Whatever the cluster is called, what is sent goes to the addresses that its brokers tell."""
    named = find_target("198.51.100.1:9092")
    check_remote(named, advertised=lambda spec: ["203.0.113.1:9092"])
    with pytest.raises(NotMeasurableHere, match=r"127.0.0.1:9093 is on this host"):
        check_remote(named, advertised=lambda spec: ["203.0.113.1:9092", "127.0.0.1:9093"])
    # Whoever is named to be here is not asked.
    with pytest.raises(NotMeasurableHere, match=r"127.0.0.1:1 is on this host"):
        check_remote(find_target("127.0.0.1:1"), advertised=lambda spec: pytest.fail("asked"))
