"""Finds imports by string inside one package: entry points that a package looks up and defines itself.

An entry point is for what another package may add. Inside one package it hides an import from readers, from mypy and
from the import contracts.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def string_imports() -> list[str]:
    """Returns the calls `extension("group", "name", ...)` whose entry point is one of the caller's own package."""
    imports: list[str] = []
    for project_file in sorted(ROOT.glob("packages/*/pyproject.toml")):
        own_points = _entry_points(project_file)
        for path in sorted(project_file.parent.glob("src/**/*.py")):
            for line, group, name in _look_ups(path):
                # A name that is computed stands for any of the group.
                if name in own_points.get(group, ()) or (
                    name is None and group in own_points
                ):
                    imports.append(
                        f"{path.relative_to(ROOT)}:{line} {group} {name or '...'}"
                    )
    return imports


def _entry_points(project_file: Path) -> dict[str, set[str]]:
    project = tomllib.loads(project_file.read_text("utf-8"))["project"]
    return {
        group: set(points) for group, points in project.get("entry-points", {}).items()
    }


def _look_ups(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Yields line, group and name of each look-up; the name is None where it is computed."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        is_look_up = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "extension"
        )
        if (
            is_look_up
            and len(node.args) >= 2
            and isinstance(node.args[0], ast.Constant)
        ):
            name = (
                node.args[1].value if isinstance(node.args[1], ast.Constant) else None
            )
            yield node.lineno, node.args[0].value, name
