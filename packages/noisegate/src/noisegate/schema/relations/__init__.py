"""Relations of the columns of one record, which hold by construction.

- `relation`: what every relation can do.
- `ordered`, `formula`, `parts`, `states`: the relations.
- `differences`: what is added to one column to get another.
- `values`: between encoded records and the values of each column.
- `expression`: formulas of columns.
- `forms`: how schema files write relations.
- `coordinates`: what is measured of a record, and the record computed from that.
"""

from noisegate.schema.relations.coordinates import Coordinates
from noisegate.schema.relations.expression import Expression
from noisegate.schema.relations.formula import Formula, Lookup
from noisegate.schema.relations.ordered import Ordered
from noisegate.schema.relations.parts import Parts
from noisegate.schema.relations.relation import Relation
from noisegate.schema.relations.states import OneOf, OnlyIf, Together

__all__ = (
    "Coordinates",
    "Expression",
    "Formula",
    "Lookup",
    "OneOf",
    "OnlyIf",
    "Ordered",
    "Parts",
    "Relation",
    "Together",
)
