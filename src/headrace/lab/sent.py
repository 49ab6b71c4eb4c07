"""What a run of senders came to: its seconds added up, rates, quantiles, a verdict, and all of it as lines of JSON.

The lines are: one of the run (scenario, seed, versions, host, units, when), one for each second, one of the summary.
Histograms are in them whole, so that runs can be added up and other quantiles asked for later.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import IO, Any, Final, NamedTuple

from headrace.lab.clocks import ONE_CLOCK
from headrace.lab.crew import HERE
from headrace.lab.facts import host_facts, versions
from headrace.lab.histogram import Histogram
from headrace.lab.rates import Steadiness, one_minute_rates, steadiness, window_rates
from headrace.lab.scenario import Scenario
from headrace.lab.senders import Outcome
from headrace.lab.timeline import DURATIONS, Second

UNITS: Final = {
    "planned, sent, acknowledged, unanswered, failed": "messages",
    "sent_bytes, answered_bytes": "bytes of values",
    "lateness, latency_planned, latency_sent": "nanoseconds, in log-linear buckets",
    "rates": "messages a second",
    "MiB": "2^20 bytes",
}
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
_NS_PER_MS: Final = 1_000_000


def utc_text(utc_ns: int) -> str:
    return datetime.fromtimestamp(utc_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def quantiles_ms(histogram: Histogram) -> dict[str, float] | None:
    """None where nothing was counted."""
    if not histogram.count:
        return None
    found = {name: histogram.quantile_ns(share) or 0 for name, share in QUANTILES.items()}
    return {name: round(value_ns / _NS_PER_MS, 3) for name, value_ns in found.items()}


class Flow(NamedTuple):
    """Messages of one second."""

    planned: int
    sent: int
    answered: int  # Acknowledged, or given to the network where nobody answers.
    failed: int = 0  # Refused, or given up: nobody waits for those any more.


class Sent:
    """Add the seconds as they come."""

    def __init__(self, scenario: Scenario, *, target: str, where: str = HERE) -> None:
        self.scenario = scenario
        self.target = target
        self.where = where  # The senders are.
        self.clocks = ONE_CLOCK  # What is known of the clocks there.
        self.total = Second()
        self._delivered: list[int] = []  # Acknowledged, or given to the network where nobody answers, by second.
        self._flow: list[Flow] = []
        self.start_utc_ns = 0
        self._outcome = Outcome()

    def add(self, row: Second) -> None:
        self.total.merge(row)
        self._delivered.append(row.acknowledged + row.unanswered)
        self._flow.append(Flow(row.planned, row.sent, row.acknowledged + row.unanswered, row.failed))

    def end(self, outcome: Outcome, *, start_utc_ns: int = 0) -> None:
        self._outcome = outcome
        self.start_utc_ns = start_utc_ns

    @property
    def flow(self) -> list[Flow]:
        """Of each second of sending that was a whole one."""
        return self._flow[: int(self._outcome.elapsed_s + 1e-3)]

    @property
    def outcome(self) -> Outcome:
        return self._outcome

    @property
    def delivered(self) -> int:
        return self.total.acknowledged + self.total.unanswered

    @property
    def is_partial(self) -> bool:
        return bool(self._outcome.troubles) or self._outcome.is_stopped

    @property
    def seconds(self) -> list[int]:
        """Delivered in each second of sending that was a whole one."""
        return self._delivered[: int(self._outcome.elapsed_s + 1e-3)]

    @property
    def rate_per_s(self) -> float:
        """Of sending: what was sent by the time that it took."""
        return self.total.sent / self._outcome.elapsed_s if self._outcome.elapsed_s else 0.0

    @property
    def mib_per_s(self) -> float:
        return self.total.sent_bytes / self._outcome.elapsed_s / 2**20 if self._outcome.elapsed_s else 0.0

    @property
    def steadiness(self) -> Steadiness:
        return steadiness(self.seconds)

    @property
    def one_minute_per_s(self) -> float | None:
        """Kafka's, at the end."""
        return (one_minute_rates(self.seconds) or [None])[-1]

    @property
    def window_per_s(self) -> float | None:
        """The true rate of the last 60 s, if there were so many."""
        return ([*window_rates(self.seconds)] or [None])[-1]

    def latency_ends(self) -> str:
        return "given to the network" if self.scenario.terms.acks == "0" else "acknowledged"

    # --- As JSON -------------------------------------------------------------------------------------------------

    def run_json(self, start_utc_ns: int) -> dict[str, Any]:
        return {
            "type": "run",
            "started_utc": utc_text(start_utc_ns),
            "target": self.target,
            "senders_on": self.where,
            "clocks": self.clocks,
            "scenario": self.scenario.to_json(),
            "seed": self.scenario.seed,
            "versions": versions(),
            "host": host_facts(),
            "units": UNITS,
        }

    def second_json(self, start_utc_ns: int, second: int, row: Second) -> dict[str, Any]:
        when = utc_text(start_utc_ns + second * 1_000_000_000)
        return {"type": "second", "second": second, "utc": when, **row.to_json()}

    def summary_json(self) -> dict[str, Any]:
        steady = self.steadiness
        total = self.total.to_json()
        return {
            "type": "summary",
            "is_partial": self.is_partial,
            "outcome": asdict(self._outcome),
            **{name: value for name, value in total.items() if name not in DURATIONS},
            "rate_per_s": round(self.rate_per_s, 1),
            "mib_per_s": round(self.mib_per_s, 3),
            "rate_per_s_one_minute_ewma": _rounded(self.one_minute_per_s),
            "rate_per_s_60s_window": _rounded(self.window_per_s),
            "steady": {
                "is_steady": steady.is_steady,
                "variation": _finite(steady.variation),
                "slope_per_min": round(steady.slope_per_min.value, 5),
                "slope_per_min_low": _finite(steady.slope_per_min.low),
                "slope_per_min_high": _finite(steady.slope_per_min.high),
                "seconds": steady.readings,
            },
            "latency_ends": self.latency_ends(),
            **{f"{name}_ms": quantiles_ms(getattr(self.total, name)) for name in DURATIONS},
            **{f"{name}_histogram": total[name] for name in DURATIONS},
        }


def write_line(into: IO[str], value: Mapping[str, Any]) -> None:
    """Whole and at once: a run that is killed leaves whole lines."""
    into.write(json.dumps(value) + "\n")
    into.flush()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _finite(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) else None
