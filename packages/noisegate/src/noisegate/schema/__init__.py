"""Public knowledge about a table: its columns, their bounds and levels, and how records are laid out as numbers."""

from noisegate.schema.columns import Column
from noisegate.schema.constraints import Comparison, Constraint, Impossible
from noisegate.schema.decode import decode
from noisegate.schema.kinds import pixel_schema
from noisegate.schema.layout import EncodedTable, Layout
from noisegate.schema.numeric import Continuous, Date, Datetime, Decimal, Integer, NumericColumn
from noisegate.schema.pixels import ImageForm, ImageShape
from noisegate.schema.regions import Region
from noisegate.schema.schema import DEFAULT_MISSING_VALUES, Schema
from noisegate.schema.values import Boolean, Categorical, CodedColumn, Ordinal

__all__ = [
    "DEFAULT_MISSING_VALUES",
    "Boolean",
    "Categorical",
    "CodedColumn",
    "Column",
    "Comparison",
    "Constraint",
    "Continuous",
    "Date",
    "Datetime",
    "Decimal",
    "EncodedTable",
    "ImageForm",
    "ImageShape",
    "Impossible",
    "Integer",
    "Layout",
    "NumericColumn",
    "Ordinal",
    "Region",
    "Schema",
    "decode",
    "pixel_schema",
]
