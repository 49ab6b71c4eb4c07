"""Whether a workload can be run on a target: the one place where the two meet before anything is measured."""

import math
import shutil
import tempfile
from collections.abc import Callable
from itertools import islice
from statistics import fmean
from typing import Final

from headrace.lab.errors import LabError, NotMeasurableHere
from headrace.lab.load import NOBODY, Load, Share
from headrace.lab.readings.sampler import can_read
from headrace.lab.remote import link
from headrace.lab.sender_places import LOCAL
from headrace.lab.targets.running import Target, check_remote
from headrace.lab.targets.spec import TargetSpec

_RETENTION: Final = "retention.bytes"
_SAMPLE: Final = 200  # Messages, of which the mean size is taken.
_FULL_SHARE: Final = 0.9  # Of what is free: the rest is for others.


def check_load(load: Load, spec: TargetSpec, *, is_search: bool = False) -> None:
    """LabError for what such a target cannot do, before it is started."""
    if load.groups and spec.kind == "null":
        raise LabError("groups: a null sink keeps nothing, so there is nothing to consume")
    if load.is_by_program and spec.kind == "null":
        raise LabError(f"engine: a null sink keeps nothing, and {load.engine} looks whether all it sent is there")
    if load.is_by_program and (load.has_remote or load.faults or is_search):
        raise LabError(f"engine: {load.engine} is told all of its work at once: no faults, no link, no search")
    if load.restart and not spec.has_own_brokers:
        raise LabError(f"restart: {spec.name} is no broker that is started here")
    if load.faults and spec.kind in ("cluster", "null"):
        raise LabError(f"faults: {spec.name} is no broker that is started here, so nothing can be done to it")
    if load.has_remote and any(fault.kind == "cut" for fault in load.faults):
        raise LabError("faults: what cuts a broker off is no part of a remote sender's link; kill or pause it")
    if load.record:
        _check_record(load, spec, is_search=is_search)
    if spec.has_own_brokers:
        if (load.replication or 1) > spec.brokers:
            raise LabError(
                f"replication: {load.replication} replicas need as many brokers, and {spec.name} has {spec.brokers}"
            )
        names = ["node"] if spec.kind == "node" else [f"broker{number}" for number in range(1, spec.brokers + 1)]
        for word in (load.broker, *(fault.broker for fault in load.faults)):
            _check_name(word, names)
        if spec.brokers > 1 and any(fault.broker is None for fault in load.faults):
            raise LabError(f"faults: which broker? There are {', '.join(names)}")
    if isinstance(load.rate, Share):
        raise LabError(f"rate: {load.rate.percent:g}% of {load.rate.row} is known in a race alone")
    if is_search and load.messages is not None:
        raise LabError("messages: a search goes by time, so leave it out")
    if is_search and load.schedule == "replay":
        raise LabError("schedule: a replay has its own rate, so there is none to search for")


def _check_record(load: Load, spec: TargetSpec, *, is_search: bool) -> None:
    if not spec.has_own_brokers:
        raise LabError(f"record: clients of {spec.name} go where its brokers tell them to, and not through a proxy")
    if load.has_remote:
        raise LabError("record: what counts requests is no part of a remote sender's link")
    if is_search:
        raise LabError("record: a search reads nothing, so there is nothing to record")
    if not can_read():
        raise LabError("record: what is recorded is a part of the readings, which come from /proc: there is none here")


def lack_of(load: Load, spec: TargetSpec, *, check: Callable[[TargetSpec], None] = check_remote) -> str | None:
    """What it takes that this machine has not; None where all is there."""
    if not load.has_remote:
        return None
    try:
        if spec.bootstrap is not None:
            check(spec)
            if LOCAL in load.places:
                return f"the brokers of {spec.name} are on another host, where no sender can be started from here"
        else:
            with link():
                pass
    except NotMeasurableHere as error:
        return error.reason
    return None


def check_room(load: Load, spec: TargetSpec, *, free_bytes: int | None = None) -> None:
    """LabError where a broker that is started here would fill its disk in the middle of a repeat."""
    if not spec.has_own_brokers or _RETENTION in load.topic_config:
        return
    if (size_bytes := written_bytes(load)) is None:
        return
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free if free_bytes is None else free_bytes
    if size_bytes > _FULL_SHARE * free:
        raise LabError(
            f"a repeat would write some {size_bytes / 2**30:.1f} GiB to {directory}, where {free / 2**30:.1f} GiB are "
            f"left: shorten it, or set topic_config: {{{_RETENTION}: ...}}"
        )


def written_bytes(load: Load) -> float | None:
    """What a repeat adds to the logs at most, of values alone; None where that is not known before."""
    if load.engine == NOBODY:
        return 0.0
    messages = load.rate * load.send_s if isinstance(load.rate, float) else math.inf
    if load.messages is not None and (not load.is_by_program or not isinstance(load.rate, float)):
        messages = min(messages, load.messages)  # Which a program at a rate does not ask for.
    return messages * _mean_bytes(load) * (load.replication or 1) if math.isfinite(messages) else None


def _mean_bytes(load: Load) -> float:
    if load.is_by_program:
        return float(load.size)
    payload = load.scenario(topic=load.topic, seed=load.seed).payload
    return fmean(map(len, islice(payload.once(load.seed), _SAMPLE)))


def _check_name(word: str | None, names: list[str]) -> None:
    if word is not None and not word.isdigit() and word not in names:  # Ids are known once it runs.
        raise LabError(f"there is no broker {word!r}; there are {', '.join(names)}")


def check_brokers(load: Load, target: Target) -> None:
    """LabError for brokers that are named and not there, once it runs."""
    if load.broker is not None:
        target.member(load.broker)
    for fault in load.faults:
        target.member(fault.broker)
    if target.keeps_messages and (load.replication or 1) > len(target.members):
        raise LabError(
            f"replication: {load.replication} replicas need as many brokers, and {target.name} has "
            f"{len(target.members)}"
        )
