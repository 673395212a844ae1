"""How often is a verdict right? Plans and fits of many tables, sizes and ε, beside what an evaluation then finds.

    python benchmarks/tables/verdict.py --out DIR [--data DIR] [--tables ...] [--epsilons ...] [--sizes ...]

Simulated tables are built in; with `--data` (see README.md) real ones stand beside them. Every second table, in the
order of their names, is for choosing the constants of `noisegate.methods.forecast`; the figures that count are those
of the others. One line a run goes to DIR/verdicts.jsonl, at once: stop it and give it again as you like.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import simulated
from causal import SIMULATED
from documented import documented

from noisegate import Budget, Gate, Pairwise, Schema
from noisegate.answers.verdict import WORDS, word_of_misplaced
from noisegate.sources.frames import read_table
from noisegate_evaluate import Report, evaluate_tables, three

HERE = Path(__file__).parent
REAL = ("adult", "diamonds", "fair", "loans", "nlswork", "randhie")
EPSILONS, SIZES = (0.1, 1.0, 10.0), (300, 1_500, 8_000)
TEST, DRAWN = 3_000, 3_000
BOTH = ("associations_kept", "coefficients_kept")
"""What a fit expects and an evaluation finds."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A table to be judged on.

    Attributes:
        name: Of the table.
        train: Records to fit.
        test: Other records.
        schema: Public knowledge about both.
    """

    name: str
    train: pa.Table
    test: pa.Table
    schema: Schema


def case(name: str, data: Path | None) -> Case:
    """Returns a table by its name; a RuntimeError with the reason where its file is not there."""
    if name in SIMULATED or name == "stays":
        rows = max(SIZES) + TEST
        table, schema = (
            simulated.million(rows) if name == "stays" else SIMULATED[name](rows)
        )
        return Case(
            name=name,
            train=table.slice(0, max(SIZES)),
            test=table.slice(max(SIZES)),
            schema=schema,
        )
    folder = data
    if name in ("fair", "randhie"):
        found = importlib.util.find_spec("statsmodels")
        folder = Path(found.origin).parent if found and found.origin else None
    if folder is None:
        raise RuntimeError(f"{name} needs --data DIR, or the package statsmodels")
    if name == "adult":
        schema = Schema.from_toml(HERE.parent / "adult" / "schema.toml")
        home = next((path.parent for path in sorted(folder.rglob("train.csv"))), folder)
        return Case(
            name=name,
            train=read_table(home / "train.csv", schema),
            test=_head(home, schema),
            schema=schema,
        )
    schema = Schema.from_toml(HERE / "schemas" / f"{name}.toml")
    table, train = documented(name, folder, schema)
    return Case(
        name=name,
        train=table.slice(0, train),
        test=table.slice(train, TEST),
        schema=schema,
    )


def _head(home: Path, schema: Schema) -> pa.Table:
    # The last records of the training file: the test file of Adult is read for nothing but final figures.
    return read_table(home / "train.csv", schema).slice(28_000, TEST)


def judged(of: Case, epsilon: float, records: int) -> dict[str, Any]:
    """Returns what a plan says, what the fit says, and what an evaluation finds, with the figures behind them."""
    order = np.random.default_rng(records).permutation(min(of.train.num_rows, 28_000))
    train = of.train.take(order[:records])
    method, budget = Pairwise(), Budget(epsilon=epsilon)
    expected = method.forecast(of.schema, budget, records)
    planned = method.verdict(of.schema, budget, records)
    made = method.fit(Gate(train, schema=of.schema, epsilon=epsilon))
    # Of a larger table the first records stand for all; what that does to distances is known and taken out.
    suite = replace(
        three(), recipes=three().recipes[::2]
    )  # without the forest, which is slow and says the same
    found: Report = evaluate_tables(
        made.sample(DRAWN, seed=1),
        of.test,
        of.schema,
        train.slice(0, DRAWN),
        classifiers=suite,
    )
    assert (
        planned is not None and made.verdict is not None and found.verdict is not None
    )
    singles, pairs = (found.marginals.order(order).beyond_sampling for order in (1, 2))
    return {
        "table": of.name,
        "epsilon": epsilon,
        "records": records,
        "plan": planned.word,
        "fit": made.verdict.word,
        "counted": made.verdict.figures["records"],
        "found": found.verdict.word,
        "noise": expected.noise,
        "expected": [expected.singles, expected.pairs],
        "out_of_place": [singles, pairs],
        "kept": found.verdict.figures.get("kept"),
        **{
            name: [one.figures.get(name) for one in (made.verdict, found.verdict)]
            for name in BOTH
        },
        "distance": made.summary.discrepancy,
    }


def halves(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the tables to choose constants on, and those to report."""
    ordered = sorted(set(names))
    return ordered[::2], ordered[1::2]


def law(rows: Sequence[dict[str, Any]], place: int) -> tuple[float, float]:
    """Returns the noise at which half the records are out of place, and the power of the odds.

    Of pairs (place 1) those with which words are the fewest steps off, then those that are nearest in the mean, as of
    single columns (place 0).
    """
    noise = np.array([row["noise"] for row in rows])
    share = np.array([row["out_of_place"][place] for row in rows])
    found = [WORDS.index(row["found"]) for row in rows]

    def cost(half: float, power: float) -> tuple[float, float]:
        odds = (noise / half) ** power
        told = odds / (1 + odds)
        steps = [
            abs(WORDS.index(word_of_misplaced(one)) - word)
            for one, word in zip(told, found, strict=True)
        ]
        return (float(np.mean(steps)) if place else 0.0), float(
            np.abs(told - share).mean()
        )

    choices = [
        (half, power)
        for half in np.arange(0.4, 4, 0.05)
        for power in np.arange(0.5, 1.1, 0.025)
    ]
    half, power = min(choices, key=lambda choice: cost(*choice))
    return round(float(half), 3), round(float(power), 3)


def agreement(rows: Sequence[dict[str, Any]], source: str) -> dict[str, float]:
    """Returns how often the word of a plan or a fit was the one that was found, or the next, and how often too good."""
    steps = [WORDS.index(row[source]) - WORDS.index(row["found"]) for row in rows]
    return {
        "runs": len(rows),
        "same": float(np.mean([step == 0 for step in steps])),
        "within_one": float(np.mean([abs(step) <= 1 for step in steps])),
        "too_good": float(np.mean([step > 0 for step in steps])),
        "two_steps_too_good": sum(step > 1 for step in steps),
    }


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the constants that the first half gives, and how often words are right on each half."""
    told: dict[str, Any] = {}
    for half, names in zip(
        ("chosen_on", "reported"), halves(row["table"] for row in rows), strict=True
    ):
        some = [row for row in rows if row["table"] in names]
        told[half] = {
            "tables": names,
            **{source: agreement(some, source) for source in ("plan", "fit")},
        }
        told[half]["found"] = {
            word: sum(row["found"] == word for row in some) for word in WORDS
        }
        if half == "chosen_on":
            told["law"] = {"singles": law(some, 0), "pairs": law(some, 1)}
    return told


def main() -> None:
    """Judges, and prints how often the words were right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of verdicts.jsonl"
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with the files of adult, diamonds, loans and nlswork",
    )
    parser.add_argument("--tables", nargs="+", default=[*SIMULATED, "stays", *REAL])
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "verdicts.jsonl"
    rows = (
        [json.loads(line) for line in path.read_text().splitlines()]
        if path.exists()
        else []
    )
    done = {(row["table"], row["epsilon"], row["records"]) for row in rows}
    for name in options.tables:
        try:
            of = case(name, options.data)
        except RuntimeError as error:
            print(error)
            continue
        for records in sorted({min(size, of.train.num_rows) for size in options.sizes}):
            for epsilon in options.epsilons:
                if (name, epsilon, records) not in done:
                    rows.append(judged(of, epsilon, records))
                    with path.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
                    print(
                        {
                            key: value
                            for key, value in rows[-1].items()
                            if key != "expected"
                        },
                        flush=True,
                    )
    print(json.dumps(summary(rows), indent=2))


if __name__ == "__main__":
    main()
