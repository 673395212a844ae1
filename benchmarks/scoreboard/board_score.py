"""The figures of one copy of a set, as JSON on standard output; always by the code of this checkout.

    python benchmarks/scoreboard/board_score.py SET FOLDER --copy DIR

They are computed on real data, outside the guarantee.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from board_figures import SETS
from harness.options import needed, positional, read_options

from noisegate import Schema
from noisegate.sources.frames import read_table
from noisegate_evaluate.metrics.analyses import EqualMass, Regressions
from noisegate_evaluate.reading import read_numbers

BENCHMARKS = Path(__file__).parents[1]
sys.path += [str(BENCHMARKS / "tables"), str(BENCHMARKS / "linked")]

import linked_scores  # noqa: E402
import regression  # noqa: E402
from kept import kept_figures  # noqa: E402
from linked_sets import schema_of  # noqa: E402
from scoring import Judge  # noqa: E402

_TAILS = (0.01, 0.99)


def table_figures(folder: Path, copy: Path) -> dict[str, float]:
    """Returns the figures of a synthetic table, those that there are.

    Args:
        folder: With train.csv, test.csv and schema.toml.
        copy: The file of the copy.
    """
    judge = Judge(folder)
    synthetic, train, schema = read_table(copy), judge.train, judge.schema
    figures = judge.score(copy)
    kept, error, pearson_kept, _ = kept_figures(synthetic, train, schema)
    figures |= {
        "associations_kept": kept,
        "associations_error": error,
        "pearson_kept": pearson_kept,
        "tail_error": tail_error(synthetic, train, schema),
    }
    equal_mass = EqualMass.measured(synthetic, train, schema=schema, seed=0)
    if equal_mass is not None:
        figures["equal_mass_2"] = equal_mass.pairs
    regressions = Regressions.measured(synthetic, train, schema=schema, seed=0)
    if regressions is not None:
        figures["regression_error"] = regressions.error
    if folder.name == "regression":
        errors = np.abs(regression.coefficients(synthetic) - regression.TRUTH)
        figures["ols_error"] = float(errors.mean())
    return figures


def tail_error(synthetic: pa.Table, real: pa.Table, schema: Schema) -> float:
    """Returns the mean error of the 1 and 99 % quantiles of all numbers.

    Each is over the real distance of the quantile from the median; one that is the
    median is left out. NaN where there is none.
    """
    errors = []
    for column in schema.file_layout.numeric:
        numbers = [
            read_numbers(table, column, schema).unit for table in (synthetic, real)
        ]
        synthetic_tails, real_tails = (
            np.nanquantile(values, _TAILS, method="inverted_cdf") for values in numbers
        )
        distances = np.abs(real_tails - np.nanmedian(numbers[1]))
        has_tail = distances > 0
        gaps = np.abs(synthetic_tails - real_tails)
        errors += list(gaps[has_tail] / distances[has_tail])
    return float(np.mean(errors)) if errors else math.nan


def linked_figures(name: str, folder: Path, copies: Path) -> dict[str, float]:
    """Returns the figures of synthetic linked tables: means over links and tables."""

    def read(place: Path) -> dict[str, pa.Table]:
        files = sorted(place.glob("*.parquet"))
        return {path.stem: pyarrow.parquet.read_table(path) for path in files}

    schema = schema_of(name)
    judge = linked_scores.Judge(read(folder / "train"), read(folder / "test"), schema)
    return summary_of_links(judge.score(read(copies)))


def summary_of_links(scores: Mapping[str, Any]) -> dict[str, float]:
    """Returns one figure of each kind from the scores of all links and tables."""
    links = list(scores["links"].values())
    figures: dict[str, float] = {}
    for name in (*linked_scores.MEANS, "gaps"):
        values = [link[name] for link in links if link[name] is not None]
        if values:
            figures[name] = float(np.mean(values))
    flaws = (*linked_scores.FLAWS, "too_early")
    figures["flaws"] = sum(link.get(name) or 0 for link in links for name in flaws)
    figures["distance_2"] = float(np.mean(list(scores["pairs"].values())))
    if scores["roc_auc"] is not None:
        figures["roc_auc"] = scores["roc_auc"]
    return figures


def main() -> None:
    """Prints the figures of a copy; one that is not a number is left out."""
    options = read_options(
        __doc__,
        name=positional(str, choices=list(SETS)),
        folder=positional(Path),
        copy=needed(Path),
    )
    if SETS[options.name].is_linked:
        figures = linked_figures(options.name, options.folder, options.copy)
    else:
        figures = table_figures(options.folder, options.copy / "copy.parquet")
    print(json.dumps({n: value for n, value in figures.items() if value == value}))


if __name__ == "__main__":
    main()
