"""Linked tables: synthetic ones beside real ones, of public sets and a simulated clinic.

    python benchmarks/linked/run.py --data DIR --out OUT [--sets pbcseq,nlswork,clinic] [--epsilon 1,10] [--seeds 0,1,2]
        [--parents 50000]

One seed of everything comes first, then the next. OUT/results.json holds what is done; the command given again goes on.
The figures are computed on real data, outside the guarantee. `page.py` writes them down.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.measuring import measured_seconds
from harness.options import Option, fail, needed, option, optional, read_options
from harness.results import Rows
from linked_scores import Judge
from linked_sets import CLINIC, SETS, Tables, load, schema_of

from noisegate import Gate
from noisegate.methods.linked import Linked
from noisegate.schema.linked.schema import LinkedSchema

MIN_DRAWN = 5_000
MAX_DRAWN = 20_000
"""Parents that are drawn: enough that their own chance hardly counts beside that of the real ones."""


@lru_cache(maxsize=1)
def prepared(
    name: str, data: Path | None, parents: int
) -> tuple[Tables, LinkedSchema, Judge]:
    """Returns the training tables of a set, its schema, and what scores synthetic ones."""
    (train, test), schema = load(name, data, parents=parents), schema_of(name)
    return train, schema, Judge(train, test, schema)


def figures(run: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Returns the figures of a run."""
    train, schema, judge = prepared(run["set"], options.data, options.parents)
    n_parents = len(train[schema.root.name])
    if run["method"] == "real":
        return {"parents": n_parents, **judge.floor()}
    n_drawn = min(max(n_parents, MIN_DRAWN), MAX_DRAWN)
    with measured_seconds() as seconds:
        gate = Gate(train, schema=schema, epsilon=run["epsilon"])
        model = Linked(seed=run["seed"]).fit(gate)
        synthetic = dict(model.sample(n_drawn, seed=run["seed"]))
    return {
        "seconds": seconds["wall"],
        "drawn": len(synthetic[schema.root.name]),
        **judge.score(synthetic, seed=run["seed"]),
    }


def runs(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields all runs: one seed, then the next; real records are measured once."""
    for seed, name in product(options.seeds, options.sets):
        if seed == options.seeds[0]:
            yield {"set": name, "method": "real", "epsilon": None, "seed": 0}
        for epsilon in options.epsilon:
            yield {"set": name, "method": "linked", "epsilon": epsilon, "seed": seed}


def main() -> int:
    """Runs what is missing, and keeps results.json up to date after each run."""
    options = _options()
    rows = Rows(options.out / "results.json")
    for run in runs(options):
        try:
            row = rows.make(run, partial(figures, run, options))
        except RuntimeError as error:
            print(f"{run['set']}: {error}")
            return 2
        print(*run.values(), json.dumps(row.get("links")), flush=True)
    return 0


def _options() -> argparse.Namespace:
    options = read_options(
        __doc__,
        out=needed(Path),
        data=optional(Path, "folder with pbcseq.csv and nlswork.csv, or with linked/"),
        sets=_listed(str, ["pbcseq", "nlswork", "clinic"], ", ".join(SETS)),
        epsilon=_listed(float, [1.0, 10.0]),
        seeds=_listed(int, [0, 1, 2]),
        parents=option(CLINIC, "of a simulated clinic"),
    )
    for name in options.sets:
        if name not in SETS:
            fail(f"--sets {name}: expected some of {', '.join(SETS)}")
    return options


def _listed(kind: Callable[[str], Any], default: list[Any], text: str = "") -> Option:
    """Returns an option with values that are separated by commas."""
    return Option(
        kind=lambda values: [kind(value) for value in values.split(",")],
        default=default,
        help=text,
    )


if __name__ == "__main__":
    sys.exit(main())
