"""What every peer's script shares: its command line, the public domain, and where its answer goes.

A peer runs in an environment of its own, without noisegate, so this file needs only pandas and Python 3.11. Contract:

    python peers/NAME.py --train CSV --schema TOML --epsilon E --delta D --seed S --out CSV --meta JSON

`run(fit)` reads the table, times `fit` from the table in memory to the synthetic table in memory, and writes both
answers. Imports are not in the times. Seconds of the processor are noted too: other work on the machine does not count
in them.
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

BINS = 32  # equal-width public bins of a numeric column, for peers that do not bin themselves


@dataclass(frozen=True, kw_only=True)
class Request:
    """One question to a peer.

    `bounds` maps each numeric column to (lower, upper, whole numbers or not); `levels` maps each other column to its
    public levels as text, where a missing value is a level of its own.
    """

    train: pd.DataFrame
    bounds: dict[str, tuple[float, float, bool]]
    levels: dict[str, list[str]]
    epsilon: float
    delta: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The synthetic table, and the settings that made it, for the record."""

    synthetic: pd.DataFrame
    settings: dict[str, Any]


def run(package: str, fit: Callable[[Request], Answer]) -> None:
    """Answers one command line; `package` is the distribution whose version is recorded."""
    parser = argparse.ArgumentParser()
    for name in ("--train", "--schema", "--out", "--meta"):
        parser.add_argument(name, type=Path, required=True)
    for name in ("--epsilon", "--delta"):
        parser.add_argument(name, type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    request = read(options.train, options.schema, options.epsilon, options.delta, options.seed)
    started, worked = time.perf_counter(), time.process_time()
    answer = fit(request)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
    answer.synthetic[list(request.train.columns)].to_csv(options.out, index=False)
    meta = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "version": f"{package} {version(package)}",
        "settings": answer.settings,
    }
    options.meta.write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")


def read(train: Path, schema: Path, epsilon: float, delta: float, seed: int) -> Request:
    """Reads the table with the types of the public schema; numbers are clamped to their bounds, as the schema says."""
    description = tomllib.loads(schema.read_text(encoding="utf-8"))
    absent = description.get("missing_values", [""])
    columns = description["columns"]
    bounds = {
        name: (column["lower"], column["upper"], column["kind"] == "integer")
        for name, column in columns.items()
        if column["kind"] in ("integer", "continuous")
    }
    levels = {
        name: [str(level) for level in column.get("levels", ["false", "true"])]
        + absent[:1] * column.get("missing", False)
        for name, column in columns.items()
        if name not in bounds
    }
    table = pd.read_csv(train, dtype=dict.fromkeys(levels, str), keep_default_na=False, usecols=list(columns))
    table = table[list(columns)]
    for name, (lower, upper, whole) in bounds.items():
        table[name] = table[name].clip(lower, upper).astype("int64" if whole else "float64")
    return Request(train=table, bounds=bounds, levels=levels, epsilon=epsilon, delta=delta, seed=seed)
