"""How much memory a fit of linked tables takes: 200,000 patients with 21 visits each, from Parquet.

    python benchmarks/linked/memory.py --out OUT [--patients 200000] [--epsilon 1] [--tables patients,visits]

The tables are written once, in streams; the fit runs in a process of its own, whose peak is asked of the system.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from clinic import clinics, write
from harness.options import hidden, needed, read_options
from linked_sets import schema_of


def main() -> int:
    """Writes the tables, fits in another process, and says how long it took and how much memory."""
    options = read_options(
        __doc__,
        out=needed(Path),
        patients=200_000,
        epsilon=1.0,
        tables="patients,visits",
        fit=hidden(False),
    )
    if options.fit:
        return _fit(options)
    folder = options.out / f"twenty-{options.patients}"
    if not (folder / "done").exists():
        write(folder, clinics(options.patients, shape="twenty"), parquet=True)
        (folder / "done").touch()
    told = [sys.executable, __file__, *sys.argv[1:], "--fit"]
    return subprocess.run(told, check=False).returncode


def _fit(options: argparse.Namespace) -> int:
    from noisegate import Gate
    from noisegate.methods.linked import Linked

    folder, names = (
        options.out / f"twenty-{options.patients}",
        options.tables.split(","),
    )
    schema = schema_of("twenty")
    schema = replace(
        schema, tables=[table for table in schema.tables if table.name in names]
    )
    started, worked = time.perf_counter(), time.process_time()
    data = {name: folder / f"{name}.parquet" for name in names}
    model = Linked().fit(Gate(data, schema=schema, epsilon=options.epsilon))
    fitted = time.perf_counter() - started
    drawn = model.sample(1000, seed=0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1e3
    )
    figures = {
        "patients": options.patients,
        "tables": names,
        "fit_seconds": fitted,
        "cpu_seconds": time.process_time() - worked,
        "peak_megabytes": peak,
        "drawn": {name: len(table) for name, table in drawn.items()},
    }
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
