"""Recomputes the words of fits from the folders of `run.py`, without fitting again: to try other rules.

    python benchmarks/verdicts/replay.py --results FILE --models DIR > REPLAYED

Each line of FILE comes out with the words and parts that the rules of today give. Those of plan and fit are recomputed,
a few seconds a run; those of evaluate are as they were, since `evaluation.json` has their figures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from corpus import is_for_development
from harness.options import needed, read_options
from judge import fit_parts, run_key, verdict_json

import noisegate
from noisegate import Synthesizer
from noisegate.schema.schema import read_schema


def replayed(run: dict[str, Any], models: Path) -> dict[str, Any]:
    """Returns a run with the words of plan and fit by the rules of today."""
    table_folder = models / run["table"]
    run_folder = table_folder / run_key(run["epsilon"], run["seed"])
    schema = read_schema(table_folder / "schema.toml")
    planned = noisegate.plan(schema, epsilon=run["epsilon"], records=run["records"])
    method: Any = planned.method
    release = Synthesizer.load(run_folder / "model").release
    fitting = method.fitting(release)
    with np.load(run_folder / "fit.npz") as state:
        fitting.load_state_dict(dict(state))
    synthesizer = method.synthesizer(release, fitting)
    return run | {
        "plan": verdict_json(planned.verdict),
        "fit": verdict_json(synthesizer.verdict),
        "fit_parts": fit_parts(method, release, fitting),
    }


def main() -> None:
    """Prints the lines of runs for development by the rules of today."""
    options = read_options(
        __doc__,
        results=needed(Path),
        models=needed(Path),
    )
    for line in options.results.read_text().splitlines():
        run = json.loads(line)
        if "error" not in run and is_for_development(run["table"]):
            print(json.dumps(replayed(run, options.models)), flush=True)


if __name__ == "__main__":
    main()
