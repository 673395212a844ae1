"""Coverage of the questions that were added in December 2026: effects, ranks, logarithms, groups, weights.

    python benchmarks/inference/added.py --out FILE [--releases 40] [--records 3000 10000] [--epsilons 1 3]
    python benchmarks/inference/added.py --out FILE --summary

Patients have an age and a stage, which decide who is treated; what the treatment does is
known of each of them, and grows with age in the populations "grows". One line of JSON a
release; a release that has a line is not made again.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from harness.options import needed, read_options
from harness.printing import markdown_table
from harness.results import Lines

import noisegate
from noisegate.methods.pairwise import Pairwise
from noisegate.schema import Boolean, Categorical, Continuous, Integer, Schema

COLUMNS = (
    Integer(name="age", lower=0, upper=99),
    Categorical(name="stage", levels=("I", "II", "III")),
    Boolean(name="treated"),
    Continuous(name="score", lower=0, upper=200),
    Boolean(name="ill"),
    Continuous(name="cost", lower=1, upper=1e6),
    Integer(name="weight", lower=0, upper=400),
)
# How much an effect grows with a year of age, and the label of the schema.
POPULATIONS: Mapping[str, tuple[float, str | None]] = {
    "grows, label treated": (0.1, "treated"),
    "same, label treated": (0.0, "treated"),
    "same, label ill": (0.0, "ill"),
    "same, no label": (0.0, None),
}
QUESTIONS = (
    "effect(score, treated | age + stage)",
    "effect(ill, treated | age + stage)",
    "rankcorr(cost, age)",
    "mean(log(cost))",
    "corr(log(cost), age)",
    "median(cost) by stage",
    "weighted mean(score)",
    "weighted share(ill = true)",
)
_TRUTH_RECORDS = 1_000_000


def patients(count: int, seed: int, growth: float) -> tuple[pd.DataFrame, np.ndarray]:
    """Draws patients; returns them, and what the treatment adds to each score."""
    random = np.random.default_rng(seed)
    age = (50 + 15 * random.standard_normal(count)).clip(0, 99).round()
    stage = random.choice(3, count, p=[0.5, 0.3, 0.2])
    logit = 0.03 * (age - 50) + 0.4 * stage - 0.3
    treated = random.random(count) < 1 / (1 + np.exp(-logit))
    effect = 5 + growth * (age - 50)
    score = 100 - 0.4 * (age - 50) - 6 * stage + effect * treated
    cost = np.exp(7 + 0.03 * (age - 50) + 0.5 * stage + random.standard_normal(count))
    frame = pd.DataFrame(
        {
            "age": age.astype(int),
            "stage": np.array(["I", "II", "III"])[stage],
            "treated": treated,
            "score": (score + 8 * random.standard_normal(count)).clip(0, 200),
            "ill": random.random(count) < 0.3 + 0.1 * stage - 0.12 * treated,
            "cost": cost.clip(1, 1e6),
            "weight": np.array([20, 60, 200])[stage] + random.integers(20, size=count),
        }
    )
    return frame, effect


def true_answers(growth: float) -> dict[str, list[float]]:
    """Returns the answers of a population, by question."""
    frame, effect = patients(_TRUTH_RECORDS, 1, growth)
    log_cost = np.log(frame["cost"])
    medians = frame.groupby("stage")["cost"].median()
    values: list[Any] = [
        [effect.mean()],
        [-0.12],
        [frame["cost"].corr(frame["age"], method="spearman")],
        [log_cost.mean()],
        [log_cost.corr(frame["age"])],
        medians.tolist(),
        [np.average(frame["score"], weights=frame["weight"])],
        [np.average(frame["ill"], weights=frame["weight"])],
    ]
    return dict(zip(QUESTIONS, values, strict=True))


def release(name: str, records: int, epsilon: float, seed: int) -> dict[str, Any]:
    """Fits one release and asks it everything; returns the ends of the intervals."""
    growth, label = POPULATIONS[name]
    frame, _ = patients(records, 100 + seed, growth)
    schema = Schema(COLUMNS, label=label, weights="weight")
    method = Pairwise(fit_options={"steps": 60})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no ledger books simulated records
        model = noisegate.synthesize(
            frame, schema=schema, epsilon=epsilon, method=method
        )
    intervals = {
        question: [[answer.low, answer.high] for answer in model.infer(question)]
        for question in QUESTIONS
    }
    key = {"population": name, "records": records, "epsilon": epsilon, "seed": seed}
    return {**key, "intervals": intervals}


def summary(lines: list[dict[str, Any]]) -> None:
    """Prints of each question how many intervals hold the truth, and how many answers were refused."""
    truths = {name: true_answers(growth) for name, (growth, _) in POPULATIONS.items()}
    held: dict[str, list[bool]] = defaultdict(list)
    refused: dict[str, int] = defaultdict(int)
    for line in lines:
        for question, intervals in line["intervals"].items():
            truth = truths[line["population"]][question]
            for (low, high), value in zip(intervals, truth, strict=True):
                if low is None:
                    refused[question] += 1
                else:
                    held[question].append(low <= value <= high)
    rows = [
        [
            f"`{question.replace('|', chr(92) + '|')}`",
            len(is_held),
            refused[question],
            f"{np.mean(is_held):.3f}",
        ]
        for question, is_held in held.items()
    ]
    headings = ["question", "answers", "refused", "covers"]
    print("\n".join(markdown_table(headings, rows, n_left=1)))


def main() -> None:
    """Makes the releases that have no line yet, or summarises all."""
    options = read_options(
        __doc__,
        out=needed(Path),
        releases=40,
        records=[3_000, 10_000],
        epsilons=[1.0, 3.0],
        summary=False,
    )
    lines = Lines(options.out)
    if options.summary:
        summary(lines.rows)
        return
    done = lines.keys("population", "records", "epsilon", "seed")
    # Seed by seed, so that a run that is stopped has all kinds.
    for seed, name, records, epsilon in product(
        range(options.releases), POPULATIONS, options.records, options.epsilons
    ):
        if (name, records, epsilon, seed) not in done:
            lines.add(release(name, records, epsilon, seed))


if __name__ == "__main__":
    main()
