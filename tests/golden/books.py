"""What is kept beside models: schemas, a discovered one with its certificate, and a ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .names import FILES, HERE, Schema, printed

BOOKS = HERE / "books"
LEDGER = BOOKS / "ledger.db"
BOOKED = BOOKS / "model"
DISCOVERED = FILES / "discovered.toml"
DATASETS = ("clinic", "survey", "other clinic")
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
        "coded": [
            [column.name, column.size, list(column.levels)] for column in layout.coded
        ],
        "label": layout.label,
    }


def discovered(_: str) -> dict[str, Any]:
    """Returns what `noisegate verify` says of the schema that was bought."""
    return printed("verify", f"{DISCOVERED}.certificate.json")


def accounts(dataset: str, ledger: Path = LEDGER) -> dict[str, Any]:
    """Returns what the command line says of a ledger, without its place."""
    shown = printed("ledger", "show", "--ledger", ledger)
    history = printed("ledger", "history", dataset, "--ledger", ledger)
    return json.loads(
        json.dumps({"show": shown, "history": history}).replace(str(ledger), "LEDGER")
    )


def audited(_: str) -> dict[str, Any]:
    """Returns what an audit says that does not depend on its noise."""
    report = printed(*AUDIT)
    drawn = {"lower_bound", "from_noise", "from_guesses", "noise", "along"}
    return {
        name: type(value).__name__ if name in drawn else value
        for name, value in report.items()
    }
