"""Kinds of column: each is one class in one file.

- `kind`: what every kind can do; where to begin.
- `bounded`, `stepped`: what kinds between two bounds share.
- `limits`: texts such as "<0.5" among the cells of plain numbers.
- `continuous`, `integer`, `decimal`, `date`, `datetime`, `duration`: these
  kinds.
- `coded`: what kinds with levels share.
- `ordinal`, `categorical`, `boolean`: these kinds.
- `registry`: all kinds by name, those of other installed packages too.
"""

from noisegate.schema.kinds.boolean import Boolean
from noisegate.schema.kinds.categorical import Categorical
from noisegate.schema.kinds.continuous import Continuous
from noisegate.schema.kinds.date import Date
from noisegate.schema.kinds.datetime import Datetime
from noisegate.schema.kinds.decimal import Decimal
from noisegate.schema.kinds.duration import Duration
from noisegate.schema.kinds.integer import Integer
from noisegate.schema.kinds.ordinal import Ordinal

__all__ = [
    "Boolean",
    "Categorical",
    "Continuous",
    "Date",
    "Datetime",
    "Decimal",
    "Duration",
    "Integer",
    "Ordinal",
]
