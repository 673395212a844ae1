"""Writes each tutorial as a notebook beside it: `python tests/tutorials/notebooks.py`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.tutorials.pages import TUTORIALS, Cell, cells

_ITSELF = re.compile(r" [^.]*\[notebook\]\([a-z]+\.ipynb\)\.")


def _source(cell: Cell) -> str:
    match cell.kind:
        case "file":
            return f"%%writefile {cell.name}\n{cell.text}"
        case "console":
            commands = (
                command for command, _ in cell.commands() if command != "echo $?"
            )
            return "\n".join(
                f"!{command}".replace("!export ", "%env ") for command in commands
            )
        case _:
            return _ITSELF.sub("", cell.text)


def notebook(page: Path) -> str:
    """Returns the notebook of a tutorial, in the format 4.5, without outputs."""
    made: list[dict[str, Any]] = []
    for number, cell in enumerate(cells(page.read_text("utf-8"))):
        lines = _source(cell).strip("\n").splitlines(keepends=True)
        cell_json = {
            "cell_type": "markdown",
            "id": f"cell-{number}",
            "metadata": {},
            "source": lines,
        }
        if cell.kind != "prose":
            cell_json |= {"cell_type": "code", "execution_count": None, "outputs": []}
        made.append(cell_json)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": made,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in TUTORIALS:
        each.with_suffix(".ipynb").write_text(notebook(each), "utf-8")
