"""A method of noisegate, on the command line that every peer has (see `peers/contract.py`) plus the method's name."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import noisegate
from noisegate import Schema
from noisegate.models.output.sample_file import table_writer


def main() -> None:
    """Fits the method to the table and draws as many records as it has."""
    parser = argparse.ArgumentParser()
    parser.add_argument("method")
    for name in ("--train", "--schema", "--out", "--meta"):
        parser.add_argument(name, type=Path, required=True)
    for name in ("--epsilon", "--delta"):
        parser.add_argument(name, type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
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
