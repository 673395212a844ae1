"""A run of the default method on two columns, which takes a tenth of a second."""

import pyarrow as pa
from tests.shared.columns import boolean, integer

from noisegate import Pairwise, Schema

SCHEMA = Schema((integer("age", 0, 99), boolean("ill")), label="ill")
TABLE = pa.table({"age": [31, 58, 44, 67] * 50, "ill": [False, True, False, True] * 50})
SMALL = Pairwise(cells=4, fit_options={"components": 4, "steps": 10})
