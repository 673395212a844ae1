"""Runs SDV in an environment of its own, which this makes; it is no dependency of noisegate."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.csv

TABLES = Path(__file__).parents[1] / "tables"
sys.path.append(str(TABLES))

from isolated import Limits, run_limited  # noqa: E402 - of the bake-off on tables
from peer_packages import environment  # noqa: E402

HERE = Path(__file__).parent
SDV = ("hma", "par")
"""Methods of SDV, without privacy."""

DRAWN = 2_000
"""Parents that are drawn from SDV; PAR takes a second for each dozen."""


def sdv(
    method: str,
    name: str,
    train: dict[str, Any],
    seed: int,
    options: argparse.Namespace,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the tables that SDV makes and its settings; or no tables, and why."""
    made = environment("sdv", options.out.resolve() / "environments")
    if made.error:
        return {}, {"status": "not installed", "error": made.error}
    schema = HERE / "schemas" / f"{name}.toml"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for table, rows in train.items():
            pyarrow.csv.write_csv(rows, place / f"{table}.csv")
        numbers = {
            "seed": seed,
            "parents": DRAWN,
            "most": options.most,
            "epochs": options.epochs,
        }
        command = [
            str(made.python),
            "-Eu",
            str(HERE / "peers" / "sdv_linked.py"),
            method,
            "--train",
            str(place),
        ]
        command += [
            "--schema",
            str(schema),
            "--out",
            str(place / "made"),
            "--meta",
            str(place / "meta.json"),
        ]
        command += [
            text for key, value in numbers.items() for text in (f"--{key}", str(value))
        ]
        limits = Limits(
            seconds=4 * 60 * options.minutes,
            cpu_seconds=60 * options.minutes,
            megabytes=8e3,
        )
        variables = {**os.environ, "OMP_NUM_THREADS": "1"}
        outcome = run_limited(
            command, options.out / f"{name}-{method}.log", limits, variables
        )
        if outcome.status != "done":
            return {}, {
                "status": outcome.status,
                "error": outcome.error.splitlines()[-1],
            }
        tables = {
            path.stem: pyarrow.csv.read_csv(path)
            for path in sorted((place / "made").glob("*.csv"))
        }
        told: dict[str, Any] = json.loads((place / "meta.json").read_text("utf-8"))
        return tables, {
            "seconds": told["seconds"],
            "version": told["version"],
            "settings": told["settings"],
        }
