"""A method of noisegate, on the command line that every peer has (see `peers/contract.py`) plus the method's name."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import needed, positional, read_options

import noisegate
from noisegate import Schema
from noisegate.models.output.sample_file import table_writer


def main() -> None:
    """Fits the method to the table and draws as many records as it has."""
    options = read_options(
        __doc__,
        method=positional(str),
        train=needed(Path),
        schema=needed(Path),
        epsilon=needed(float),
        delta=needed(float),
        seed=needed(int),
        out=needed(Path),
        meta=needed(Path),
    )
    schema = Schema.from_toml(options.schema)
    # The number of records is public for every method here.
    with options.train.open("rb") as lines:
        rows = sum(1 for _ in lines) - 1
    # Peers are timed without their imports; so are we.
    noisegate.synthesize  # noqa: B018
    started, worked = time.perf_counter(), time.process_time()
    synthesizer = noisegate.synthesize(
        options.train,
        schema=schema,
        epsilon=options.epsilon,
        delta=options.delta,
        method=options.method,
        records=rows,
        seed=options.seed,
        device="cpu",
    )
    synthetic = synthesizer.sample(rows, seed=options.seed)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
    options.out.unlink(missing_ok=True)
    # As the command line writes it: missing cells in the words of the schema.
    with table_writer(options.out, schema) as write:
        write(synthetic)
    meta = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "version": f"noisegate {noisegate.__version__}",
        "settings": synthesizer.certificate.public.get("settings", {}),
    }
    options.meta.write_text(
        json.dumps(meta, indent=2, default=str) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
