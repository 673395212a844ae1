"""How often was a word reached with the number of records that it takes? Reads the runs of `enough.py`.

    python benchmarks/verdicts/enough_rates.py [FILE]

Runs of one table are alike, so that each table counts once: a rate is the mean over tables of the part of its runs that
reached the word or a better one. Its interval covers 90 % of rates of tables that are drawn again from the same ones.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from cuts import Floats
from harness.options import positional, read_options
from scipy.optimize import minimize_scalar
from summary import markdown

from noisegate.answers.verdict import WORDS
from noisegate.methods.word_odds import ODDS

# What is said is to be true of so many tables.
_SHARE = 0.8
_DRAWS = 10_000
_CERTAINTY_DRAWS = 500
_INTERVAL = (5, 95)

# Of the corpus, by which the numbers in `enough.jsonl` were said.
CERTAINTY = 3 / 4

Run = dict[str, Any]


def read_enough(path: Path) -> list[Run]:
    """Reads the runs that no error stopped."""
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    return [run for run in runs if "error" not in run]


def is_reached(run: Run) -> bool:
    """Returns whether the evaluation found the word that was said, or a better one."""
    return WORDS.index(run["evaluate"]) >= WORDS.index(run["word"])


def rates_of_tables(runs: Sequence[Run]) -> Floats:
    """Returns the part of the runs of each table that reached the word, (tables,)."""
    tables = sorted({run["table"] for run in runs})
    return np.array(
        [
            np.mean([is_reached(run) for run in runs if run["table"] == table])
            for table in tables
        ]
    )


def rate_row(runs: Sequence[Run]) -> list[str]:
    """Returns the number of runs and of tables, and the rate with its interval."""
    rates = rates_of_tables(runs)
    random = np.random.default_rng(0)
    draws = random.choice(rates, size=(_DRAWS, len(rates))).mean(axis=1)
    low, high = np.percentile(draws, _INTERVAL)
    return [
        str(len(runs)),
        str(len(rates)),
        f"{rates.mean():.0%}",
        f"{low:.0%} to {high:.0%}",
    ]


def log_odds_at_number(runs: Sequence[Run]) -> float:
    """Fits the log odds of reaching a word with the very number of records that it takes.

    With more records they grow with the power of the noise that `word_odds` has. Words share them, and each table
    counts once.
    """
    gains = np.array(
        [ODDS[run["word"]].power * math.log(run["factor"]) for run in runs]
    )
    reached = np.array([is_reached(run) for run in runs])
    tables = Counter(run["table"] for run in runs)
    weights = np.array([1 / tables[run["table"]] for run in runs])

    def loss(log_odds: float) -> float:
        margins = np.where(reached, 1, -1) * (log_odds + gains)
        return float(weights @ np.logaddexp(0, -margins))

    return float(minimize_scalar(loss, bounds=(-5, 5), method="bounded").x)


def certainty_for(log_odds: float, share: float = _SHARE) -> float:
    """Returns the share of the corpus for which a word's number reaches the word in a share of these tables."""
    nominal = math.log(CERTAINTY / (1 - CERTAINTY))
    needed = math.log(share / (1 - share)) - log_odds + nominal
    return 1 / (1 + math.exp(-needed))


def redrawn_certainties(runs: Sequence[Run]) -> list[float]:
    """Returns the certainties that tables would need which are drawn again from those of the runs."""
    runs_of_table: dict[str, list[Run]] = {}
    for run in runs:
        runs_of_table.setdefault(run["table"], []).append(run)
    tables = sorted(runs_of_table)
    random = np.random.default_rng(0)
    certainties = []
    for _ in range(_CERTAINTY_DRAWS):
        # A table that is drawn twice counts as two.
        redrawn = [
            {**run, "table": f"{place} {table}"}
            for place, table in enumerate(random.choice(tables, len(tables)))
            for run in runs_of_table[table]
        ]
        certainties.append(certainty_for(log_odds_at_number(redrawn)))
    return certainties


def main() -> None:
    """Prints the rates by word and factor, and the certainty that numbers of records need."""
    beside = Path(__file__).parent / "enough.jsonl"
    runs = read_enough(
        read_options(
            __doc__,
            results=positional(Path, default=beside),
        ).results
    )
    rows = []
    for word in ODDS:
        for factor in sorted({run["factor"] for run in runs}):
            chosen = [
                run for run in runs if (run["word"], run["factor"]) == (word, factor)
            ]
            if chosen:
                rows.append([word, f"{factor:g}", *rate_row(chosen)])
    headings = ["word", "times the number", "runs", "tables", "reached", "interval"]
    print(markdown(headings, rows))
    if len({run["factor"] for run in runs}) == 1:
        return
    log_odds = log_odds_at_number(runs)
    share = 1 / (1 + math.exp(-log_odds))
    certainty = certainty_for(log_odds)
    print(f"\nreached with the very number, by the curves: {share:.0%}")
    print(f"certainty for a share of {_SHARE:.0%}: {certainty:.3f}, which takes")
    for word, odds in ODDS.items():
        factor = odds.noise_for(CERTAINTY) / odds.noise_for(certainty)
        print(f"    {word}: {factor:.2f} times as many records")
    low, high = np.percentile(redrawn_certainties(runs), _INTERVAL)
    print(f"of tables that are drawn again: {low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main()
