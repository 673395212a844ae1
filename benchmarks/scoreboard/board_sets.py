"""A set of the scoreboard as files: made once for all releases, in a process of its own.

    python benchmarks/scoreboard/board_sets.py NAME FOLDER [--data DIR]

A table becomes train.csv, test.csv and schema.toml, linked tables a folder `train` and
a folder `test` of Parquet files. All loaders and formulas are those of
`benchmarks/tables` and `benchmarks/linked`. The command ends with 3 where a file is not
there.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from board_figures import SETS
from harness.options import optional, positional, read_options

from noisegate import Schema

BENCHMARKS = Path(__file__).parents[1]
sys.path += [str(BENCHMARKS / "tables"), str(BENCHMARKS / "linked")]

import causal  # noqa: E402
import linked_sets  # noqa: E402
import regression  # noqa: E402
import tables  # noqa: E402
from documented import documented  # noqa: E402

LEFT_OUT = 3
"""How the command ends where a set needs a file that is not there."""
PATIENTS = 5_000
_TEST_RECORDS = 5_000


def prepare(name: str, folder: Path, data: Path | None) -> None:
    """Writes the files of a set.

    Args:
        name: One of `SETS`.
        folder: Where they are written.
        data: Folder in or below which the files of Adult and loans are; None for none.

    Raises:
        RuntimeError: if a file is not there, naming what was looked for.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if SETS[name].is_linked:
        train, test = linked_sets.load(name, None, parents=PATIENTS)
        for part, linked_tables in {"train": train, "test": test}.items():
            (folder / part).mkdir(exist_ok=True)
            for table_name, table in linked_tables.items():
                path = folder / part / f"{table_name}.parquet"
                pyarrow.parquet.write_table(table, path)
    elif name in ("adult", "loans", "gauss10", "gauss30"):
        # The last argument is where packages would be installed, which none of these needs.
        tables.prepare(name, folder.parent, data=data, environments=folder)
    else:
        table, schema, n_train = _table(name)
        schema.to_toml(folder / "schema.toml")
        pyarrow.csv.write_csv(table.slice(0, n_train), folder / "train.csv")
        pyarrow.csv.write_csv(table.slice(n_train), folder / "test.csv")


def _table(name: str) -> tuple[pa.Table, Schema, int]:
    """Returns all records, their schema, and how many are for training, the first."""
    if name == "randhie":
        schema = Schema.from_toml(BENCHMARKS / "tables" / "schemas" / f"{name}.toml")
        package = importlib.util.find_spec("statsmodels")
        if package is None or package.origin is None:
            raise RuntimeError(f"{name} needs the package statsmodels")
        records, n_train = documented(name, Path(package.origin).parent, schema)
        return records, schema, n_train
    if name == "regression":
        n_train = 10_000
        records = regression.simulated(n_train + _TEST_RECORDS, 0)
        return records, regression.SCHEMA, n_train
    n_train = 600 if name == "small" else 10_000
    return causal.causal(n_train + _TEST_RECORDS), causal.schema(), n_train


def main() -> int:
    """Makes the set that is named."""
    options = read_options(
        __doc__,
        name=positional(str, choices=list(SETS)),
        folder=positional(Path),
        data=optional(Path),
    )
    try:
        prepare(options.name, options.folder, options.data)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return LEFT_OUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
