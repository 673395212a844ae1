"""Completes records of which some values are known, by the distribution of a model.

Known values stay, and all others are drawn given these: missing cells are filled
(*imputation*), and columns that a table lacks are added (*scenarios*)::

    table ──PartialRecords.read──► what is known ──model.complete──► whole records
                                                        │
                              rejected by the constraints, and drawn again

What is known came from the caller, and may be private: completed records hold it, and
the guarantee of the model does not cover it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.errors import OptionError
from noisegate.models.rejection import RejectionError
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.columns import Problem
from noisegate.schema.encode import encode

if TYPE_CHECKING:
    import torch

Mask = npt.NDArray[np.bool_]

BATCH_ROWS = 1024
"""Records that are completed at a time, at most."""

# How often a record that breaks a constraint is drawn again. Known values may break it
# by themselves, so that no draw can help.
_MAX_DRAWS = 100


@dataclass(frozen=True, kw_only=True)
class PartialRecords:
    """Encoded records, and which of their values are known.

    Columns are numbered with the numeric ones first, then those of levels.

    Attributes:
        records: The records; what is not known is arbitrary.
        is_known: Which values are known, (records, columns).
        is_value: Which of the others must not come out missing, (records, columns).
    """

    records: EncodedTable
    is_known: Mask
    is_value: Mask

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self.records)

    def rows(self, indices: npt.NDArray[np.intp]) -> PartialRecords:
        """Returns some of the records, in the order of their indices."""
        return PartialRecords(
            records=self.records.rows(indices),
            is_known=self.is_known[indices],
            is_value=self.is_value[indices],
        )

    @classmethod
    def read(cls, table: pa.Table, schema: Schema) -> PartialRecords:
        """Encodes a table that may lack columns and cells.

        Args:
            table: The known values. An absent column is drawn as the model has it; a
                missing cell is filled with a value.
            schema: Schema of the model.

        Raises:
            OptionError: if a column is unknown or computed from others, or a cell does
                not fit the schema.
        """
        _check_columns(table, schema)
        layout = schema.layout
        columns = (*layout.numeric, *layout.coded)
        relaxed_schema = Schema(
            tuple(replace(column, missing=True) for column in columns),
            missing_values=schema.missing_values,
        )
        arrays: dict[str, pa.Array] = {}
        for column in columns:
            if column.name in table.column_names:
                arrays[column.name] = table[column.name].combine_chunks()
            else:
                arrays[column.name] = pa.nulls(table.num_rows)
        try:
            records = encode(arrays, relaxed_schema)
        except Problem as problem:
            where = "" if problem.row is None else f"record {problem.row + 1}: "
            message = problem.message.replace("{found}", "another value")
            raise OptionError(f"given: {where}{message}.") from None

        is_known = np.empty((table.num_rows, len(columns)), dtype=np.bool_)
        is_known[:, : len(layout.numeric)] = ~np.isnan(records.numeric)
        codes = records.codes.copy()
        for index, coded in enumerate(layout.coded):
            is_level = codes[:, index] < len(coded.levels)
            is_known[:, len(layout.numeric) + index] = is_level
            codes[~is_level, index] = 0
        has_column = [column.name in table.column_names for column in columns]
        return cls(
            records=EncodedTable(records.numeric, codes),
            is_known=is_known,
            is_value=~is_known & np.array(has_column),
        )


@runtime_checkable
class CompletingModel(Protocol):
    """A record model that can draw unknown values given known ones."""

    def complete(
        self, partial: PartialRecords, random: torch.Generator
    ) -> EncodedTable:
        """Draws what is not known of each record, given what is.

        Args:
            partial: The records, at most `BATCH_ROWS`.
            random: Public randomness, on the CPU.

        Returns:
            Whole records, in the same order.
        """
        ...


def completed_batches(
    model: CompletingModel,
    partial: PartialRecords,
    random: torch.Generator,
    *,
    breaks_rule: Callable[[EncodedTable], Mask],
) -> Iterator[EncodedTable]:
    """Yields completed records that keep to the rules, batch by batch.

    Args:
        model: What values are drawn from.
        partial: The records.
        random: Public randomness, on the CPU.
        breaks_rule: Which records break a rule of the schema, (records,).

    Raises:
        RejectionError: if a record breaks a rule after so many draws.
    """
    for start in range(0, len(partial), BATCH_ROWS):
        stop = min(start + BATCH_ROWS, len(partial))
        batch = partial.rows(np.arange(start, stop))
        records = model.complete(batch, random)
        numeric = records.numeric.copy()
        codes = records.codes.copy()
        pending = np.flatnonzero(breaks_rule(records))
        for _ in range(_MAX_DRAWS):
            if not len(pending):
                break
            redrawn = model.complete(batch.rows(pending), random)
            numeric[pending] = redrawn.numeric
            codes[pending] = redrawn.codes
            pending = pending[breaks_rule(redrawn)]
        if len(pending):
            raise RejectionError(
                f"given: record {start + int(pending[0]) + 1} breaks a rule of the "
                f"schema, however its other values are drawn ({_MAX_DRAWS} times). "
                "Correct its known values, or leave one out."
            )
        yield EncodedTable(numeric, codes)


def as_arrow_table(given: Any) -> pa.Table:
    """Converts a table in memory.

    Args:
        given: A PyArrow table, a data frame that hands out Arrow data, such as those of
            pandas and Polars, or a mapping from names to columns.

    Raises:
        OptionError: if it is none, or Arrow cannot hold a column.
    """
    if isinstance(given, pa.Table):
        return given
    try:
        if isinstance(given, Mapping):
            return pa.table(dict(given))
        table = pa.table(given)
    except (TypeError, ValueError, pa.ArrowException):
        # Raised outside the handler: Arrow's message quotes values.
        table = None
    if table is None:
        raise OptionError(
            f"given is a {type(given).__name__} that cannot be read; give a PyArrow "
            "table, a data frame of pandas or Polars, or a mapping from names to "
            "columns, each of one type."
        )
    # The index that pandas hands out is no column.
    index_names = [name for name in table.column_names if name.startswith("__index_")]
    return table.drop_columns(index_names)


def _check_columns(table: pa.Table, schema: Schema) -> None:
    """Refuses columns that are unknown, twice there, or computed by relations."""
    measured_names = schema.coordinates.names
    for name in table.column_names:
        if table.column_names.count(name) > 1:
            raise OptionError(f"given: column {name!r} is there more than once.")
        if name in schema.computed_names:
            raise OptionError(
                f"given: column {name!r} is computed by a relation of the schema, so "
                "it cannot be known; leave it out."
            )
        if name not in measured_names:
            raise OptionError(
                f"given: column {name!r} is not a column of the model; leave it "
                f"out. Its columns are {', '.join(schema.names)}."
            )
