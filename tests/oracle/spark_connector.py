"""Spark's own Kafka connector as the yardstick: its jars, from Maven by the pinned `spark_connector.xml`.

They stay in the project's cache. Knows nothing of Headrace and needs nothing but Python, Java and Maven.
"""

from pathlib import Path

from tests.oracle.toolbox import cached_build, require_tool, run_checked

_POM = Path(__file__).with_name("spark_connector.xml")


def connector_jars() -> list[Path]:
    """Every jar that Spark has to be given beside its own; fetched once."""

    def fetch(into: Path) -> None:
        maven = require_tool("mvn", hint="the Debian package is maven")
        run_checked(
            [maven, "-q", "-B", "-f", _POM, "dependency:copy-dependencies", f"-DoutputDirectory={into}"],
            timeout_s=600,
        )

    return sorted(cached_build("spark-connector", [_POM], fetch).glob("*.jar"))
