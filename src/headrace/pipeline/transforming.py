"""Rows changed on their way into a table by a function of the user's.

    def clean(rows: pa.Table) -> pa.Table: ...          # headrace load clicks --lake lake --transform web:clean

It is given decoded rows and gives back as many, in the same order, with the columns that the table is to have. Those
that tell where a row comes from stay as they are; all others are its own to compute, rename and leave out. It can
neither drop nor repeat a record: then the ledger would tell something else than the table.

Which columns these are is found out by giving it no rows. The function itself travels to the tasks, so that its module
need not be installed there; what the module imports has to be.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from deltalake import Schema
from pyspark import cloudpickle

from headrace.errors import ConfigError, HeadraceError
from headrace.pipeline.columns import EVENT, SOURCE
from headrace.pipeline.decoding import Decoded, Decoder
from headrace.pipeline.origins import Origin

Transform = Callable[[pa.Table], pa.Table]


class TransformFailed(HeadraceError):
    """The function raised, or gave back what no table can take. Nothing of the load was committed."""


@dataclass(frozen=True, slots=True)
class Transformed:
    """A decoder whose rows go through a function."""

    decoder: Decoder
    name: str
    function: Transform
    schema: pa.Schema

    def decode(self, batch: pa.RecordBatch, origin: Origin) -> Decoded:
        rows, dead = self.decoder.decode(batch, origin)
        changed = _apply(self.function, self.name, rows)
        if not changed.schema.equals(self.schema):
            raise TransformFailed(
                f"--transform {self.name} gave the columns {_told(changed.schema)}, and of no rows {_told(self.schema)}"
            )
        return Decoded(changed, dead)


def transformed(decoder: Decoder, name: str) -> Transformed:
    """With the function that `module:function` names; `ConfigError` where it is none that could be used."""
    function = _find(name)
    schema = _apply(function, name, decoder.schema.empty_table()).schema
    for column in schema:
        if column.name in EVENT.names:
            raise ConfigError(f"--transform {name} gives a column {column.name}, which every table has already")
        if not _fits_delta(column):
            raise ConfigError(f"--transform {name}: column {column.name} is {column.type}, which no Delta table holds")
    return Transformed(decoder, name, function, schema)


def _find(name: str) -> Transform:
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"--transform {name!r}: {error}; it is MODULE:FUNCTION") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ConfigError(f"--transform {name!r}: there is no function {function_name!r} in {module_name}")
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    found: Transform = function
    return found


def _apply(function: Transform, name: str, rows: pa.Table) -> pa.Table:
    try:
        changed = function(rows)
    except Exception as error:  # Whatever somebody else's function may raise.
        raise TransformFailed(f"--transform {name} failed: {type(error).__name__}: {error}") from error
    if not isinstance(changed, pa.Table):
        raise TransformFailed(f"--transform {name} gave back a {type(changed).__name__}, not a pyarrow.Table")
    for column in SOURCE:
        if column.name not in changed.column_names or not changed[column.name].equals(rows[column.name]):
            raise TransformFailed(f"--transform {name} does not leave {column.name} as it is, row by row")
    return changed


def _fits_delta(column: pa.Field) -> bool:
    """Whether a table that is made with this column has the very same one."""
    try:
        held = pa.schema(Schema.from_arrow(pa.schema([column])).to_arrow())
    except (TypeError, ValueError, NotImplementedError):
        return False
    return bool(held.field(0).type == column.type and not pa.types.is_null(column.type))


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)
