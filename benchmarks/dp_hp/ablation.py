"""DP-HP on discretised Adult with its products as in the paper, for the ablations of Tables 5 and 8.

Every column is a number, as in the paper: one of the codes of `discretised`, with an ordinary series from its lowest
one. The products are of random columns, a release each, matched one after another; ε is split by least noise.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from authors_codes import matched_rows, read_codes
from discretised import SCHEMA, discretise, domain, published_distance
from harness.options import needed, option, optional, read_options
from harness.printing import print_table
from harness.results import read_json, write_json
from rich.console import Console
from rich.progress import Progress

from noisegate import DPHP, Gate, Schema
from noisegate.schema import Integer
from noisegate.sources.frames import read_table
from noisegate_evaluate import CAVEAT

ALPHAS = (3, 4)


def options_of(
    text: str | None, values: str, default: Sequence[float]
) -> argparse.Namespace:
    """Returns what the command was asked; `values` names the setting that varies."""
    options = read_options(
        text,
        data=needed(Path, "folder with train.csv of Adult"),
        codes=optional(
            Path, "folder with sdgym_bounded_adult.npy: take its records alone"
        ),
        **{values: list(default)},
        seeds=1,
        steps=option(400, "of the fit; the paper's eight epochs are 80 of a tenth"),
        product_order=option(5, "the paper: 10"),
        json=optional(Path, "keep the runs there; one that is there is not made again"),
    )
    options.values = getattr(options, values)
    return options


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
    """Runs a table, one row for each value of `setting`, beside the paper's."""
    console = Console()
    runs = read_json(options.json, {"runs": []})["runs"]
    epsilon = fixed.pop("epsilon")
    table, schema = table_of(options)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("fits", total=len(options.values) * options.seeds)
        for value, seed in itertools.product(options.values, range(options.seeds)):
            key = {
                "value": value,
                "seed": seed,
                "steps": options.steps,
                "product_order": options.product_order,
                "records": table.num_rows,
            }
            if not any(key.items() <= done.items() for done in runs):
                settings = _settings(options) | fixed | {setting: value}
                figures = run(table, schema, settings, epsilon=epsilon, seed=seed)
                runs.append(key | figures)
                content = {"caveat": CAVEAT, "epsilon": epsilon, "runs": runs}
                write_json(options.json, content)
            progress.advance(task)
    _print(
        title, setting, paper, [one for one in runs if one["value"] in options.values]
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
    title: str,
    setting: str,
    paper: Mapping[float, Sequence[float]],
    runs: Sequence[Mapping[str, Any]],
) -> None:
    rows = []
    for value in dict.fromkeys(one["value"] for one in runs):
        of_value = [one for one in runs if one["value"] == value]
        means = [
            np.mean([one[f"alpha_{alpha}"] for one in of_value]) for alpha in ALPHAS
        ]
        published = [f"{figure:.3f}" for figure in paper.get(value, ())] or ["", ""]
        ours = [f"{mean:.3f}" for mean in means]
        rows.append([f"{value:g}", *ours, *published, len(of_value)])
    headings = [setting, "α = 3", "α = 4", "the paper, α = 3", "α = 4", "seeds"]
    print_table(title, headings, rows, n_left=0)
    print(
        "Reduced: order of the products and steps as given; one mixture of products, not the paper's network."
    )
    print(CAVEAT)
