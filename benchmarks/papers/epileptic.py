"""Epileptic seizure recognition (UCI, reshaped from Bonn University): split 70/30, seizure against the four others.

A record is one of the 23 seconds of a recording, so the guarantee of one record is not that of one person.
"""

from __future__ import annotations

from pathlib import Path

from noisegate import Schema
from noisegate.schema import Categorical, Integer
from papers.published import SETS, Loaded
from papers.reading import read_headed, read_mapped

EPILEPTIC = SETS["epileptic"]
POINTS = 178
# Andrzejak et al. 2001, Phys. Rev. E 64, 061907: 12-bit analogue-to-digital conversion.
LOWEST, HIGHEST = -2048, 2047
# The description: 1 is seizure activity, 2 to 5 are recordings without one.
STATES = {"1": "seizure"} | dict.fromkeys("2345", "no seizure")


def schema() -> Schema:
    """Returns what the description tells: 178 points of one second, and the state."""
    points = [
        Integer(name=f"X{number}", lower=LOWEST, upper=HIGHEST)
        for number in range(1, POINTS + 1)
    ]
    return Schema(
        (*points, Categorical(name="y", levels=("no seizure", "seizure"))), label="y"
    )


def load(folder: Path, *, seed: int) -> Loaded:
    """Returns Epileptic; 178 numeric columns and the state, seizure the positive class.

    Raises:
        DataError: if the file is missing or broken.
    """
    path = EPILEPTIC.find(folder, *EPILEPTIC.files)
    # The first column, which has no name, says which second of which recording it is.
    records = read_headed(path, schema().names)
    records = records.set_column(
        POINTS, "y", read_mapped(records["y"], STATES, f"{path}, y")
    )
    return EPILEPTIC.split(records, schema(), seed=seed)
