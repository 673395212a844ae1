"""The choice that a data steward need not make: a method and its settings, from public facts alone.

For a table `auto` is the pairwise method; what is left to choose is how many cells and which pairs, and that follows
from ε and the number and kinds of the columns. On the tables it was developed on, neither fewer questions (one-way
tables only) nor another method of the catalogue did better at any ε from 0.01 to 10; see docs/choosing.md. For images
it is a method that makes images.
"""

from __future__ import annotations

import math

from noisegate.methods.pairwise.method import Pairwise
from noisegate.schema import Schema

AUTO = "auto"
TABLES = "pairwise"
"""What `auto` is for tables."""
IMAGES = "joint"
"""What it is for images."""


def auto_for(schema: Schema) -> str:
    """Returns the name of the method that `auto` is for the records of a schema."""
    return TABLES if schema.images is None else IMAGES


def image_reason(name: str, schema: Schema) -> str:
    """Returns in one sentence what `auto` does with images."""
    form = schema.images
    assert form is not None
    labels = f"with {len(form.labels)} labels" if form.labels else "without labels"
    return f"{name}: the records are images of {form.shape} pixels {labels}."


def reason(method: Pairwise, schema: Schema, epsilon: float) -> str:
    """Returns in one sentence what `auto` does with a table, and why."""
    design = method.design(schema, epsilon)
    columns = len(design.columns)
    pairs = math.comb(columns, 2)
    if design.screened:
        which = f"{columns} columns have {pairs:,} pairs, so at most {design.most_pairs:,} are chosen by a coarse look"
    elif pairs and len(design.pairs or ()) == pairs:
        which = f"the {pairs:,} pairs of {columns} columns are few enough to measure all of them"
    else:
        which = f"of the {pairs:,} pairs of columns {len(design.pairs or ()):,} are measured"
    label = schema.label_column
    if design.label is not None and label is not None:
        which += f", in each class of {label.name!r}"
    cells = f"; numeric columns become about {design.cells} cells at epsilon={epsilon:g}" if design.bought else ""
    return f"pairwise: {which}{cells}."
