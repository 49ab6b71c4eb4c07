import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from headrace.errors import ConfigError
from headrace.pipeline.options import SinkOptions, parse_sink_options
from headrace.pipeline.sink import check_columns

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def frame(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def options(**more: str) -> SinkOptions:
    return parse_sink_options({"kafka.bootstrap.servers": "here:9092", **more})


@pytest.mark.parametrize("kind", [StringType(), BinaryType()])
def test_what_records_are_made_of(kind: DataType) -> None:
    check_columns(frame(value=kind), options(topic="t"))
    check_columns(frame(value=kind, key=kind, partition=IntegerType(), headers=HEADERS), options(topic="t"))
    check_columns(frame(value=kind, topic=StringType(), offset=LongType()), options())


def test_a_topic_that_the_option_names_makes_the_column_one_of_the_others() -> None:
    check_columns(frame(value=StringType(), topic=IntegerType()), options(topic="t"))


@pytest.mark.parametrize(
    ("columns", "topic", "text"),
    [
        (frame(wert=StringType()), {"topic": "t"}, "the frame has no column 'value'; it has wert"),
        (frame(), {"topic": "t"}, "it has none"),
        (frame(value=StringType()), {}, "Set the option topic"),
        (frame(value=StringType(), topic=IntegerType()), {}, "column 'topic' is int, not string"),
        (frame(value=IntegerType()), {"topic": "t"}, "column 'value' is int, not binary or string"),
        (frame(value=StringType(), key=LongType()), {"topic": "t"}, "column 'key' is bigint"),
        (frame(value=StringType(), partition=LongType()), {"topic": "t"}, "column 'partition' is bigint, not int"),
        (frame(value=StringType(), headers=StringType()), {"topic": "t"}, "column 'headers' is string"),
    ],
)
def test_what_is_refused(columns: StructType, topic: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        check_columns(columns, options(**topic))
