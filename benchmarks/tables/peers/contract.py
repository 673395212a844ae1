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
import os
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
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
    request = read(
        options.train, options.schema, options.epsilon, options.delta, options.seed
    )
    started, worked = time.perf_counter(), _worked()
    answer = fit(request)
    seconds, cpu_seconds = time.perf_counter() - started, _worked() - worked
    answer.synthetic[list(request.train.columns)].to_csv(options.out, index=False)
    meta = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "version": f"{package} {version(package)}",
        "settings": answer.settings,
    }
    options.meta.write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")


def _worked() -> float:
    """Seconds of the processor so far, of this process and of its children that ended."""
    return sum(os.times()[:4])


def edges(lower: float, upper: float, whole: bool) -> list[Any]:
    """Edges of the public bins, open to the left; bins of whole numbers have whole edges."""
    if whole:
        return [
            int(edge)
            for edge in np.unique(np.floor(np.linspace(lower - 1, upper, BINS + 1)))
        ]
    return [float(edge) for edge in np.linspace(lower, upper, BINS + 1)]


def coded(request: Request) -> tuple[pd.DataFrame, dict[str, int]]:
    """The table as codes, for peers that take nothing else, and how many codes each column has."""
    codes, sizes = {}, {}
    for name, column in request.train.items():
        if name in request.bounds:
            cuts = edges(*request.bounds[name])
            # The first bin also has its lower end.
            codes[name] = np.maximum(
                np.searchsorted(cuts, column.to_numpy(), side="left") - 1, 0
            )
            sizes[name] = len(cuts) - 1
        else:
            codes[name] = column.map(
                {level: code for code, level in enumerate(request.levels[name])}
            ).to_numpy(int)
            sizes[name] = len(request.levels[name])
    return pd.DataFrame(codes), sizes


def decoded(request: Request, codes: pd.DataFrame) -> pd.DataFrame:
    """Codes as a table; a number is drawn evenly within its bin."""
    rng, values = np.random.default_rng(request.seed), {}
    for name in codes.columns:
        code = codes[name].to_numpy(int)
        if name in request.bounds:
            cuts = np.array(edges(*request.bounds[name]))
            whole = request.bounds[name][2]
            low, high = cuts[code], cuts[code + 1]
            values[name] = (
                rng.integers(low + 1, high, endpoint=True)
                if whole
                else rng.uniform(low, high)
            )
        else:
            values[name] = np.array(request.levels[name], dtype=object)[code]
    return pd.DataFrame(values)


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
    table = pd.read_csv(
        train,
        dtype=dict.fromkeys(levels, str),
        keep_default_na=False,
        usecols=list(columns),
    )
    table = table[list(columns)]
    for name, (lower, upper, whole) in bounds.items():
        table[name] = (
            table[name].clip(lower, upper).astype("int64" if whole else "float64")
        )
    return Request(
        train=table,
        bounds=bounds,
        levels=levels,
        epsilon=epsilon,
        delta=delta,
        seed=seed,
    )
