"""A clinic that nobody visited: patients, their visits and the diagnoses of these.

What is in it to be kept: chronic conditions and age decide how often somebody comes, and how soon again; measurements
follow those of the visit before; diagnoses follow the measurements; who was once urgent tends to be so again. The
formulas are public, so the bounds and levels in `schemas/clinic.toml` are too. Settings of methods were chosen on
clinics of other shapes, which last stood here at commit 14f1ae5e.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

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


MEAN_VISITS = 4.0
"""Of a healthy patient of middle age."""
NEVER_COMES = 0.08
"""Share of the patients."""
MEMORY = 0.7
"""How much of a measurement's departure from the patient's own level is left at the next visit."""
MEAN_DAYS = 150.0
EVENNESS = 1.5
"""Between two visits of a healthy patient: their mean, and the shape of their gamma distribution."""


def clinic(patients: int, *, seed: int = 0) -> Tables:
    """Returns all tables; the same arguments give the same ones."""
    chunks = list(_chunks(patients, seed))
    return {
        name: pa.concat_tables([chunk[name] for chunk in chunks]) for name in chunks[0]
    }


def _chunks(patients: int, seed: int) -> Iterator[Tables]:
    """Yields the tables of 10,000 patients at a time."""
    for chunk, start in enumerate(range(0, patients, CHUNK)):
        random = np.random.default_rng([seed, chunk])
        yield _chunk(start, min(CHUNK, patients - start), random)


def _chunk(start: int, patients: int, random: np.random.Generator) -> Tables:
    person = _people(patients, random)
    counts = _visit_counts(person, random)
    frail = person["frailty"]
    state = {
        "pressure": random.standard_normal(patients) * 0.8,
        "glucose": random.standard_normal(patients) * 0.8,
    }
    level = {name: value.copy() for name, value in state.items()}
    day = person["entered"] + np.where(
        random.random(patients) < 0.4, 0, random.geometric(1 / 40, patients)
    )
    urgent = np.zeros(patients, dtype=bool)
    visits: list[dict[str, np.ndarray]] = []
    for number in range(int(counts.max(initial=0))):
        here = np.flatnonzero(counts > number)
        noise = np.sqrt(1 - MEMORY**2)
        for name, value in state.items():
            step = MEMORY * (
                value[here] - level[name][here]
            ) + noise * random.standard_normal(len(here))
            value[here] = level[name][here] + step
        visits.append(_visit(number, here, person, state, urgent, random))
        visits[-1]["day"] = day[here].copy()
        urgent[here] = visits[-1]["kind"] == KINDS.index("urgent")
        mean = MEAN_DAYS * np.where(urgent[here], 0.25, 1.0) / (1 + 0.6 * frail[here])
        day[here] += np.ceil(mean * random.gamma(EVENNESS, 1 / EVENNESS, len(here)))
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
    person: dict[str, np.ndarray], random: np.random.Generator
) -> np.ndarray:
    patients = len(person["age"])
    mean = (
        MEAN_VISITS
        * (0.5 + 0.6 * person["frailty"])
        * random.gamma(3.0, 1 / 3.0, patients)
    )
    counts = np.minimum(random.poisson(mean), MOST_VISITS)
    return np.where(random.random(patients) < NEVER_COMES, 0, counts)


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
