"""How many children break a rule of the schema: of their own table, or one that binds them to their parent."""

from __future__ import annotations

import numpy as np

from noisegate.evaluation.families import LinkedTables
from noisegate.evaluation.reading import read_levels, read_numbers
from noisegate.records import Rows
from noisegate.schema.linked import Link


def broken_rules(linked: LinkedTables, link: Link) -> int:
    """Count the children of a link that break a rule; those without a parent are left aside."""
    if not link.records.constraints:
        return 0
    families = linked.families[link.name]
    numeric, codes = [], []
    for table, rows in ((link.parent, families.parent), (link.child, families.rows)):
        records, schema = linked.tables[table.name], table.schema
        numeric += [read_numbers(records, column, schema).unit[rows] for column in schema.layout.numeric]
        codes += [read_levels(records, column, schema).codes[rows] for column in schema.layout.coded]
    beside = Rows(_columns(numeric, len(families.rows), np.float64), _columns(codes, len(families.rows), np.int32))
    return int(link.records.broken(beside).sum())


def _columns(columns: list[np.ndarray], rows: int, kind: type) -> np.ndarray:
    return np.stack(columns, axis=1).astype(kind) if columns else np.zeros((rows, 0), dtype=kind)
