"""Facts about the machine, for people."""

from headrace.lab.report.facts import flat_facts, host_facts


def test_facts_are_flat_and_for_people() -> None:
    host = {
        "memory_bytes": 8 * 2**30,
        "disk": {"bulk_mb_per_s": 477.2},
        "links": [{"interface": "eth0", "mb_per_s": None}],
        "is_calm": True,
    }
    assert flat_facts(host) == {
        "memory": "8.0 GiB",
        "disk bulk mb per s": "477.2",
        "links interface": "eth0",
        "links mb per s": "-",
        "is calm": "yes",
    }


def test_what_was_measured_is_told_as_the_command_tells_it() -> None:
    measured = {
        "disk": {"bulk_mb_per_s": 256.19, "commits_per_s": 736.2, "commit_bytes": 4096, "commit_ms": {"p99": 12.78}},
        "loopback": {"mb_per_s": 2413.2},
        "links": [
            {"interface": "eth0", "is_up": True, "bits_per_s": None},
            {"interface": "eth1", "is_up": True, "bits_per_s": 1e9},
            {"interface": "ifb0", "is_up": False, "bits_per_s": None},
        ],
        "stalls": {"share": 0.6037, "share_of_cpu_stolen_by_the_host": 0.012},
        "is_calm": False,
    }
    assert host_facts({"cores": 2, "measured": measured}) == {
        "cores": "2",
        "synchronous write": "256.2 MB/s",
        "write of 4096 B and sync": "736.2/s, p99 12.78 ms",
        "loopback": "2,413 MB/s",
        "link eth0": "not measurable here",
        "link eth1": "125.0 MB/s",
        "a busy thread is held off": "60.4% of the time",
        "stolen by the host": "1.2% of all cores",
        "calm": "no",
    }


def test_a_disk_that_there_is_not_says_why() -> None:
    assert host_facts({"measured": {"disk": {"not measurable here": "a file system in memory"}}}) == {
        "synchronous write": "not measurable here: a file system in memory"
    }
    assert host_facts({}) == {}
