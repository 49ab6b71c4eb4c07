"""Another host on this one: a network namespace at the far end of a link of 1 Gbit/s.

    with link() as there:
        with NodeProcess(data, listen=f"{there.near_address}:9092") as node:
            Senders(scenario, {"bootstrap.servers": node.bootstrap}, crew=there.crew)

What a sender on a second machine meets is an interface of its own, addresses, and a link that takes no more than its
rate. A pair of virtual interfaces with a token bucket at each end is that, and loopback is not: nothing between two
processes on one host is slower than memory. CPU and memory remain shared.

Needs Linux, root, and iproute2's `ip` and `tc`; where something is missing it is `NotMeasurableHere`. The commands are
decided before any is run. Whatever was made is taken away again, and what a run left behind that was killed is taken
away by the next.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final, NamedTuple

from headrace.lab.crew import Processes
from headrace.lab.errors import LabError, NotMeasurableHere
from headrace.lab.readings.sockets import is_here

RATE: Final = "1gbit"
# As much as may go at once, and how long something may wait for its turn: a few of the kernel's largest segments, and
# what a switch would hold.
_BURST: Final = "256kb"
_QUEUE: Final = "25ms"
# RFC 2544's, for tests of network devices: no network that somebody uses has these addresses.
ADDRESSES: Final = IPv4Network("198.18.0.0/15")
_PREFIX: Final = 30
_TOOLS: Final = ("ip", "tc")
_COMMAND_S: Final = 20.0
_NAME: Final = re.compile(r"headrace-lab-(\d+)")
_INTERFACES: Final = Path("/sys/class/net")
_HERE: Final = "on this host"
_WITHIN: Final = ("bridge", "veth")  # Kinds of interfaces that connect what is on one host.
_TUNNELS: Final = ("vxlan", "geneve", "gretap", "ip6gretap")  # And those that take a bridge's frames to another.

Command = tuple[str, ...]


class Step(NamedTuple):
    do: Command
    undo: Command | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    namespace: str
    near: str  # The interface on this host's side, and the one on the other.
    far: str
    near_address: str  # Where a broker must listen.
    far_address: str
    rate: str = RATE

    @property
    def crew(self) -> Processes:
        """Senders at the far end."""
        there = f"a network namespace over {self.rate.removesuffix('gbit')} Gbit/s"
        return Processes(wrapper=("ip", "netns", "exec", self.namespace), where=there)


def decide_link(owner: int, taken: Collection[IPv4Address]) -> Link:
    """For the process with this number, with addresses that are not taken."""
    nets = list(ADDRESSES.subnets(new_prefix=_PREFIX))
    first = owner % len(nets)
    for net in nets[first:] + nets[:first]:
        if not any(address in net for address in taken):
            near, far = net.hosts()
            return Link(
                namespace=f"headrace-lab-{owner}",
                near=f"hr{owner}n",  # No more than 15 letters.
                far=f"hr{owner}f",
                near_address=str(near),
                far_address=str(far),
            )
    raise NotMeasurableHere(f"all addresses of {ADDRESSES} are taken")


def decide_steps(link: Link) -> list[Step]:
    """What makes it, and in the opposite order what takes it away."""
    inside = ("-n", link.namespace)
    bucket = ("root", "tbf", "rate", link.rate, "burst", _BURST, "latency", _QUEUE)
    return [
        Step(("ip", "netns", "add", link.namespace), ("ip", "netns", "delete", link.namespace)),
        Step(
            ("ip", "link", "add", link.near, "type", "veth", "peer", "name", link.far, "netns", link.namespace),
            ("ip", "link", "delete", link.near),
        ),
        Step(("ip", "address", "add", f"{link.near_address}/{_PREFIX}", "dev", link.near)),
        Step(("ip", *inside, "address", "add", f"{link.far_address}/{_PREFIX}", "dev", link.far)),
        Step(("ip", "link", "set", link.near, "up")),
        Step(("ip", *inside, "link", "set", link.far, "up")),
        Step(("ip", *inside, "link", "set", "lo", "up")),
        # Each end has its own, as each direction of a cable does.
        Step(("tc", "qdisc", "add", "dev", link.near, *bucket)),
        Step(("tc", *inside, "qdisc", "add", "dev", link.far, *bucket)),
    ]


def decide_lack(*, system: str, user_id: int, find: Callable[[str], str | None]) -> str | None:
    """What there is not here that it takes; None where nothing is missing."""
    if system != "linux":
        return f"network namespaces are Linux's, and this is {system}"
    if missing := [tool for tool in _TOOLS if find(tool) is None]:
        return f"{' and '.join(missing)} of iproute2 missing (apt-get install iproute2)"
    if user_id != 0:
        return "making a network namespace takes root"
    return None


def decide_leftovers(namespaces: Collection[str], *, is_running: Callable[[int], bool]) -> list[str]:
    """Those of runs that are not there any more."""
    found = ((name, _NAME.fullmatch(name)) for name in namespaces)
    return [name for name, match in found if match is not None and not is_running(int(match[1]))]


@contextmanager
def link() -> Iterator[Link]:
    """Made, and taken away whatever happens; NotMeasurableHere where it cannot be made."""
    if lack := decide_lack(system=sys.platform, user_id=os.geteuid(), find=shutil.which):
        raise NotMeasurableHere(lack)
    for name in decide_leftovers(_namespaces(), is_running=lambda pid: Path(f"/proc/{pid}").exists()):
        _run(("ip", "netns", "delete", name))  # Its interfaces go with it.
    made = decide_link(os.getpid(), _taken_addresses())
    undo: list[Command] = []
    try:
        for step in decide_steps(made):
            if trouble := _run(step.do):
                raise NotMeasurableHere(f"{' '.join(step.do)}: {trouble}")
            if step.undo is not None:
                undo.append(step.undo)
        yield made
    except BaseException:
        _take_away(undo)
        raise
    if troubles := _take_away(undo):
        raise LabError(f"could not be taken away: {'; '.join(troubles)}")


def _take_away(undo: Sequence[Command]) -> list[str]:
    return [f"{' '.join(command)}: {trouble}" for command in reversed(undo) if (trouble := _run(command))]


# --- Whether a cluster is on another host ----------------------------------------------------------------------------


class Way(NamedTuple):
    """How what is sent to an address goes, as far as this host knows."""

    device: str
    is_local: bool  # To an address of this host's own.
    has_gateway: bool  # And what lies behind that is not known.
    kind: str  # Of a virtual interface: bridge, veth; nothing of a device.
    has_device: bool  # It is one, or there is one below it, or a tunnel.
    is_from_host: bool = True  # Of the interfaces here at least one is a device: of a container's none is.


def check_elsewhere(servers: Iterable[str]) -> None:
    """NotMeasurableHere for a HOST:PORT on this host: it is no remote one, and a namespace would not reach it."""
    for server in servers:
        host = server.strip().rpartition(":")[0].strip("[]")
        if (here := where_here(host)) is not None:
            raise NotMeasurableHere(f"{server.strip()} is {here}; --to node starts one at the end of a link")


def where_here(host: str) -> str | None:
    """Where on this host it is; None where it is elsewhere, or nobody knows."""
    if is_here(host):
        return _HERE
    try:
        found = {str(address[0]) for *_, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)}
    except OSError:
        return None  # Whoever connects will tell.
    return next((here for address in sorted(found) if (here := decide_here(_way_to(address))) is not None), None)


def decide_here(way: Way | None) -> str | None:
    """A container or a virtual machine of this host has an address that cannot be listened on here, and yet nothing on
    the way to it is slower than memory: it hangs on a bridge that no device is a part of, or at the other end of a pair
    of virtual interfaces. Behind a gateway, or a bridge with a device or a tunnel in it, it may be anywhere; and so it
    may behind a container's own end of such a pair, of which nobody in there sees the other."""
    if way is None:
        return None
    if way.is_local:
        return _HERE
    if way.kind == "veth" and not way.is_from_host:
        return None
    if way.kind in _WITHIN and not way.has_gateway and not way.has_device:
        return f"{_HERE}, at {way.device}, a {way.kind} without a device"
    return None


def parse_way(route: str, kinds: Mapping[str, str], *, has_device: bool, is_from_host: bool = True) -> Way | None:
    """What `ip -j route get` says; None where that is nothing."""
    try:
        [told] = json.loads(route)
        return Way(
            device=told["dev"],
            is_local=told.get("type") == "local",
            has_gateway="gateway" in told or "via" in told,
            kind=kinds.get(told["dev"], ""),
            has_device=has_device,
            is_from_host=is_from_host,
        )
    except (ValueError, KeyError, TypeError):
        return None  # An address that nothing leads to.


def parse_kinds(links: str) -> dict[str, str]:
    """Of virtual interfaces, by their names: what `ip -j -d link show` says."""
    try:
        return {
            one["ifname"]: one["linkinfo"]["info_kind"]
            for one in json.loads(links)
            if "info_kind" in one.get("linkinfo", {})
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def stands_on_device(interface: Path, kinds: Mapping[str, str]) -> bool:
    """Of /sys/class/net: whether it is a device or a tunnel, or one is below it, as below a bridge, bond or VLAN."""
    if (interface / "device").exists() or kinds.get(interface.name.removeprefix("lower_")) in _TUNNELS:
        return True
    return any(stands_on_device(below, kinds) for below in interface.glob("lower_*"))


def _way_to(address: str) -> Way | None:
    """None also off Linux, and without iproute2."""
    route = _output("ip", "-j", "route", "get", address)
    device = next(iter(re.findall(r'"dev":"([^"]+)"', route)), None)
    if device is None:
        return None
    kinds = parse_kinds(_output("ip", "-j", "-d", "link", "show"))
    has_device = stands_on_device(_INTERFACES / device, kinds)
    return parse_way(route, kinds, has_device=has_device, is_from_host=any(_INTERFACES.glob("*/device")))


# --- Commands --------------------------------------------------------------------------------------------------------


def _run(command: Sequence[str]) -> str | None:
    """What went wrong."""
    try:
        # A group of its own: Ctrl-C must not cut off what takes things away.
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, check=False, process_group=0)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if ran.returncode == 0:
        return None
    return (ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"])[-1]


def _output(*command: str) -> str:
    """Nothing of a command that there is not."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, check=False).stdout
    except FileNotFoundError:
        return ""


def _namespaces() -> list[str]:
    """`ip netns list` has a number behind some of the names."""
    return [line.split()[0] for line in _output("ip", "netns", "list").splitlines() if line.strip()]


def _taken_addresses() -> list[IPv4Address]:
    """`ip -o -4 address` has 'inet 10.0.0.1/24' in each line."""
    return [IPv4Address(found) for found in re.findall(r"inet ([\d.]+)", _output("ip", "-o", "-4", "address"))]
