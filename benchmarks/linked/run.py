"""Linked tables: our method, two baselines of it, and SDV without privacy, on public sets and a simulated clinic.

    python benchmarks/linked/run.py --data DIR --out OUT [--sets pbcseq,nlswork,clinic] [--epsilon 1,10] [--seeds 0,1,2]
        [--methods linked,independent,flattened,hma,par] [--parents 50000]

One seed of everything comes first, then the next. OUT/results.json holds what is done; the command given again goes on.
The figures are computed on real data, outside the guarantee. `page.py` writes them down.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from flattened import flattened
from harness.options import Option, fail, needed, option, optional, read_options
from harness.results import write_json
from independent import independent
from linked_scores import Judge
from linked_sets import CLINIC, SETS, Tables, load, schema_of
from sdv_runs import SDV, sdv

from noisegate import Gate
from noisegate.methods.linked import Linked
from noisegate.schema.linked.schema import LinkedSchema

LEAST_DRAWN, MOST_DRAWN = 5_000, 20_000
"""Parents that are drawn: enough that their own chance hardly counts beside that of the real ones."""

KEYS = ("set", "method", "epsilon", "seed")


def linked(
    train: Tables, schema: LinkedSchema, epsilon: float, seed: int, parents: int
) -> Tables:
    """Returns what the method for linked tables makes of all tables together."""
    gate = Gate(train, schema=schema, epsilon=epsilon)
    return dict(Linked(seed=seed).fit(gate).sample(parents, seed=seed))


OURS: dict[str, Callable[..., Tables]] = {
    "linked": linked,
    "independent": independent,
    "flattened": flattened,
}


@lru_cache(maxsize=1)
def prepared(
    name: str, data: Path | None, parents: int
) -> tuple[Tables, LinkedSchema, Judge]:
    """Returns the training tables of a set, its schema, and what scores synthetic ones."""
    (train, test), schema = load(name, data, parents=parents), schema_of(name)
    return train, schema, Judge(train, test, schema)


def answer(run: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Returns the figures of a run, or why there are none."""
    train, schema, judge = prepared(run["set"], options.data, options.parents)
    root = len(train[schema.root.name])
    if run["method"] == "real":
        return {"parents": root, **judge.floor()}
    drawn, started = min(max(root, LEAST_DRAWN), MOST_DRAWN), time.perf_counter()
    if run["method"] in OURS:
        made, told = (
            OURS[run["method"]](train, schema, run["epsilon"], run["seed"], drawn),
            {},
        )
    else:
        made, told = sdv(run["method"], run["set"], train, run["seed"], options)
        if not made:
            return {"failed": told}
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "drawn": len(made[schema.root.name]),
        **told,
        **judge.score(made, seed=run["seed"]),
    }


def runs(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields all runs: one seed, then the next; what takes no ε is run once for each seed."""
    for seed in options.seeds:
        for name in options.sets:
            if seed == options.seeds[0]:
                yield dict(zip(KEYS, (name, "real", None, 0), strict=True))
            for method in options.methods:
                for epsilon in [None] if method in SDV else options.epsilon:
                    yield dict(zip(KEYS, (name, method, epsilon, seed), strict=True))


def main() -> int:
    """Runs what is missing, and keeps results.json up to date after each run."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    done = {tuple(row[key] for key in KEYS) for row in rows}
    for run in runs(options):
        if tuple(run.values()) in done:
            continue
        try:
            rows.append(run | answer(run, options))
        except RuntimeError as error:
            print(f"{run['set']}: {error}")
            return 2
        beside = path.with_suffix(".part")
        write_json(beside, rows, indent=1)
        beside.replace(path)
        print(
            *run.values(),
            json.dumps(rows[-1].get("links", rows[-1].get("failed"))),
            flush=True,
        )
    return 0


def _options() -> argparse.Namespace:
    def listed(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
        return lambda text: [kind(item) for item in text.split(",")]

    options = read_options(
        __doc__,
        out=needed(Path),
        data=optional(Path, "folder with pbcseq.csv and nlswork.csv, or with linked/"),
        sets=Option(
            kind=listed(str),
            default=["pbcseq", "nlswork", "clinic"],
            help=", ".join(SETS),
        ),
        methods=Option(kind=listed(str), default=[*OURS, *SDV]),
        epsilon=Option(kind=listed(float), default=[1.0, 10.0]),
        seeds=Option(kind=listed(int), default=[0, 1, 2]),
        parents=option(CLINIC, "of a simulated clinic"),
        minutes=option(30.0, "of the processor, for one run of SDV"),
        most=option(300, "parents that SDV learns from"),
        epochs=16,
    )
    for name, known in (("sets", SETS), ("methods", (*OURS, *SDV))):
        if wrong := [item for item in getattr(options, name) if item not in known]:
            fail(
                f"--{name} {wrong[0]}: expected some of {', '.join(known)}, separated by commas"
            )
    return options


if __name__ == "__main__":
    sys.exit(main())
