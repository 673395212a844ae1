"""Kinds of column: each is one class in one file.

- `bounded`: what kinds of numbers, days and points in time between two bounds share.
- `continuous`: real numbers.
- `stepped`: what kinds share whose values lie a whole number of steps apart.
- `integer`, `decimal`, `date`, `datetime`: the kinds of these.
- `coded`: what kinds with levels share.
- `ordinal`, `categorical`, `boolean`: the kinds with levels.
"""

from noisegate.schema.kinds.boolean import Boolean
from noisegate.schema.kinds.categorical import Categorical
from noisegate.schema.kinds.continuous import Continuous
from noisegate.schema.kinds.date import Date
from noisegate.schema.kinds.datetime import Datetime
from noisegate.schema.kinds.decimal import Decimal
from noisegate.schema.kinds.integer import Integer
from noisegate.schema.kinds.ordinal import Ordinal

__all__ = [
    "Boolean",
    "Categorical",
    "Continuous",
    "Date",
    "Datetime",
    "Decimal",
    "Integer",
    "Ordinal",
]
