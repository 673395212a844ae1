"""The tables that are made from formulas: many numeric columns, a million records, and dense Gaussians.

The formulas are public, so the bounds and levels are too: they follow from the code below and from no sample of it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from noisegate import Schema
from noisegate.schema import Categorical, Continuous

SCHEMAS = Path(__file__).parent / "schemas"

WIDE_TRAIN, WIDE_TEST = 50_000, 10_000
MILLION_TRAIN, MILLION_TEST = 1_000_000, 50_000
GAUSSIAN_TRAIN, GAUSSIAN_TEST = 20_000, 10_000

REGIONS = tuple(f"R{place:02}" for place in range(20))
DIAGNOSES = tuple(f"D{place:02}" for place in range(30))
WARDS = ("medical", "surgical", "intensive", "maternity", "children")
SMOKING = ("never", "former", "current")


def wide(rows: int = WIDE_TRAIN + WIDE_TEST) -> tuple[pa.Table, Schema]:
    """100 numeric columns and a label with two classes.

    scikit-learn's `make_classification`: 20 informative columns in 4 clusters a class, 30 linear combinations of them
    and 50 of noise, with 3 % of labels turned. x ↦ tanh(x / 4) brings every value between -1 and 1.
    """
    from sklearn.datasets import make_classification

    values, classes = make_classification(
        n_samples=rows,
        n_features=100,
        n_informative=20,
        n_redundant=30,
        n_clusters_per_class=4,
        flip_y=0.03,
        class_sep=1.0,
        random_state=2026,
    )
    names = [f"x{place:02}" for place in range(values.shape[1])]
    cells = {
        name: np.round(np.tanh(column / 4), 6)
        for name, column in zip(names, values.T, strict=True)
    }
    columns = [Continuous(name=name, lower=-1.0, upper=1.0) for name in names]
    label = Categorical(name="class", levels=("zero", "one"))
    return pa.table({**cells, "class": np.array(label.levels)[classes]}), Schema(
        (*columns, label), label="class"
    )


def gaussian(
    columns: int, rows: int = GAUSSIAN_TRAIN + GAUSSIAN_TEST
) -> tuple[pa.Table, Schema]:
    """Gaussian columns of which each goes with all others, in the form of MargNet's, and a label that goes with them.

    Their correlations are those of a random matrix A of as many rows and columns, AA' scaled to a diagonal of 1.
    """
    random = np.random.default_rng(2026 + columns)
    loads = random.normal(size=(columns + 1, columns))
    loads /= np.linalg.norm(loads, axis=1, keepdims=True)
    values = random.normal(size=(rows, columns)) @ loads.T
    names = [f"g{place:02}" for place in range(columns)]
    numbers = np.clip(np.round(values[:, :columns], 6), -5, 5)
    cells = dict(zip(names, numbers.T, strict=True))
    label = Categorical(name="class", levels=("zero", "one"))
    classes = np.array(label.levels)[(values[:, columns] > 0).astype(int)]
    described = [Continuous(name=name, lower=-5.0, upper=5.0) for name in names]
    return pa.table({**cells, "class": classes}), Schema(
        (*described, label), label="class"
    )


def million(rows: int = MILLION_TRAIN + MILLION_TEST) -> tuple[pa.Table, Schema]:
    """Hospital stays that nobody had: 12 mixed columns.

    Age drives diagnosis, diagnosis drives the ward, severity and the length of the stay, these drive the cost, and all
    of them whether the patient was back within 30 days, the label (about one in seven).
    """
    random = np.random.default_rng(2026)
    young = random.random(rows) < 0.12
    age = np.clip(
        np.round(
            np.where(young, random.gamma(2, 3, rows), random.normal(58, 19, rows))
        ),
        0,
        110,
    )
    female = random.random(rows) < 0.54
    region = np.minimum(random.geometric(0.14, rows) - 1, len(REGIONS) - 1)
    # Each diagnosis has an age at which it is most frequent; its frequency falls off with the distance from it.
    peaks = np.linspace(0, 95, len(DIAGNOSES))
    scores = -(((age[:, None] - peaks) / 22) ** 2) + random.gumbel(
        size=(rows, len(DIAGNOSES))
    )
    diagnosis = scores.argmax(1)
    severity = np.clip(
        np.round(1.2 + diagnosis % 3 * 0.6 + random.normal(0, 0.7, rows)), 1, 4
    )
    birth = female & (age >= 16) & (age < 45) & (diagnosis % 5 == 0)
    ward = np.select(
        [age < 16, birth, severity == 4, diagnosis % 2 == 1], [4, 3, 2, 1], 0
    )
    winter = 1 + 0.4 * np.cos(np.arange(12) * np.pi / 6)
    month = 1 + random.choice(12, rows, p=winter / winter.sum())
    ever = random.random(rows) + 0.25 * (diagnosis % 4 == 1) > 0.62
    smoking = np.where(age < 15, 0, ever * (1 + (random.random(rows) > 0.75)))
    bmi = np.clip(
        random.normal(26 + 0.4 * (diagnosis % 7) - 6 * (age < 16), 4.2), 10, 70
    ).round(1)
    days = np.minimum(
        np.floor(random.gamma(1.3, 1.2 * severity + (ward == 2) * 4)), 120
    )
    a_day = (1 + 1.5 * (ward == 2)) / 3
    cost = np.minimum(
        random.lognormal(7.2 + 0.15 * (ward == 1), 0.35) * (1 + days * a_day), 500_000
    )
    risk = (
        -3.4
        + 0.018 * age
        + 0.45 * (severity - 1)
        + 0.05 * np.minimum(days, 20)
        + 0.4 * (smoking == 2)
    )
    risk -= 0.5 * (ward == 3) + 0.3 * ((diagnosis % 6 == 2) & (region < 4))
    back = random.random(rows) < 1 / (1 + np.exp(-risk))
    cells = {
        "age": age.astype(np.int64),
        "sex": np.where(female, "female", "male"),
        "region": np.array(REGIONS)[region],
        "month": month.astype(np.int64),
        "diagnosis": np.array(DIAGNOSES)[diagnosis],
        "severity": severity.astype(np.int64),
        "ward": np.array(WARDS)[ward],
        "smoking": np.array(SMOKING)[smoking],
        "bmi": bmi,
        "days": days.astype(np.int64),
        "cost": np.round(cost, 2),
        "readmitted": np.where(back, "yes", "no"),
    }
    return pa.table(cells), Schema.from_toml(SCHEMAS / "million.toml")
