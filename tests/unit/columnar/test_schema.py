import pyarrow as pa
import pytest

from headrace.columnar.schema import COLUMNS, schema_of
from headrace.errors import ConfigError


def test_columns_in_the_order_asked_for() -> None:
    assert schema_of(["value", "offset"]) == pa.schema([("value", pa.binary()), ("offset", pa.int64())])
    assert schema_of(list(COLUMNS)).names == [
        "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["offset", "epoch"], "no column 'epoch'; there are topic, partition, offset"),
        (["key", "key"], "asked for twice"),
        ([], "no columns"),
    ],
)
def test_what_is_no_choice_of_columns(columns: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        schema_of(columns)
