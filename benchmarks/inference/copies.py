"""Coverage of what is computed from `sample --copies`, by three rules, and of rows that are taken for records.

    python benchmarks/inference/copies.py [--populations ...] [--records 10000] [--epsilon 1] [--copies 10]
        [--releases 10] [--json FILE]

*combine*: `noisegate.app.copies.combine`; *fully*: the rules of Raghunathan, Reiter and Rubin (2003) for fully
synthetic data, their variance no less than that of a copy; *rows*: one copy by textbook. Nothing is private.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from harness.options import choices, optional, read_options
from plain import answers
from populations import POPULATIONS, Population
from scipy import stats

import noisegate
from noisegate import Pairwise
from noisegate.answers.questions.question import parse_question
from noisegate.app.copies import combine, copies

KINDS = ("mean", "share", "corr", "partial", "ols", "logit", "poisson", "quantile")
RULES = ("combine", "fully", "rows")


def main() -> None:
    """Prints a line for each kind of question, then all of them."""
    options = read_options(
        __doc__,
        populations=choices(list(POPULATIONS)),
        records=10_000,
        epsilon=1.0,
        copies=10,
        releases=10,
        json=optional(Path),
    )
    found: list[dict[str, Any]] = []
    for name in options.populations:
        truth = _computed(POPULATIONS[name].everybody, POPULATIONS[name])
        for seed in range(options.releases):
            found += [
                {"population": name, **one}
                for one in _release(POPULATIONS[name], truth, options, seed)
            ]
            if options.json:
                options.json.write_text(
                    json.dumps(
                        {"asked": vars(options) | {"json": None}, "found": found}
                    )
                    + "\n"
                )
        frame = pd.DataFrame(found)
        columns = [*RULES, "width"]
        print(
            name,
            frame[frame["population"] == name][columns].mean().round(2).to_dict(),
            flush=True,
        )
    print(
        frame.groupby("kind")[columns]
        .mean()
        .round(2)
        .assign(answers=frame.groupby("kind").size())
    )
    print(frame[columns].mean().round(3).to_dict(), len(frame))


def _release(
    population: Population,
    truth: dict[Any, Any],
    options: argparse.Namespace,
    seed: int,
) -> list[dict[str, Any]]:
    records, method = options.records, Pairwise(fit_options={"steps": 200}, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = population.draw(records, 5_000 + seed)
        model = noisegate.synthesize(
            real, schema=population.schema, epsilon=options.epsilon, method=method
        )
        each = [
            _computed(rows, population)
            for rows in copies(model, options.copies, records, seed=seed)
        ]
    found = []
    for key, (true, _) in truth.items():
        if any(key not in one for one in each):
            continue
        values, errors = np.array([one[key] for one in each]).T
        ours = combine(values)
        m, between, within = (
            len(values) - 1,
            values[1:].var(ddof=1),
            float(np.mean(errors[1:] ** 2)),
        )
        variance = max((1 + 1 / m) * between - within, within)
        freedom = (m - 1) * (1 - within / max((1 + 1 / m) * between, 1e-300)) ** 2
        half = stats.t.ppf(0.975, max(freedom, 2)) * np.sqrt(variance)
        found.append(
            {
                "kind": parse_question(key[0]).name,
                "combine": bool(ours.low <= true <= ours.high),
                "fully": bool(abs(values[1:].mean() - true) <= half),
                "rows": bool(abs(values[0] - true) <= 1.96 * errors[0]),
                "width": float((ours.high - ours.low) / (2 * 1.96 * errors[0])),
            }
        )
    return found


def _computed(
    rows: Any, population: Population
) -> dict[tuple[str, str], tuple[float, float]]:
    """Returns value and standard error of everything that is asked, as a textbook has it."""
    asked = [
        question
        for question in population.questions
        if parse_question(question).name in KINDS
    ]
    return {
        (question, name): (value, (high - low) / 3.92)
        for question in asked
        for name, value, low, high, _ in answers(rows, parse_question(question))
        if value is not None and low is not None and high is not None and high > low
    }


if __name__ == "__main__":
    main()
