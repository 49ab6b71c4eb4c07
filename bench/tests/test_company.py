"""The company of a load: really at work while the load runs, and a failure where it was not."""

import time
from pathlib import Path

import pytest

from bench.company import company
from bench.errors import LoadError
from headrace.testing.node_process import NodeProcess
from headrace.testing.ports import lasting_ports


def test_a_group_commits_and_the_metrics_are_scraped_beside_the_load(tmp_path: Path) -> None:
    http = f"127.0.0.1:{lasting_ports(1)[0]}"
    with NodeProcess(tmp_path / "data", settings={"http.listen": http}) as node:
        with company(node.bootstrap, metrics_url=f"http://{http}/metrics"):
            time.sleep(0.5)
        assert (tmp_path / "data" / "company-0").is_dir()


def test_a_scraper_that_reached_nothing_is_a_failure(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{lasting_ports(1)[0]}/metrics"
    with (
        NodeProcess(tmp_path / "data") as node,
        pytest.raises(LoadError, match="nothing was scraped"),
        company(node.bootstrap, metrics_url=nobody),
    ):
        pass
