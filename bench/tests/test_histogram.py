"""The C load's percentiles against exact ones."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

LOAD = Path(__file__).parents[1] / "load"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    stub = tmp_path_factory.mktemp("histogram")
    # Only the types of librdkafka's header are needed, so the test does without the library.
    (stub / "librdkafka").mkdir()
    (stub / "librdkafka" / "rdkafka.h").write_text(
        "typedef int rd_kafka_type_t; typedef struct a rd_kafka_t; typedef struct b rd_kafka_message_t;"
        "typedef struct c rd_kafka_topic_t;"
    )
    program = stub / "driver"
    sources = [Path(__file__).with_name("histogram_driver.c"), LOAD / "histogram.c"]
    subprocess.run([compiler, "-std=c11", f"-I{stub}", f"-I{LOAD}", "-o", program, *sources], check=True)
    return program


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_err_by_less_than_a_hundredth_and_never_downwards(driver: Path, seed: int) -> None:
    source = random.Random(seed)
    values = sorted(int(source.lognormvariate(6, 2)) for _ in range(5000))
    printed = subprocess.run([driver], input="\n".join(map(str, values)), capture_output=True, text=True, check=True)
    found = json.loads(printed.stdout)["all"]
    assert (found["count"], found["max"]) == (len(values), values[-1])
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
        exact = values[int(share * len(values))]
        assert exact <= found[name] <= exact * 1.01 + 1
