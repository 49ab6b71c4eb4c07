"""Reading a table back, in one line and without any jar.

    frame = lake.frame(spark, "lake/clicks")

The wheel of Spark holds no reader of Delta. None is needed: the table's log says which files are alive, Spark reads
those as Parquet with the schema that the log tells, and finds `event_date` and `event_hour` in the names of the
directories. The frame shows the table as it was when it was made; a later commit does not change it, though `vacuum`
may take its files away.
"""

import json
import os
from collections.abc import Mapping

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.pipeline.delta import LakeError, trouble
from headrace.pipeline.location import parse_location


def frame(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of a Delta table, of this version or of the newest."""
    location = parse_location(path, options)
    try:
        table = DeltaTable(location.uri, version=version, storage_options=dict(location.options))
    except TableNotFoundError:
        raise LakeError(f"{location} is no Delta table") from None
    except (DeltaError, OSError, ValueError) as error:
        raise trouble(location, error) from error
    _check_readable(table)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", location.uri).parquet(*files)


def _check_readable(table: DeltaTable) -> None:
    """Features that put something else than the files' own rows and names into a table."""
    features = {*(table.protocol().reader_features or ())} & {"columnMapping", "deletionVectors"}
    if features:
        raise LakeError(f"{table.table_uri} uses {', '.join(sorted(features))}, which its files alone do not tell")
