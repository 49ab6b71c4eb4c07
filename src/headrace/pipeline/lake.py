"""Reading a table back, in one line and without any jar.

    frame = lake.frame(spark, "lake/clicks")

The wheel of Spark holds no reader of Delta. None is needed: the table's log says which files are alive, Spark reads
those as Parquet with the schema that the log tells, and finds `event_date` and `event_hour` in the names of the
directories. The frame shows the table as it was when it was made; a later commit does not change it, though `vacuum`
may take its files away.

Nor does the wheel hold file systems of object stores. What lies at a URL its tasks read with Arrow, through the file
system and the options that the table itself is opened with: each task some files, a row group after the other.
"""

import json
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.pipeline.delta import LakeError, trouble
from headrace.pipeline.location import Location, parse_location

_FILES_PER_TASK: Final = 16  # Where there are more files than processors.
_BATCH_ROWS: Final = 1 << 14


def frame(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    options: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of a Delta table, of this version or of the newest.

    `columns` are all that is read; of an object store a later `select` alone does not spare reading the others.
    """
    location = parse_location(path, options)
    try:
        table = DeltaTable(location.uri, version=version, storage_options=dict(location.options))
    except TableNotFoundError:
        raise LakeError(f"{location} is no Delta table") from None
    except (DeltaError, OSError, ValueError) as error:
        raise trouble(location, error) from error
    _check_readable(table)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    if columns is not None:
        if unknown := sorted(set(columns).difference(schema.fieldNames())):
            raise LakeError(f"{location} has no column {unknown[0]!r}")
        schema = StructType([schema[name] for name in columns])
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    if location.path is None:
        return _frame_of_objects(spark, location, table, schema)
    # With the whole schema: a file has more columns than may be asked for, and directories are columns as well.
    whole = StructType.fromJson(json.loads(table.schema().to_json()))
    shown = spark.read.schema(whole).option("basePath", location.uri).parquet(*files)
    return shown.select(*map(_quoted, schema.fieldNames()))


def _quoted(name: str) -> str:
    """A column's name as such: Spark takes a dot in it for the way to a field."""
    return f"`{name.replace('`', '``')}`"


def _frame_of_objects(spark: SparkSession, location: Location, table: DeltaTable, schema: StructType) -> DataFrame:
    dataset = table.to_pyarrow_dataset()
    files = [(each.path, pickle.dumps(each.partition_expression)) for each in dataset.get_fragments()]
    context = spark.sparkContext
    tasks = min(len(files), max(context.defaultParallelism, -(-len(files) // _FILES_PER_TASK)))
    names = spark.createDataFrame(context.parallelize(files, tasks), "path string, values binary")
    read = partial(_read_files, location=location, whole=dataset.schema, asked=to_arrow_schema(schema, timezone="UTC"))
    return names.mapInArrow(read, schema)


def _read_files(
    batches: Iterable[pa.RecordBatch], *, location: Location, whole: pa.Schema, asked: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of these files. What is no column of a file is one of its directories, or null."""
    source, parquet = location.files(), ds.ParquetFileFormat()
    for batch in batches:
        for path, values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            file = parquet.make_fragment(path, source, pickle.loads(values))
            for group in file.split_by_row_group(schema=whole):
                for rows in group.to_batches(schema=whole, columns=asked.names, batch_size=_BATCH_ROWS):
                    yield rows.cast(asked)


def _check_readable(table: DeltaTable) -> None:
    """Features that put something else than the files' own rows and names into a table."""
    features = {*(table.protocol().reader_features or ())} & {"columnMapping", "deletionVectors"}
    if features:
        raise LakeError(f"{table.table_uri} uses {', '.join(sorted(features))}, which its files alone do not tell")
