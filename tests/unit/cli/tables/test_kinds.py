"""Files are known by their names."""

from pathlib import Path

import pytest

from headrace.cli.tables.kinds import KINDS, Kind, compression_of, kind_of
from headrace.errors import ConfigError


def test_every_kind_is_known_by_its_suffixes() -> None:
    assert KINDS.keys() == set(Kind)
    for kind, facts in KINDS.items():
        for suffix in facts.suffixes:
            assert kind_of(Path(f"a.b{suffix.upper()}"), None) is kind
            assert kind_of(Path(f"a{suffix}"), Kind.CSV) is Kind.CSV


@pytest.mark.parametrize("name", ["a", "a.xls", "a.parquet.gz", ".csv"])
def test_a_name_that_tells_nothing(name: str) -> None:
    with pytest.raises(ConfigError, match="--format"):
        kind_of(Path(name), None)


def test_compressions() -> None:
    assert [compression_of(kind, None) for kind in (Kind.PARQUET, Kind.CSV, Kind.ARROW)] == ["zstd", "none", "none"]
    assert compression_of(Kind.ARROW, "lz4") == "lz4"
    with pytest.raises(ConfigError, match="jsonl has none"):
        compression_of(Kind.JSONL, "gzip")
