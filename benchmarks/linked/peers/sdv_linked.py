"""SDV on linked tables, without privacy: HMA on all of them, PAR on the first two. Runs in an environment of its own.

    python peers/sdv_linked.py hma|par --train FOLDER --schema TOML --seed S --parents N --out FOLDER --meta JSON
        [--most M] [--epochs E]

Both take their defaults, but for what is said on the command line: at most M parents are learnt from, drawn at random,
and PAR has E epochs. What was said goes to --meta, so that the page can tell.
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from sdv.metadata import Metadata
from sdv.multi_table import HMASynthesizer
from sdv.sequential import PARSynthesizer

Frames = dict[str, pd.DataFrame]
NUMBERS = ("integer", "decimal", "continuous")


def read(folder: Path, tables: dict[str, Any], *, most: int, seed: int) -> Frames:
    """Reads the tables of at most so many parents, and what hangs on these; keys are text."""
    frames: Frames = {}
    for name, table in tables.items():
        levels = [
            column
            for column, form in table["columns"].items()
            if form["kind"] not in (*NUMBERS, "date")
        ]
        keys = [table[key] for key in ("key", "parent_key") if key in table]
        frame = pd.read_csv(
            folder / f"{name}.csv", dtype=dict.fromkeys([*levels, *keys], str)
        )
        for column, form in table["columns"].items():
            if form["kind"] == "date":
                frame[column] = pd.to_datetime(frame[column])
        if "parent" not in table:
            frame = frame.sample(min(most, len(frame)), random_state=seed)
        else:
            parent = tables[table["parent"]]
            frame = frame[
                frame[table["parent_key"]].isin(frames[table["parent"]][parent["key"]])
            ]
        frames[name] = frame.reset_index(drop=True)
    return frames


def metadata(tables: dict[str, Any]) -> Metadata:
    """Describes the tables as SDV has it."""
    found: dict[str, Any] = {
        "tables": {},
        "relationships": [],
        "METADATA_SPEC_VERSION": "V1",
    }
    for name, table in tables.items():
        columns = {column: described(form) for column, form in table["columns"].items()}
        columns |= {
            table[key]: {"sdtype": "id"}
            for key in ("key", "parent_key")
            if key in table
        }
        found["tables"][name] = {"columns": columns} | (
            {"primary_key": table["key"]} if "key" in table else {}
        )
        if "parent" in table:
            found["relationships"].append(
                {
                    "parent_table_name": table["parent"],
                    "child_table_name": name,
                    "parent_primary_key": tables[table["parent"]]["key"],
                    "child_foreign_key": table["parent_key"],
                }
            )
    return Metadata.load_from_dict(found)


def described(form: dict[str, Any]) -> dict[str, str]:
    """Describes a column as SDV has it."""
    if form["kind"] == "date":
        return {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"}
    return {"sdtype": "numerical" if form["kind"] in NUMBERS else "categorical"}


def hma(
    frames: Frames, tables: dict[str, Any], parents: int
) -> tuple[Frames, dict[str, Any]]:
    """Fits HMA and samples about as many parents as asked."""
    synthesizer = HMASynthesizer(metadata(tables), verbose=False)
    synthesizer.fit(frames)
    root = next(iter(frames))
    return synthesizer.sample(scale=parents / len(frames[root])), {}


def par(
    frames: Frames, tables: dict[str, Any], parents: int, epochs: int
) -> tuple[Frames, dict[str, Any]]:
    """Fits PAR to the flat table of the first two, the parents' columns as context, and puts its rows apart."""
    (root, parent), (name, child) = list(tables.items())[:2]
    key, context = parent["key"], list(parent["columns"])
    rows = (
        frames[name]
        .rename(columns={child["parent_key"]: key})
        .merge(frames[root], on=key)
    )
    columns = {
        column: described(form)
        for table in (parent, child)
        for column, form in table["columns"].items()
    }
    columns[key] = {"sdtype": "id"}
    described_rows = Metadata.load_from_dict(
        {
            "tables": {
                name: {
                    "columns": columns,
                    "sequence_key": key,
                    "sequence_index": child["order"],
                }
            },
            "relationships": [],
            "METADATA_SPEC_VERSION": "V1",
        }
    )
    synthesizer = PARSynthesizer(
        described_rows, context_columns=context, epochs=epochs, cuda=False
    )
    synthesizer.fit(rows[[key, *context, *child["columns"]]])
    made = synthesizer.sample(num_sequences=parents)
    people = made.groupby(key, as_index=False)[context].first()
    visits = made[[key, *child["columns"]]].rename(columns={key: child["parent_key"]})
    return {root: people, name: visits}, {"epochs": epochs}


def main() -> None:
    """Reads the command line, fits, samples, and writes a file for each table."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=("hma", "par"))
    for name in ("--train", "--schema", "--out", "--meta"):
        parser.add_argument(name, type=Path, required=True)
    for name in ("--seed", "--parents", "--most", "--epochs"):
        parser.add_argument(name, type=int, required=True)
    options = parser.parse_args()
    tables = tomllib.loads(options.schema.read_text(encoding="utf-8"))["tables"]
    frames = read(options.train, tables, most=options.most, seed=options.seed)
    learnt = len(next(iter(frames.values())))
    started = time.perf_counter()
    if options.method == "hma":
        made, settings = hma(frames, tables, options.parents)
    else:
        made, settings = par(frames, tables, options.parents, options.epochs)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, frame in made.items():
        frame.to_csv(options.out / f"{name}.csv", index=False)
    meta = {
        "seconds": time.perf_counter() - started,
        "version": f"sdv {version('sdv')}",
        "settings": settings | {"parents": learnt},
    }
    options.meta.write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
