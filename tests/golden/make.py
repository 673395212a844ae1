"""Writes golden files: ``python -m tests.golden.make PART``. What is there stays as it is; new cases are added.

The files were written by noisegate 2c7daf2, before the house was rebuilt, and are what later versions must keep to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import books, current, models, sums, surface
from .names import HERE


def add(name: str, cases: Iterator[str], value: Callable[[str], Any]) -> None:
    """Adds the cases to a golden file that it does not have, one a line."""
    path = HERE / f"{name}.json"
    golden = json.loads(path.read_text()) if path.exists() else {}
    golden |= {case: value(case) for case in cases if case not in golden}
    lines = ",\n".join(
        f"{json.dumps(case)}: {json.dumps(held, ensure_ascii=False)}"
        for case, held in golden.items()
    )
    path.write_text(f"{{\n{lines}\n}}\n")


def settings_json(case: str) -> Any:
    """Returns settings as certificates hold them, or None where they are refused."""
    method = current.settings(case)
    return None if method is None else json.loads(json.dumps(method.to_json()))


def add_sums() -> None:
    """Adds the sums of the cases that there are none of."""
    path = HERE / "sums.npz"
    golden = dict(np.load(path)) if path.exists() else {}
    names = {name.split("/")[0] for name in golden}
    missing = [fit for fit in sums.cases() if fit not in names]
    for fit in missing:
        golden |= sums.sums_of(fit)
    add("machine", iter(missing), lambda _: sums.machine())
    np.savez_compressed(path, **golden)


def add_models() -> None:
    """Adds the saved models that there are none of, with what they draw and their certificates say."""
    for fit in models.cases():
        models.write(fit)
    add("samples", models.cases(), models.drawn)
    add("certificates", models.cases(), models.certified)


def add_books() -> None:
    """Adds what is said of the discovered schema, of the ledger and of all schemas."""
    add("schemas", books.schemas(), books.schema)
    add("discovery", iter(["discovered"]), books.discovered)
    add("ledger", iter(books.DATASETS), books.accounts)
    add("audit", iter(["pairwise"]), books.audited)


def add_surface() -> None:
    """Writes what users hold on to anew: unlike files that are stored, it may change where a commit means to."""
    (HERE / "surface.json").unlink(missing_ok=True)
    add("surface", surface.cases(), surface.surface)


PARTS: dict[str, Callable[[], None]] = {
    "books": add_books,
    "plans": lambda: add("plans", current.plan_cases(), current.plan),
    "settings": lambda: add("settings", current.settings_cases(), settings_json),
    "sums": add_sums,
    "models": add_models,
    "surface": add_surface,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
