import pytest

from headrace.server.prometheus import Metric, Sample, counter, gauge, histogram_samples, render


def test_the_text_that_prometheus_reads() -> None:
    metrics = [
        gauge("node_heat", "How warm it is.", 36.6),
        counter("node_requests_total", "Requests.", 10**15),
        Metric("node_topics", "gauge", 'Two\nlines and a \\ and a "', [Sample(1, {"topic": 'a"b\\c\nd', "n": "1"})]),
        Metric(
            "node_wait_seconds", "histogram", "Waits.",
            histogram_samples({"api": "Fetch"}, below=[(0.5, 1), (1.0, 3)], total=2.25, recorded=4),
        ),
    ]  # fmt: skip
    assert render(metrics) == (
        "# HELP node_heat How warm it is.\n"
        "# TYPE node_heat gauge\n"
        "node_heat 36.6\n"
        "# HELP node_requests_total Requests.\n"
        "# TYPE node_requests_total counter\n"
        "node_requests_total 1000000000000000\n"
        '# HELP node_topics Two\\nlines and a \\\\ and a "\n'
        "# TYPE node_topics gauge\n"
        'node_topics{topic="a\\"b\\\\c\\nd",n="1"} 1\n'
        "# HELP node_wait_seconds Waits.\n"
        "# TYPE node_wait_seconds histogram\n"
        'node_wait_seconds_bucket{api="Fetch",le="0.5"} 1\n'
        'node_wait_seconds_bucket{api="Fetch",le="1"} 3\n'
        'node_wait_seconds_bucket{api="Fetch",le="+Inf"} 4\n'
        'node_wait_seconds_sum{api="Fetch"} 2.25\n'
        'node_wait_seconds_count{api="Fetch"} 4\n'
    )


def test_nothing_to_tell() -> None:
    assert render([]) == ""


@pytest.mark.parametrize(
    "metrics",
    [
        [gauge("with-dash", "", 1)],
        [counter("counter_without_suffix", "", 1)],
        [gauge("twice", "", 1), gauge("twice", "", 1)],
        [Metric("bad_label", "gauge", "", [Sample(1, {"a-b": ""})])],
    ],
)
def test_what_prometheus_would_refuse_is_our_mistake(metrics: list[Metric]) -> None:
    with pytest.raises(AssertionError):
        render(metrics)
