"""What a node under proof says of itself on its HTTP port; a setting `http.listen` of port 0 is expected."""

import re
import urllib.request

from headrace.testing.node_process import NodeProcess

SETTING = {"http.listen": "127.0.0.1:0"}


def read_metrics(node: NodeProcess) -> dict[str, float]:
    """Those without labels, by name."""
    with urllib.request.urlopen(f"http://{_address(node)}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    samples = (line.split() for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value, *_ in samples if "{" not in name}


def _address(node: NodeProcess) -> str:
    """Of the last start, from the log."""
    found = re.findall(r"http ready.*?address\W+([\d.]+:\d+)", node.log_text())
    assert found, "the node does not say where its HTTP port is"
    return str(found[-1])
