"""Public knowledge about a table: its columns, their bounds and levels, and how records are laid out as numbers."""

from noisegate.schema.columns import (
    Boolean,
    Categorical,
    CodedColumn,
    Column,
    Continuous,
    Date,
    Datetime,
    Integer,
    NumericColumn,
    Ordinal,
)
from noisegate.schema.decode import decode
from noisegate.schema.layout import EncodedTable, Layout
from noisegate.schema.schema import DEFAULT_MISSING_VALUES, Schema

__all__ = [
    "DEFAULT_MISSING_VALUES",
    "Boolean",
    "Categorical",
    "CodedColumn",
    "Column",
    "Continuous",
    "Date",
    "Datetime",
    "EncodedTable",
    "Integer",
    "Layout",
    "NumericColumn",
    "Ordinal",
    "Schema",
    "decode",
]
