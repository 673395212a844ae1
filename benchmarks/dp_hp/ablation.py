"""DP-HP on discretised Adult with its products as in the paper, for the ablations of Tables 5 and 8.

Every column is a number, as in the paper: one of the codes of `discretised`, with an ordinary series from its lowest
one. The products are of random columns, a release each, matched one after another; ε is split by least noise.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from authors_codes import matched_rows, read_codes
from discretised import SCHEMA, discretise, domain, published_distance
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from noisegate import DPHP, Gate, Schema, UserError
from noisegate.schema import Integer
from noisegate.sources.frames import read_table
from noisegate_evaluate import CAVEAT

ALPHAS = (3, 4)


def options_of(
    what: str, values: str, default: Sequence[float], kind: type
) -> argparse.Namespace:
    """Returns what the command was asked; `values` names the setting that varies."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with train.csv of Adult"
    )
    parser.add_argument(
        "--codes",
        type=Path,
        help="folder with sdgym_bounded_adult.npy: take its records alone",
    )
    parser.add_argument(
        f"--{values}", type=kind, nargs="+", default=list(default), dest="values"
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--steps",
        type=int,
        default=400,
        help="of the fit; the paper's eight epochs are 80 of a tenth",
    )
    parser.add_argument("--product-order", type=int, default=5, help="the paper: 10")
    parser.add_argument(
        "--json",
        type=Path,
        help="keep the runs there; one that is there is not made again",
    )
    found = parser.parse_args()
    if found.seeds < 1 or found.steps < 1:
        parser.error("--seeds and --steps must be at least 1")
    return found


def table_of(options: argparse.Namespace) -> tuple[pa.Table, Schema]:
    """Returns the records as codes, and their schema."""
    train = read_table(options.data / "train.csv", Schema.from_toml(SCHEMA))
    codes = discretise(train, "bounded")
    if options.codes:
        codes = codes[matched_rows(read_codes(options.codes), codes)[0]]
    sizes = domain("bounded")
    schema = Schema(
        tuple(
            Integer(name=name, lower=0, upper=size - 1) for name, size in sizes.items()
        )
    )
    return pa.table(dict(zip(sizes, codes.T, strict=True))), schema


def run(
    table: pa.Table,
    schema: Schema,
    settings: Mapping[str, Any],
    *,
    epsilon: float,
    seed: int,
) -> dict[str, float]:
    """Returns the distances of one fit as the paper's code computes them, and its seconds."""
    began = time.process_time()
    gate = Gate(
        table,
        schema=schema,
        epsilon=epsilon,
        adjacency="replace-one",
        records=table.num_rows,
    )
    made = (
        DPHP(**settings, seed=seed)
        .fit(gate, device="cpu")
        .sample(table.num_rows, seed=seed)
    )
    seconds = time.process_time() - began
    codes = [
        np.column_stack([one[name].to_numpy() for name in schema.names]).astype(
            np.int64
        )
        for one in (made, table)
    ]
    return {f"alpha_{alpha}": published_distance(*codes, alpha) for alpha in ALPHAS} | {
        "cpu_s": seconds
    }


def ablation(
    options: argparse.Namespace,
    title: str,
    setting: str,
    paper: Mapping[float, Sequence[float]],
    **fixed: Any,
) -> int:
    """Runs a table, one row for each value of `setting`, beside the paper's; 2 when it cannot run."""
    console = Console()
    runs = (
        json.loads(options.json.read_text(encoding="utf-8"))["runs"]
        if options.json and options.json.exists()
        else []
    )
    epsilon = fixed.pop("epsilon")
    try:
        table, schema = table_of(options)
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("fits", total=len(options.values) * options.seeds)
            for value in options.values:
                for seed in range(options.seeds):
                    asked = {
                        "value": value,
                        "seed": seed,
                        "steps": options.steps,
                        "product_order": options.product_order,
                    }
                    asked["records"] = table.num_rows
                    if not any(asked.items() <= one.items() for one in runs):
                        settings = _settings(options) | fixed | {setting: value}
                        runs.append(
                            asked
                            | run(table, schema, settings, epsilon=epsilon, seed=seed)
                        )
                        if options.json:
                            content = {
                                "caveat": CAVEAT,
                                "epsilon": epsilon,
                                "runs": runs,
                            }
                            options.json.write_text(
                                json.dumps(content, indent=2) + "\n", encoding="utf-8"
                            )
                    progress.advance(task)
    except UserError as error:
        console.print(f"[red]{error}[/red]")
        return 2
    _print(
        console,
        title,
        setting,
        paper,
        [one for one in runs if one["value"] in options.values],
    )
    return 0


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "products": "random",
        "product_order": options.product_order,
        "matched": "in-turn",
        "components": 100,
        "fit_options": {
            "steps": options.steps,
            "learning_rate": 0.1,
            "stop_at_noise": False,
        },
    }


def _print(
    console: Console,
    title: str,
    setting: str,
    paper: Mapping[float, Sequence[float]],
    runs: Sequence[Mapping[str, Any]],
) -> None:
    page = Table(title=title, title_justify="left")
    for heading in (setting, "α = 3", "α = 4", "the paper, α = 3", "α = 4", "seeds"):
        page.add_column(heading, justify="right")
    for value in dict.fromkeys(one["value"] for one in runs):
        of_value = [one for one in runs if one["value"] == value]
        ours = [
            np.mean([one[f"alpha_{alpha}"] for one in of_value]) for alpha in ALPHAS
        ]
        theirs = [f"{figure:.3f}" for figure in paper.get(value, ())] or ["", ""]
        page.add_row(
            f"{value:g}",
            *(f"{figure:.3f}" for figure in ours),
            *theirs,
            str(len(of_value)),
        )
    console.print(page)
    console.print(
        "Reduced: order of the products and steps as given; one mixture of products, not the paper's network."
    )
    console.print(CAVEAT)
