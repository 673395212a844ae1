"""What PSG needs to know of a table: its label, and how what a network was shown becomes records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisegate.classifiers.inputs import Inputs
from noisegate.errors import SchemaError
from noisegate.schema import CodedColumn, EncodedTable, Schema


def label_of(schema: Schema) -> CodedColumn:
    """Returns the label.

    Raises:
        SchemaError: if there is none, it may be missing, or it has fewer than two levels.
    """
    layout = schema.layout
    if layout.label is None:
        raise SchemaError("psg makes a set for each label: name a column with levels as the label of the schema.")
    label = layout.coded[layout.label]
    if label.missing or len(label.levels) < 2:
        raise SchemaError(f"the label {label.name!r} must have two levels or more, and may not be missing.")
    return label


def records_of(values: npt.NDArray[np.float64], inputs: Inputs, schema: Schema, each: int) -> EncodedTable:
    """Returns the records that a network was shown, with the label that each has.

    Args:
        values: As a network sees them, (records, inputs), `each` of every label, one label after the other.
        inputs: The columns without the label.
        schema: The columns.
        each: Records of each label.

    Returns:
        Numbers at their positions, missing where that is the more probable; of levels the most probable one.
    """
    layout, gaps = schema.layout, len(inputs.absent)
    numeric = values[:, : inputs.numeric]
    absent = values[:, inputs.numeric : inputs.numeric + gaps] > 0.5
    # What a column shows is its number times the chance that it is there.
    there = np.ones_like(numeric)
    there[:, list(inputs.absent)] = 1 - np.minimum(values[:, inputs.numeric : inputs.numeric + gaps], 0.5)
    positions = np.clip(inputs.centre + numeric / there / 2, 0.0, 1.0)
    positions[:, list(inputs.absent)] = np.where(absent, np.nan, positions[:, list(inputs.absent)])
    codes = np.empty((len(values), len(layout.coded)), dtype=np.int32)
    start = inputs.numeric + gaps
    for place, column in enumerate(layout.coded):
        if place == layout.label:
            codes[:, place] = np.repeat(np.arange(column.size), each)
            continue
        codes[:, place] = values[:, start : start + column.size].argmax(axis=1)
        start += column.size
    return EncodedTable(positions, codes)
