"""Coverage of intervals from releases of populations whose truth is known, beside those of synthetic rows.

    python benchmarks/inference/run.py --out DIR [--populations ...] [--records ...] [--epsilons ...] [--releases 200]
    python benchmarks/inference/run.py --out DIR --summary

One file of JSON lines for each population, number of records and ε, to which each release adds a line: stop it and give
it again as you like. `--summary` prints coverage, what was refused and widths by kind of question. Nothing is private.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from harness.options import choices, needed, optional, read_options
from harness.results import Lines, read_lines
from plain import answers as plain_answers
from plain import surviving
from populations import POPULATIONS, Population

import noisegate
from noisegate import Budget, Pairwise, UserError
from noisegate.answers.estimates import Spread
from noisegate.answers.questions.question import parse_question
from noisegate.privacy.plan import Query, plan_sums

MOMENTS = 0.43  # as --for-inference has it
FIT = {"steps": 300}
"""A shorter fit than by default: of the model only how records vary is used, and what µ(x'β) sums to."""


def main() -> None:
    """Runs what is missing, one release of everything and then the next."""
    options = read_options(
        __doc__,
        out=needed(Path),
        populations=choices(list(POPULATIONS)),
        records=[2_000, 10_000, 50_000],
        epsilons=[0.1, 1.0, 10.0],
        releases=200,
        planned=optional(float, "a release for each question, of its moments"),
        summary=False,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.summary:
        for seed, name, records, epsilon in product(
            range(options.releases),
            options.populations,
            options.records,
            options.epsilons,
        ):
            lines = Lines(options.out / f"{name}-{records}-{epsilon:g}.jsonl")
            if len(lines.rows) <= seed:
                population = POPULATIONS[name]
                lines.add(release(population, records, epsilon, seed, options.planned))
    summary(options.out)


def release(
    population: Population,
    records: int,
    epsilon: float,
    seed: int,
    planned: float | None = None,
) -> list[list[Any]]:
    """Returns question, name, value, low, high, p, best width; of rows value, low, high, p; of all that is asked."""
    if planned is None:
        settings: dict[str, Any] = {"moments_share": MOMENTS}
        return _release(
            population, records, epsilon, seed, population.questions, settings
        )
    found = []
    for question in population.questions:
        asked = parse_question(question)
        if asked.name in (
            "corr",
            "partial",
            "ols",
            "logit",
            "poisson",
            "mean",
            "share",
        ):
            settings = {"moments_share": planned, "moments": sorted(set(asked.columns))}
            found += _release(population, records, epsilon, seed, (question,), settings)
    return found


def _release(
    population: Population,
    records: int,
    epsilon: float,
    seed: int,
    questions: tuple[str, ...],
    settings: dict[str, Any],
) -> list[list[Any]]:
    real = population.draw(records, seed)
    method = Pairwise(**settings, fit_options=FIT, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = noisegate.synthesize(
            real, schema=population.schema, epsilon=epsilon, method=method
        )
        rows = model.sample(records, seed=seed)
    alone = noise_of_one(epsilon)
    found = []
    for question in questions:
        naive = {
            name: one for name, *one in plain_answers(rows, parse_question(question))
        }
        try:
            with best_widths(alone) as widths:
                answers = model.infer(question)
        except UserError:  # columns that were never measured together
            found += [
                [question, name, *[None] * 5, *one] for name, one in naive.items()
            ]
            continue
        for place, one in enumerate(answers):
            best = widths[place] if place < len(widths) else None
            plain = naive.get(one.name, [None] * 4)
            found.append(
                [question, one.name, one.value, one.low, one.high, one.p, best, *plain]
            )
    return found


def noise_of_one(epsilon: float) -> float:
    """Returns the noise of a sum that has the whole budget, over its sensitivity."""
    query = Query(name="one", dim=1, columns=1, norm=1.0, share=1.0)
    return plan_sums(Budget(epsilon=epsilon), (query,)).events[0].noise_multiplier


class best_widths:  # noqa: N801
    """In its block, the widths of intervals by the moments of a question's columns, asked alone with the same ε."""

    def __init__(self, alone: float) -> None:
        self._alone = alone

    def __enter__(self) -> list[float | None]:
        from noisegate.answers.questions import regression, sums

        self.found: list[float | None] = []
        self._modules = (sums, regression)
        self._estimate, self._spread = sums.estimate, sums.spread_of_moments
        std: list[float] = []

        def spread_of_moments(evidence: Any, moments: Any, intervals: Any) -> Spread:
            std.append(self._alone / moments.feature_map.weight)
            return self._spread(evidence, moments, intervals)

        def measured(
            question: str,
            names: Any,
            statistic: Any,
            spread: Spread,
            intervals: Any,
            **options: Any,
        ) -> Any:
            best = replace(
                spread,
                noise=std.pop() * np.eye(len(spread.values)),
                bias=spread.bias[:, :0],
            )
            best_answers = self._estimate(
                question, names, statistic, best, intervals, **options
            )
            self.found += [
                one.high - one.low if one.low is not None else None
                for one in best_answers
            ]
            return self._estimate(
                question, names, statistic, spread, intervals, **options
            )

        for module in self._modules:
            module.spread_of_moments, module.estimate = spread_of_moments, measured
        return self.found

    def __exit__(self, *_: object) -> None:
        for module in self._modules:
            module.estimate, module.spread_of_moments = self._estimate, self._spread


def summary(out: Path) -> None:
    """Prints a line for each kind of question, number of records and ε."""
    kinds: dict[tuple[str, int, float], list[list[Any]]] = defaultdict(list)
    for path in sorted(out.glob("*.jsonl")):
        name, records, epsilon = path.stem.split("-")
        truth: dict[str, dict[str, Any]] = {}
        for line in read_lines(path):
            for question, named, *rest in line:
                if question not in truth:
                    truth[question] = {}
                    if parse_question(question).name != "survival":
                        asked = plain_answers(
                            POPULATIONS[name].everybody, parse_question(question)
                        )
                        truth[question] = {which: value for which, value, *_ in asked}
                kind = parse_question(question).name
                if kind == "survival" and named not in truth[question]:
                    truth[question][named] = surviving(
                        POPULATIONS[name].everybody, parse_question(question), named
                    )
                true = truth[question].get(named)
                if kind == "count" and true is not None:
                    true *= int(records) / len(POPULATIONS[name].everybody)
                kinds[kind, int(records), float(epsilon)].append([true, *rest])
    print(
        f"{'kind':10} {'records':>7} {'ε':>5} {'answers':>7} {'refused':>7} {'covers':>7} {'width':>6} {'rows':>7}"
    )
    for (kind, records, epsilon), found in sorted(kinds.items()):
        frame = pd.DataFrame(
            found,
            columns=[
                "true",
                "value",
                "low",
                "high",
                "p",
                "best",
                "rv",
                "rl",
                "rh",
                "rp",
            ],
        )
        given = frame[frame["value"].notna()]
        if kind == "chi2":
            told = f"{(given['p'] <= 0.05).mean():7.3f} {'':6} {(given['rp'] <= 0.05).mean():7.3f}"
        else:
            within = (given["low"] <= given["true"]) & (given["true"] <= given["high"])
            naive = (given["rl"] <= given["true"]) & (given["true"] <= given["rh"])
            ratio = (
                (given["high"] - given["low"]) / given["best"].astype(float)
            ).median()
            told = f"{within.mean():7.3f} {ratio:6.2f} {naive.mean():7.3f}"
        print(
            f"{kind:10} {records:>7} {epsilon:>5g} {len(frame):>7} {1 - len(given) / len(frame):7.2f} {told}"
        )
    print(
        "covers: of nominal 95 % (chi2: rejected at 5 %); width: over the best alone; rows: the same of synthetic rows."
    )


if __name__ == "__main__":
    started = time.time()
    main()
    print(f"{time.time() - started:.0f} s")
