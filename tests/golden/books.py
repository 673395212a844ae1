"""What is kept beside models: schemas, a discovered one with its certificate, and a ledger."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .cases import KINDS, fit_options
from .names import FILES, HERE, Certificate, Ledger, Schema, printed, program
from .records import mixed_row

BOOKS = HERE / "books"
LEDGER, BOOKED = BOOKS / "ledger.db", BOOKS / "model"
DISCOVERED = FILES / "discovered.toml"
DATASETS = ("clinic", "survey", "other clinic")
RUNS = (
    ("clinic", "pairwise", "void"),
    ("clinic", "gan-images", "confirm"),
    ("clinic", "mepf-trained", "reserve"),
    ("survey", "discovered", "commit"),
    ("survey", "mst", "commit"),
    ("survey", "mge", "reserve"),
)
"""Data set, whose certificate has the events, and how the run ended."""
AUDIT = ("audit", "pairwise", "--runs", 8, "--epsilon", 4, "--set", "cells=2")


def schemas() -> Iterator[str]:
    """Yields the names of all schema files."""
    return (path.stem for path in sorted(FILES.glob("*.toml")))


def schema(name: str) -> dict[str, Any]:
    """Returns what is known of a schema file: how it is stored, and where each column stands."""
    read = Schema.from_toml(FILES / f"{name}.toml")
    layout = read.layout
    return {
        "json": read.to_json(),
        "toml": read.dumps(),
        "digest": read.digest(),
        "names": list(read.names),
        "numeric": [column.name for column in layout.numeric],
        "coded": [[column.name, column.size, list(column.levels)] for column in layout.coded],
        "label": layout.label,
    }


def discovered(_: str) -> dict[str, Any]:
    """Returns what `noisegate verify` says of the schema that was bought."""
    return printed("verify", f"{DISCOVERED}.certificate.json")


def accounts(dataset: str, ledger: Path = LEDGER) -> dict[str, Any]:
    """Returns what the command line says of a ledger, without its place."""
    shown = printed("ledger", "show", "--ledger", ledger)
    history = printed("ledger", "history", dataset, "--ledger", ledger)
    return json.loads(json.dumps({"show": shown, "history": history}).replace(str(ledger), "LEDGER"))


def audited(_: str) -> dict[str, Any]:
    """Returns what an audit says that does not depend on its noise."""
    report = printed(*AUDIT)
    drawn = {"lower_bound", "from_noise", "from_guesses", "noise", "along"}
    return {name: type(value).__name__ if name in drawn else value for name, value in report.items()}


def write_books() -> None:
    """Writes the discovered schema and the ledger, once."""
    if not DISCOVERED.exists():
        _write_discovered()
    if not BOOKS.exists():
        BOOKS.mkdir()
        _write_ledger()


def _write_discovered() -> None:
    draw = np.random.default_rng(21)
    rows = [mixed_row(draw) for _ in range(4000)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "private.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        asked = ("--epsilon", 6, "--kinds", KINDS, "--label", "answer")
        code, out, err = program("schema", "discover", path, *asked, "-o", DISCOVERED)
    assert code == 0, out + err


def _write_ledger() -> None:
    """Books a fit, and runs that ended in every way, with every kind of event."""
    ledger = Ledger(LEDGER)
    ledger.register("clinic", epsilon=20.0, delta=1e-5)
    ledger.register("survey", epsilon=20.0, delta=1e-5)
    ledger.register("other clinic", epsilon=5.0, delta=1e-6, adjacency="replace-one", unit="patient")
    fit = fit_options("merf-mixture")
    code, out, err = program("fit", *fit, "--ledger", LEDGER, "--dataset", "clinic", "--out", BOOKED)
    assert code == 0, out + err
    for dataset, name, end in RUNS:
        path = f"{DISCOVERED}.certificate.json" if name == "discovered" else HERE / "models" / name / "certificate.json"
        held = Certificate.from_json(json.loads(Path(path).read_text()))
        reservation = ledger.reserve(dataset, held.events, adjacency=held.adjacency, purpose=f"golden {name}")
        if end == "void":
            ledger.void(reservation, reason="no noise was drawn")
        if end in ("confirm", "commit"):
            ledger.confirm(reservation)
        if end == "commit":
            ledger.commit(reservation, certificate=held.digest())
