"""Those beside a load: really at work while it runs, and a failure where they were not."""

import time
from pathlib import Path

import pytest

from headrace.lab.bystanders import bystanders
from headrace.lab.errors import LabError
from headrace.testing.node_process import NodeProcess
from headrace.testing.ports import lasting_ports


def test_a_group_commits_and_the_metrics_are_scraped_beside_the_load(tmp_path: Path) -> None:
    http = f"127.0.0.1:{lasting_ports(1)[0]}"
    with NodeProcess(tmp_path / "data", settings={"http.listen": http}) as node:
        with bystanders({"bootstrap.servers": node.bootstrap}, metrics_urls=[f"http://{http}/metrics"]):
            time.sleep(0.5)
        assert (tmp_path / "data" / "bystanders-0").is_dir()


def test_a_scraper_that_reached_nothing_is_a_failure(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{lasting_ports(1)[0]}/metrics"
    with (
        NodeProcess(tmp_path / "data") as node,
        pytest.raises(LabError, match="nothing was scraped"),
        bystanders({"bootstrap.servers": node.bootstrap}, metrics_urls=[nobody]),
    ):
        pass
