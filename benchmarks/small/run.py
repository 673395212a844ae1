"""Runs what has no answer yet, and writes results.json: see README.md."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from harness.options import Option, needed, optional, read_options
from harness.results import write_json
from small_scores import score
from small_tables import SIMULATED

import noisegate
from noisegate import Schema
from noisegate.schema import EncodedTable
from noisegate.schema.decode import decode
from noisegate.sources.frames import read_table

RECORDS, EPSILONS, SEEDS = (
    (200, 1000, 5000, 32_000, 1_000_000),
    (0.01, 0.1, 1.0, 10.0),
    3,
)
METHODS: dict[str, dict[str, Any] | None] = {
    "uniform": None,
    "single columns": {"pairs": "none"},
    "default": {},
}
# Synthetic records that are scored, and real ones that models are scored on; a table of a million is simulated once.
DRAWN, TESTED, MILLION = 20_000, 10_000, "clinic"
ADULT = Path(__file__).parents[1] / "adult" / "schema.toml"
Run = tuple[str, int, float, int, str]


@lru_cache(maxsize=1)
def table(
    name: str, records: int, data: Path | None
) -> tuple[pa.Table, pa.Table, Schema] | None:
    """Returns private records, others to test on, and the schema; None where there are not as many."""
    if name in SIMULATED:
        (train, schema), (test, _) = (
            SIMULATED[name](records, 0),
            SIMULATED[name](TESTED, 1),
        )
        return train, test, schema
    if data is None:
        raise SystemExit(
            "adult needs --data DIR, a folder with train.csv and test.csv of the UCI table"
        )
    schema = Schema.from_toml(ADULT)
    train, test = (
        read_table(data / f"{part}.csv", schema) for part in ("train", "test")
    )
    return (
        (train.slice(0, records), test.slice(0, TESTED), schema)
        if records <= len(train)
        else None
    )


def uniform(schema: Schema, seed: int) -> pa.Table:
    """Returns records drawn uniformly from the domain: every level, and every number between the bounds, alike."""
    random, layout = np.random.default_rng(seed), schema.layout
    codes = [random.integers(0, column.size, DRAWN) for column in layout.coded]
    numeric = random.random((DRAWN, len(layout.numeric)))
    return decode(
        EncodedTable(numeric, np.stack(codes, axis=1).astype(np.int32)), schema
    )


def answer(run: Run, data: Path | None) -> dict[str, Any] | None:
    """Returns the figures of a run; None where the table has fewer records."""
    name, records, epsilon, seed, method = run
    found = table(name, records, data)
    if found is None:
        return None
    train, test, schema = found
    settings, started = METHODS[method], time.process_time()
    if settings is None:
        synthetic = uniform(schema, seed)
    else:
        model = noisegate.synthesize(
            train,
            schema=schema,
            epsilon=epsilon,
            method="pairwise",
            seed=seed,
            **settings,
        )
        synthetic = model.sample(DRAWN, seed=seed)
    seconds = time.process_time() - started
    keys = ("table", "records", "epsilon", "seed", "method")
    return (
        dict(zip(keys, run, strict=True))
        | {"seconds": seconds}
        | score(synthetic, train, test, schema)
    )


def runs(options: argparse.Namespace) -> Iterator[Run]:
    """Yields all runs, one table and size after another; uniform records need no budget and are drawn once."""
    for name, records in product(options.tables, options.records):
        if records == max(RECORDS) and name != MILLION:
            continue
        yield name, records, 0.0, 0, "uniform"
        for epsilon, seed, method in product(
            options.epsilons, range(options.seeds), METHODS
        ):
            if METHODS[method] is not None:
                yield name, records, epsilon, seed, method


def main() -> None:
    """Reads the command line, and keeps results.json up to date after each run."""
    options = read_options(
        __doc__,
        out=needed(Path),
        data=optional(Path),
        tables=Option(kind=str, choices=tuple((*SIMULATED, "adult")), is_list=True),
        records=RECORDS,
        epsilons=EPSILONS,
        seeds=SEEDS,
    )
    options.tables = options.tables or (
        *SIMULATED,
        *(("adult",) if options.data else ()),
    )
    path = options.out / "results.json"
    options.out.mkdir(parents=True, exist_ok=True)
    results = json.loads(path.read_text()) if path.exists() else []
    done = {
        tuple(row[key] for key in ("table", "records", "epsilon", "seed", "method"))
        for row in results
    }
    for run in runs(options):
        if run in done or (found := answer(run, options.data)) is None:
            continue
        results.append(found)
        beside = path.with_suffix(".part")
        write_json(beside, results, indent=1)
        beside.replace(path)
        print(
            *run,
            *(f"{found[key]:.3f}" for key in ("distance_1", "distance_2", "roc_auc")),
            flush=True,
        )


if __name__ == "__main__":
    main()
