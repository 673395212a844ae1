"""Brings the runs of one folder into the results beside this file.

    python benchmarks/tables/merge.py DIR

DIR is the folder that `run.py` and `outside.py` were given. A run of the same table, method, ε and seed replaces the
one that is there, unless it has no figures and that one has; the others stay.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import positional, read_options
from harness.results import read_json, write_json

HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrites results.json and outside.json beside this file."""
    options = read_options(
        __doc__,
        arguments,
        folder=positional(Path),
    )
    old = read_json(HERE / "results.json", {})
    new = read_json(options.folder / "results.json")
    results = {
        "caveat": new["caveat"],
        "ceilings": {**old.get("ceilings", {}), **new["ceilings"]},
        "runs": merged(old.get("runs", []), new["runs"], figures="scores"),
    }
    write_json(HERE / "results.json", results)
    scored = merged(
        *(read_json(folder / "outside.json", []) for folder in (HERE, options.folder)),
        figures="digest",
    )
    write_json(HERE / "outside.json", scored)
    return 0


def merged(
    old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]], *, figures: str
) -> list[dict[str, Any]]:
    """All runs in the order of their keys; `figures` is what only a run that was scored has."""
    runs = {_key(run): run for run in old}
    for run in new:
        if figures in run or figures not in runs.get(_key(run), {}):
            runs[_key(run)] = run
    return [runs[key] for key in sorted(runs)]


def _key(run: dict[str, Any]) -> tuple[str, str, float, int]:
    return run["table"], run["method"], run["epsilon"], run["seed"]


if __name__ == "__main__":
    sys.exit(main())
