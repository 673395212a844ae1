"""Populations of which the truth is known: functions that draw records.

Their schemas are in schemas/, and what is asked of them in questions.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from noisegate import Schema

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Population:
    """What is drawn from, and asked about.

    Attributes:
        draw: So many records, by a seed.
        schema: Public knowledge about them; bounds are generous, as people give them.
        questions: See `noisegate.answers.questions`; every test's null is true.
    """

    draw: Callable[[int, int], pd.DataFrame]
    schema: Schema
    questions: tuple[str, ...]

    @cached_property
    def everybody(self) -> pd.DataFrame:
        """A million records, from which the truth is computed."""
        return self.draw(1_000_000, 987_654)


def _scm(n: int, seed: int) -> pd.DataFrame:
    r = np.random.default_rng(seed)
    x1, u, g, k = (
        r.normal(size=n),
        r.normal(size=n),
        r.random(n) < 0.4,
        r.choice(["p", "q", "r"], n),
    )
    x2 = 0.5 * x1 + 0.9 * r.normal(size=n)
    place = (np.clip(x1 + r.normal(size=n), -1.9, 1.9) // 1 + 2).astype(int)
    w = (
        0.5 * x1
        - 0.3 * x2
        + 0.4 * g
        + np.array([0.0, 0.3, 0.1, -0.4])[place]
        + 0.8 * r.normal(size=n)
    )
    y = r.random(n) < 1 / (1 + np.exp(0.5 - 0.8 * x1 - 0.6 * g + 0.5 * x2))
    numbers = {
        name: np.clip(x, -4, 4) for name, x in {"x1": x1, "x2": x2, "u": u}.items()
    }
    return pd.DataFrame(
        {
            **numbers,
            "w": np.clip(w, -5, 5),
            "g": g,
            "c": np.array(list("abcd"))[place],
            "k": k,
            "y": y,
        }
    )


def _clinic(n: int, seed: int) -> pd.DataFrame:
    r = np.random.default_rng(seed)
    age = np.clip(r.gamma(9, 7, n), 18, 100).astype(int)
    severe = r.random(n) < 1 / (1 + np.exp(3 - 0.03 * age))
    ward = np.where(
        severe,
        r.choice(["a", "b", "c"], n, p=[0.2, 0.3, 0.5]),
        r.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
    )
    cost = np.clip(
        np.exp(6 + 0.01 * age + 0.8 * severe + 0.7 * r.normal(size=n)), 0, 50_000
    )
    visits = np.minimum(r.poisson(np.exp(-0.5 + 0.015 * age + 0.4 * severe)), 40)
    day = np.minimum(r.exponential(np.where(severe, 60, 150)), 365).astype(int)
    sex = r.random(n) < 0.5
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "ward": ward,
            "cost": cost,
            "visits": visits,
            "day": day,
            "severe": severe,
        }
    )


def _rare(n: int, seed: int) -> pd.DataFrame:
    r = np.random.default_rng(seed)
    a, b, s = r.normal(50, 10, n), r.normal(100, 20, n), r.choice(["n", "e", "w"], n)
    ill = r.random(n) < 1 / (1 + np.exp(4.1 - 0.06 * (a - 50) - 0.015 * (b - 100)))
    t = r.random(n) < 0.5
    return pd.DataFrame(
        {"a": np.clip(a, 0, 100), "b": np.clip(b, 0, 200), "s": s, "t": t, "ill": ill}
    )


def _survey(n: int, seed: int) -> pd.DataFrame:
    """Resamples the public survey of affairs that statsmodels carries (Fair, 1978), as if it were everybody."""
    from statsmodels.datasets import fair

    found = fair.load_pandas().data
    rows = found.iloc[
        np.random.default_rng(seed).integers(len(found), size=n)
    ].reset_index(drop=True)
    told = {
        name: rows[name].astype(int)
        for name in ("rate_marriage", "religious", "occupation", "children")
    }
    return pd.DataFrame(
        {
            **told,
            "age": rows["age"],
            "years": rows["yrs_married"],
            "educ": rows["educ"],
            "affair": rows["affairs"] > 0,
        }
    )


def _twenty(n: int, seed: int) -> pd.DataFrame:
    r = np.random.default_rng(seed)
    common = r.normal(size=(n, 3))
    loads = np.random.default_rng(1).normal(size=(3, 12)) * (
        np.random.default_rng(2).random((3, 12)) < 0.5
    )
    numbers = np.clip(common @ loads * 0.6 + r.normal(size=(n, 12)), -8, 8)
    frame = pd.DataFrame(numbers, columns=[f"n{place}" for place in range(12)])
    for place in range(8):
        frame[f"c{place}"] = np.where(
            common[:, place % 3] + 2 * r.normal(size=n) > 0, "yes", "no"
        )
    return frame


def _stays(n: int, seed: int) -> pd.DataFrame:
    r = np.random.default_rng(seed)
    age, emergency = 20 + 70 * r.beta(4, 2, n), r.random(n) < 0.35
    unit = r.choice(["heart", "lung", "bone", "other"], n, p=[0.15, 0.1, 0.25, 0.5])
    nights = np.minimum(
        r.negative_binomial(2, 2 / (2 + np.exp(0.2 + 0.012 * age + 0.5 * emergency))),
        60,
    )
    bill = np.minimum(
        900 * (1 + nights) * r.gamma(4, 0.25, n) + 2_000 * (unit == "heart"), 100_000
    )
    back = r.random(n) < 1 / (
        1 + np.exp(3.2 - 0.015 * age - 0.7 * (unit == "lung") - 0.06 * nights)
    )
    return pd.DataFrame(
        {
            "age": age.astype(int),
            "emergency": emergency,
            "unit": unit,
            "nights": nights,
            "bill": bill,
            "back": back,
        }
    )


def _pupils(n: int, seed: int) -> pd.DataFrame:
    r = np.random.default_rng(seed)
    school = r.integers(6, size=n)
    books = np.minimum(np.exp(3 + 0.15 * school + r.normal(size=n)), 1_000)
    hours = np.clip(r.gamma(2, 2.5, n), 0, 40)
    score = np.clip(
        400
        + 25 * np.log(books)
        + 6 * np.sqrt(hours)
        - 3 * school
        + 60 * r.standard_t(6, n),
        0,
        1_000,
    )
    passed, twin = score + 40 * r.normal(size=n) > 470, r.random(n) < 0.03
    names = np.array([f"s{place}" for place in range(6)])
    return pd.DataFrame(
        {
            "school": names[school],
            "books": books,
            "hours": hours,
            "score": score,
            "passed": passed,
            "twin": twin,
        }
    )


def _sensors(n: int, seed: int) -> pd.DataFrame:
    r = np.random.default_rng(seed)
    machine, hot = r.integers(3, size=n), r.random(n) < 0.3
    load = np.clip(
        np.where(r.random(n) < 0.4, r.normal(30, 5, n), r.normal(70, 8, n)), 0, 100
    )  # two modes
    warmth = np.clip(20 + 0.3 * load + 12 * hot + r.laplace(0, 3, n), -20, 120)
    noise = np.clip(40 + 0.2 * warmth + 0.1 * load + r.normal(0, 4, n), 0, 130)
    faults = np.minimum(
        r.poisson(np.exp(-2.5 + 0.025 * warmth + 0.3 * (machine == 2))), 20
    )
    hours = np.minimum(r.weibull(1.5, n) * np.where(hot, 150, 250), 500)
    return pd.DataFrame(
        {
            **{
                "machine": np.array(["a", "b", "c"])[machine],
                "load": load,
                "warmth": warmth,
                "noise": noise,
            },
            **{"faults": faults, "hours": hours, "hot": hot},
        }
    )


_DRAWS = {
    "scm": _scm,
    "clinic": _clinic,
    "rare": _rare,
    "survey": _survey,
    "twenty": _twenty,
    "stays": _stays,
    "pupils": _pupils,
    "sensors": _sensors,
}
_QUESTIONS = tomllib.loads((HERE / "questions.toml").read_text(encoding="utf-8"))
POPULATIONS = {
    name: Population(
        draw=draw,
        schema=Schema.from_toml(HERE / "schemas" / f"{name}.toml"),
        questions=tuple(_QUESTIONS[name]),
    )
    for name, draw in _DRAWS.items()
}
