"""NAPSU-MQ beside `infer` on a small table of three columns of two levels, the same ε: coverage and widths.

    python benchmarks/inference/napsu.py --python PYTHON [--releases 20] [--records 5000] [--epsilon 1]

PYTHON has twinify 2.0.0 and what it runs with: uv pip install "twinify==2.0.0" "jax==0.4.23" "jaxlib==0.4.23"
"numpyro<0.13" "numpy<2" "pandas<2.2" "scipy<1.13" "matplotlib<3.9". Its module of another method does not import
there, and is left out.

Both see two-way tables of all pairs. twinify's neighbours replace a record; ours add or remove one, with δ = 1e-5 each.
Asked: how common b is where a is and where it is not, and the odds of c by a. NAPSU-MQ answers by 50 synthetic tables
and Rubin's rules (2205.14485, section 2.4). The truth is known; nothing is private.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

THEIRS = """
import json, sys, types
for name in ("twinify.dpvi", "twinify.dpvi.modelling"):
    sys.modules[name] = types.ModuleType(name)
import d3p.random, numpy as np, pandas as pd
from twinify.napsu_mq.napsu_mq import NapsuMQModel
from twinify.napsu_mq.rubins_rules import conf_int
table, epsilon, seed = pd.read_csv(sys.argv[1]).astype("category"), float(sys.argv[2]), int(sys.argv[3])
pairs = [("a", "b"), ("a", "c"), ("b", "c")]
fit, made = d3p.random.split(d3p.random.PRNGKey(seed), 2)
found = NapsuMQModel(column_feature_set=[]).fit(table, fit, epsilon, 1e-5, query_sets=pairs)
tables = found.generate(made, 50, len(table), single_dataframe=False)
asked = {"b | a": [], "b | not a": [], "log odds c, a": []}
for each in tables:
    a, b, c = (each[name].astype(int).to_numpy() for name in "abc")
    for name, kept in (("b | a", a == 1), ("b | not a", a == 0)):
        share = b[kept].mean()
        asked[name].append((share, share * (1 - share) / kept.sum()))
    cells = np.array([[((a == i) & (c == j)).sum() + 0.5 for j in (0, 1)] for i in (0, 1)])
    asked["log odds c, a"].append((np.log(cells[0, 0] * cells[1, 1] / cells[0, 1] / cells[1, 0]), (1 / cells).sum()))
ends = {name: [float(end) for end in conf_int(*np.array(values).T, 0.95)] for name, values in asked.items()}
print(json.dumps(ends))
"""
TRUTH = {"b | a": 0.45, "b | not a": 0.25, "log odds c, a": 0.8}


def main() -> None:
    """Prints coverage and mean width of both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--records", type=int, default=5_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    found = []
    for seed in range(options.releases):
        table = _draw(options.records, seed)
        both = {
            "NAPSU-MQ": _theirs(table, options, seed),
            "infer": _ours(table, options, seed),
        }
        for who, ends in both.items():
            found += [
                {
                    "who": who,
                    "asked": name,
                    "covers": low <= TRUTH[name] <= high,
                    "width": high - low,
                }
                for name, (low, high) in ends.items()
            ]
        print(seed, file=sys.stderr)
    print(
        pd.DataFrame(found)
        .groupby(["asked", "who"])[["covers", "width"]]
        .mean()
        .round(3)
    )


def _draw(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    a = random.random(rows) < 0.3
    b = random.random(rows) < np.where(a, 0.45, 0.25)
    c = random.random(rows) < 1 / (1 + np.exp(0.4 - 0.8 * a))
    return pd.DataFrame({"a": a, "b": b, "c": c}).astype(int)


def _theirs(
    table: pd.DataFrame, options: argparse.Namespace, seed: int
) -> dict[str, tuple[float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        table.to_csv(path, index=False)
        words = [
            str(options.python),
            "-c",
            THEIRS,
            str(path),
            str(options.epsilon),
            str(seed),
        ]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(ended.stderr[-2_000:])
    answered: dict[str, tuple[float, float]] = json.loads(ended.stdout.splitlines()[-1])
    return answered


def _ours(
    table: pd.DataFrame, options: argparse.Namespace, seed: int
) -> dict[str, tuple[float, float]]:
    import noisegate
    from noisegate import Pairwise, Schema
    from noisegate.schema import Boolean

    schema = Schema(tuple(Boolean(name=name) for name in "abc"))
    method = Pairwise(seed=seed, moments_share=0.43, fit_options={"steps": 100})
    model = noisegate.synthesize(
        table.astype(bool), schema=schema, epsilon=options.epsilon, method=method
    )
    without, within, _ = model.infer("share(b = true) by a")
    (odds,) = model.infer("odds(c, a)")
    ends = {
        "b | a": (within.low, within.high),
        "b | not a": (without.low, without.high),
    }
    return {**ends, "log odds c, a": (math.log(odds.low), math.log(odds.high))}


if __name__ == "__main__":
    main()
