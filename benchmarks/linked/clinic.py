"""A clinic that nobody visited: patients, their visits and the diagnoses of these, in streams of any length.

    python benchmarks/linked/clinic.py --out DIR [--patients 50000] [--shape clinic] [--seed 0] [--format csv]

What is in it to be kept: chronic conditions and age decide how often somebody comes, and how soon again; measurements
follow those of the visit before; diagnoses follow the measurements; who was once urgent tends to be so again. The
formulas are public, so the bounds and levels in `schemas/clinic.toml` are too. Settings of methods are chosen on the
shapes that are not called "clinic"; figures are reported on that one and on real sets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from harness.options import choice, needed, read_options

REGIONS = ("north", "south", "east", "west", "coast", "hills", "city", "suburb")
CHRONIC = ("none", "heart", "diabetes", "kidney", "lung")
KINDS = ("check-up", "follow-up", "urgent", "specialist")
CODES = (
    "hypertension",
    "diabetes",
    "infection",
    "injury",
    "heart",
    "kidney",
    "lung",
    "pain",
    "skin",
    "other",
)
FIRST_DAY, DAYS = np.datetime64("2015-01-01"), 3652  # ten years, both ends included
MOST_VISITS, MOST_DIAGNOSES = 30, 6
CHUNK = 10_000

Tables = dict[str, pa.Table]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What differs between clinics.

    Attributes:
        visits: of a healthy patient of middle age, in the mean.
        none: share of the patients who never come.
        fixed: whether everybody comes equally often, as in a panel.
        memory: how much of a measurement's departure from the patient's own level is left at the next visit, in [0, 1).
        level: how much patients differ in their own levels, in standard deviations of a visit.
        days: between two visits of a healthy patient, in the mean.
    """

    visits: float = 4.0
    none: float = 0.08
    fixed: bool = False
    memory: float = 0.7
    level: float = 1.0
    days: float = 150.0


SHAPES = {
    "clinic": Shape(),
    "practice": Shape(visits=2.0, none=0.25, memory=0.4, level=0.6, days=300.0),
    "ward": Shape(visits=11.0, none=0.0, memory=0.9, level=1.5, days=14.0),
    "panel": Shape(visits=7.0, none=0.0, fixed=True, memory=0.8, level=2.0, days=365.0),
    "twenty": Shape(visits=21.0, none=0.0, fixed=True, days=60.0),
}


def clinics(patients: int, *, shape: str = "clinic", seed: int = 0) -> Iterator[Tables]:
    """Yields the tables of 10,000 patients at a time; the same arguments give the same ones."""
    for chunk, start in enumerate(range(0, patients, CHUNK)):
        yield _chunk(
            start,
            min(CHUNK, patients - start),
            SHAPES[shape],
            np.random.default_rng([seed, chunk]),
        )


def clinic(patients: int, *, shape: str = "clinic", seed: int = 0) -> Tables:
    """Returns all tables at once."""
    several = list(clinics(patients, shape=shape, seed=seed))
    return {
        name: pa.concat_tables([one[name] for one in several]) for name in several[0]
    }


def _chunk(
    start: int, patients: int, shape: Shape, random: np.random.Generator
) -> Tables:
    person = _people(patients, random)
    counts = _visit_counts(person, shape, random)
    frail = person["frailty"]
    state = {
        "pressure": shape.level * random.standard_normal(patients) * 0.8,
        "glucose": shape.level * random.standard_normal(patients) * 0.8,
    }
    level = {name: value.copy() for name, value in state.items()}
    day = person["entered"] + np.where(
        random.random(patients) < 0.4, 0, random.geometric(1 / 40, patients)
    )
    urgent = np.zeros(patients, dtype=bool)
    visits: list[dict[str, np.ndarray]] = []
    for number in range(int(counts.max(initial=0))):
        here = np.flatnonzero(counts > number)
        noise = np.sqrt(1 - shape.memory**2)
        for name, value in state.items():
            step = shape.memory * (
                value[here] - level[name][here]
            ) + noise * random.standard_normal(len(here))
            value[here] = level[name][here] + step
        visits.append(_visit(number, here, person, state, urgent, random))
        visits[-1]["day"] = day[here].copy()
        urgent[here] = visits[-1]["kind"] == KINDS.index("urgent")
        mean = shape.days * np.where(urgent[here], 0.25, 1.0) / (1 + 0.6 * frail[here])
        even = 4.0 if shape.fixed else 1.5
        day[here] += np.ceil(mean * random.gamma(even, 1 / even, len(here)))
        counts[here[day[here] > DAYS]] = number + 1
    return _tables(start, person, visits, counts, random)


def _people(patients: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    age = np.clip(np.round(random.normal(48, 21, patients)), 0, 100)
    chances = np.array([2.2, -0.6, -0.5, -1.6, -0.9]) + np.outer(
        (age - 48) / 21, [-0.5, 0.8, 0.5, 0.6, 0.1]
    )
    chronic = (chances + random.gumbel(size=chances.shape)).argmax(1)
    frailty = (
        np.clip((age - 30) / 50, 0, 1.4) + 0.9 * (chronic > 0) + 0.4 * (chronic == 3)
    )
    sex = random.random(patients) < 0.53
    entered = random.integers(0, 365 * 6, patients).astype(float)
    region = np.minimum(random.geometric(0.2, patients) - 1, len(REGIONS) - 1)
    told = {"age": age, "female": sex, "region": region, "chronic": chronic}
    return told | {"entered": entered, "frailty": frailty}


def _visit_counts(
    person: dict[str, np.ndarray], shape: Shape, random: np.random.Generator
) -> np.ndarray:
    patients = len(person["age"])
    if shape.fixed:
        return np.full(patients, round(shape.visits)) - random.binomial(
            2, 0.15, patients
        )
    mean = (
        shape.visits
        * (0.5 + 0.6 * person["frailty"])
        * random.gamma(3.0, 1 / 3.0, patients)
    )
    counts = np.minimum(random.poisson(mean), MOST_VISITS)
    return np.where(random.random(patients) < shape.none, 0, counts)


def _visit(
    number: int,
    here: np.ndarray,
    person: dict[str, np.ndarray],
    state: dict[str, np.ndarray],
    urgent: np.ndarray,
    random: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Returns the visits with this number of the patients who are `here`, one array for each column."""
    age, chronic = person["age"][here], person["chronic"][here]
    pressure = 112 + 0.35 * age + 9 * (chronic == 1) + 8 * state["pressure"][here]
    glucose = (
        5.3
        + 3.5 * (chronic == 2)
        + (0.7 + 1.2 * (chronic == 2)) * state["glucose"][here]
    )
    ill = 0.08 * (pressure - 130) / 5 + 0.15 * (glucose - 6) + 0.5 * (chronic > 0)
    scores = np.stack(
        [
            1.2 - ill,
            0.3 + ill + 0.3 * (number > 0),
            -0.9 + ill + 1.6 * urgent[here],
            -0.5 + 0.4 * ill,
        ]
    )
    kind = (scores.T + random.gumbel(size=(len(here), len(KINDS)))).argmax(1)
    pain = np.clip(
        np.round(
            1.5 + 2.0 * (kind == 2) + 0.5 * ill + random.normal(0, 1.2, len(here))
        ),
        0,
        10,
    )
    measured = random.random(len(here)) > 0.06
    return {
        "here": here,
        "kind": kind,
        "pressure": np.clip(np.round(pressure), 70, 230),
        "glucose": np.where(measured, np.clip(np.round(glucose, 1), 2.0, 30.0), np.nan),
        "pain": pain,
        "raw_glucose": glucose,
    }


def _tables(
    start: int,
    person: dict[str, np.ndarray],
    visits: list[dict[str, np.ndarray]],
    counts: np.ndarray,
    random: np.random.Generator,
) -> Tables:
    every = {name: np.concatenate([one[name] for one in visits]) for name in visits[0]}
    here = every["here"]
    patients = len(counts)
    worst = np.zeros(patients)
    np.maximum.at(
        worst,
        here,
        every["pain"] + 3 * (every["kind"] == 2) + (every["pressure"] - 130) / 15,
    )
    risk = -4.2 + 0.3 * worst + 0.015 * person["age"] + 0.07 * counts
    admitted = random.random(patients) < 1 / (1 + np.exp(-risk))
    keys = np.char.add("P", np.char.zfill((start + np.arange(patients)).astype(str), 7))
    # In the order in which the visits took place, as a clinic writes them down: a patient's are not together.
    order = np.lexsort((here, every["day"]))
    every = {name: values[order] for name, values in every.items()}
    here = every["here"]
    visit_keys = np.char.add(
        "V", (start * (MOST_VISITS + 1) + np.arange(len(here))).astype(str)
    )
    return {
        "patients": pa.table(
            {
                "id": keys,
                "age": person["age"].astype(np.int64),
                "sex": np.where(person["female"], "female", "male"),
                "region": np.array(REGIONS)[person["region"]],
                "chronic": np.array(CHRONIC)[person["chronic"]],
                "entered": FIRST_DAY + person["entered"].astype("timedelta64[D]"),
                "admitted": np.where(admitted, "yes", "no"),
            }
        ),
        "visits": pa.table(
            {
                "visit": visit_keys,
                "id": keys[here],
                "day": FIRST_DAY + every["day"].astype("timedelta64[D]"),
                "kind": np.array(KINDS)[every["kind"]],
                "pressure": every["pressure"].astype(np.int64),
                "glucose": pa.array(every["glucose"], from_pandas=True),
                "pain": every["pain"].astype(np.int64),
            }
        ),
        "diagnoses": _diagnoses(visit_keys, person["chronic"][here], every, random),
    }


def _diagnoses(
    keys: np.ndarray,
    chronic: np.ndarray,
    every: dict[str, np.ndarray],
    random: np.random.Generator,
) -> pa.Table:
    """Returns the diagnoses: none or some for each visit, without repetition, the most important first."""
    visits, urgent = len(keys), every["kind"] == 2
    number = np.minimum(
        random.poisson(0.5 + 0.25 * every["pain"] / 2 + 0.5 * (chronic > 0)),
        MOST_DIAGNOSES,
    )
    scores = np.zeros((visits, len(CODES)))
    scores[:, 0] = (every["pressure"] - 138) / 8
    scores[:, 1] = every["raw_glucose"] - 7.5
    scores[:, 2] = 0.6 + 0.8 * urgent
    scores[:, 3] = -0.8 + 2.0 * urgent
    scores[:, 4:7] = (
        np.stack(
            [3.0 * (chronic == 1), 3.0 * (chronic == 3), 3.0 * (chronic == 4)], axis=1
        )
        - 1.5
    )
    scores[:, 7] = 0.4 * every["pain"] - 1.2
    ranked = np.argsort(-(scores + random.gumbel(size=scores.shape)), axis=1)
    visit = np.repeat(np.arange(visits), number)
    rank = np.arange(len(visit)) - np.repeat(np.cumsum(number) - number, number)
    code = ranked[visit, rank]
    certain = random.random(len(visit)) < 1 / (1 + np.exp(-(scores[visit, code] + 0.5)))
    return pa.table(
        {
            "visit": keys[visit],
            "rank": rank + 1,
            "code": np.array(CODES)[code],
            "certain": np.where(certain, "yes", "no"),
        }
    )


def write(out: Path, several: Iterator[Tables], *, parquet: bool = False) -> None:
    """Writes tables into a folder, one file each, chunk by chunk."""
    out.mkdir(parents=True, exist_ok=True)
    make: Callable[..., Any] = pa.parquet.ParquetWriter if parquet else pa.csv.CSVWriter
    with ExitStack() as open_files:
        files: dict[str, Any] = {}
        for tables in several:
            for name, table in tables.items():
                if name not in files:
                    path = out / f"{name}.{'parquet' if parquet else 'csv'}"
                    files[name] = open_files.enter_context(make(path, table.schema))
                files[name].write_table(table)


def main() -> None:
    """Reads the command line."""
    options = read_options(
        __doc__,
        out=needed(Path),
        patients=50_000,
        shape=choice(SHAPES, "clinic"),
        seed=0,
        format=choice(("csv", "parquet")),
    )
    several = clinics(options.patients, shape=options.shape, seed=options.seed)
    write(options.out, several, parquet=options.format == "parquet")


if __name__ == "__main__":
    main()
