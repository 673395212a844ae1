"""Fits every method at tiny size on a device, on made-up records, and draws from what was fitted.

    python benchmarks/gpu/paths.py [--device cuda] [--only METHOD ...] [--json FILE]

What is checked is that no path to the device is broken; what comes of a method is checked elsewhere. A method whose
optional packages are not installed is left out and said; linked computes on the CPU alone. Exit code 1 where one fails.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choice, optional, read_options
from harness.results import write_json

from noisegate.errors import MissingExtraError
from noisegate.methods.registry import METHODS
from noisegate.testing import FakeGate
from noisegate_evaluate.auditing.examples import example

RECORDS = 60
SHORT: dict[str, dict[str, Any]] = {
    name: {"fit_options": {"steps": 20}}
    for name in ("dp-merf", "dp-hp", "joint", "dp-mepf", "dp-mepf-trained", "dp-ntk")
}
"""Fits that are long by default."""


def tried(name: str, device: str) -> dict[str, Any]:
    """Returns how a method fared."""
    begun = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            method, schema, _ = example(
                name, schema=None, settings=SHORT.get(name, {}), folder=Path(folder)
            )
            made: Any = method.fit(FakeGate(schema, rows=RECORDS), device=device)
            drawn = (
                made.sample(10, seed=0).num_rows if method.makes == "records" else None
            )
        ended = {"state": "fitted", "drawn": drawn}
    except MissingExtraError as error:
        ended = {"state": "left out", "why": str(error)}
    except Exception as error:  # whatever it is, the others are tried too
        traceback.print_exc()
        ended = {"state": "failed", "why": f"{type(error).__name__}: {error}"}
    return {**ended, "seconds": round(time.monotonic() - begun, 1)}


def main() -> int:
    """Tries all, and prints how each fared; what is in --json is not tried again, but for what failed."""
    options = read_options(
        __doc__,
        device=choice(["cuda", "cpu"]),
        only=[name for name in METHODS if name != "linked"],
        json=optional(Path),
    )
    known = (
        json.loads(options.json.read_text("utf-8"))
        if options.json and options.json.exists()
        else {}
    )
    found = {name: row for name, row in known.items() if row["state"] == "fitted"}
    for name in options.only:
        if name not in found:
            found[name] = tried(name, options.device)
            print(f"{name}: {found[name]}", flush=True)
            write_json(options.json, found, indent=1)
    return 1 if any(row["state"] == "failed" for row in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
