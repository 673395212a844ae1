"""Two tables from formulas, with as many records as are asked for. The formulas are public, so the bounds are too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from noisegate import Schema
from noisegate.schema import Boolean, Categorical, Continuous, Integer, Ordinal

TOWNS = tuple(f"T{place:02}" for place in range(40))
TRADES = ("farm", "mill", "shop", "school", "office", "none")
WARDS = ("medical", "surgical", "intensive", "maternity")


def survey(rows: int, seed: int) -> tuple[pa.Table, Schema]:
    """Answers of yes and no, a scale, a trade and a town of which few are large; no numbers to cut into cells."""
    random = np.random.default_rng([1, seed])
    mood = random.normal(size=(rows, 2))
    weights = np.array(
        [
            [1.5, 0.2],
            [0.9, -0.9],
            [0, 1.8],
            [-1.2, 0.4],
            [0.6, 0.6],
            [2, 0],
            [0, -1],
            [0.3, 1.1],
        ]
    )
    answers = mood @ weights.T + random.logistic(size=(rows, 8)) > np.linspace(-1, 2, 8)
    scale = (
        np.digitize(mood[:, 0] + random.normal(size=rows), [-1.5, -0.5, 0.5, 1.5]) + 1
    )
    trade = (
        -2 * np.abs(mood[:, [1]] - np.linspace(-2, 2, 6))
        + random.gumbel(size=(rows, 6))
    ).argmax(axis=1)
    town = random.choice(40, rows, p=(share := 1 / np.arange(1, 41)) / share.sum())
    moved = (
        random.logistic(size=rows)
        + mood @ [1.5, 1.0]
        - 0.6 * (trade == 5)
        + 0.8 * (town > 20)
        > 1.2
    )
    cells = {f"q{place}": answers[:, place] for place in range(8)}
    cells |= {
        "scale": scale,
        "trade": np.array(TRADES)[trade],
        "town": np.array(TOWNS)[town],
        "moved": moved,
    }
    columns = (
        *(Boolean(name=f"q{place}") for place in range(8)),
        Ordinal(name="scale", levels=(1, 2, 3, 4, 5)),
        Categorical(name="trade", levels=TRADES),
        Categorical(name="town", levels=TOWNS),
        Boolean(name="moved"),
    )
    return pa.table(cells), Schema(columns, label="moved")


def clinic(rows: int, seed: int) -> tuple[pa.Table, Schema]:
    """Numbers with tails, caps and zeros beside a few codes; one number may be missing."""
    random = np.random.default_rng([2, seed])
    age = np.clip(np.round(random.normal(55, 18, rows)), 0, 110).astype(np.int64)
    female = random.random(rows) < 0.55
    ward = (
        random.gumbel(size=(rows, 4))
        + np.stack([age / 40, age / 50, 0.02 * age, 1.5 * female], 1)
    ).argmax(axis=1)
    days = np.minimum(np.floor(random.gamma(1.2, 1.5 + (ward == 2) * 4.0)), 60).astype(
        np.int64
    )
    pressure = np.clip(random.normal(110 + 0.4 * age, 14), 60, 260).round(1)
    cost = np.minimum(random.lognormal(7 + 0.15 * days, 0.5), 200_000).round(2)
    paid = np.where(
        random.random(rows) < 0.6, 0.0, cost * random.beta(2, 5, rows)
    ).round(2)
    test = np.where(
        random.random(rows) < 0.25,
        np.nan,
        np.clip(random.normal(5 + (ward == 1), 1.2), 0, 15),
    )
    risk = (
        -3.5
        + 0.03 * age
        + 0.06 * days
        + 0.5 * (ward == 2)
        + 0.4 * np.nan_to_num(test - 5, nan=-0.3)
    )
    back = random.random(rows) < 1 / (1 + np.exp(-risk))
    cells = {
        "age": age,
        "female": female,
        "ward": np.array(WARDS)[ward],
        "days": days,
        "pressure": pressure,
        "cost": cost,
        "paid": paid,
        "test": pa.array(test, mask=np.isnan(test)),
        "back": np.where(back, "yes", "no"),
    }
    columns = (
        Integer(name="age", lower=0, upper=110),
        Boolean(name="female"),
        Categorical(name="ward", levels=WARDS),
        Integer(name="days", lower=0, upper=60),
        Continuous(name="pressure", lower=60.0, upper=260.0),
        Continuous(name="cost", lower=0.0, upper=200_000.0),
        Continuous(name="paid", lower=0.0, upper=200_000.0),
        Continuous(name="test", lower=0.0, upper=15.0, missing=True),
        Categorical(name="back", levels=("no", "yes")),
    )
    return pa.table(cells), Schema(columns, label="back")


SIMULATED: dict[str, Callable[[int, int], tuple[pa.Table, Schema]]] = {
    "survey": survey,
    "clinic": clinic,
}
