"""Finds the places of the kernel that ask which kind a column is, instead of asking the column.

A kind of column is one class in one file of `schema/kinds`. Where another file tells kinds apart by their classes, a
new kind is an edit there too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_KERNEL = ROOT / "packages/noisegate/src/noisegate"
_KINDS = _KERNEL / "schema" / "kinds"


def kind_checks() -> list[str]:
    """Returns the calls of `isinstance` and `issubclass`, and uses of `type`, that name a kind, outside its room."""
    class_names = set(_class_names()) | {"NumericColumn", "Column"}
    checks = []
    for path in sorted(_KERNEL.rglob("*.py")):
        if _KINDS in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if _tells_types_apart(node) and class_names & _names_in(node):
                checks.append(
                    f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
                )
    return checks


def _class_names() -> Iterator[str]:
    """Yields the names of all classes of columns, their bases included."""
    for path in _KINDS.glob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name


def _tells_types_apart(node: ast.AST) -> bool:
    """Returns whether an expression is a call of `isinstance`, or compares what `type` returns."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("isinstance", "issubclass")
    return isinstance(node, ast.Compare) and any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Name)
        and part.func.id == "type"
        for part in (node.left, *node.comparators)
    )


def _names_in(node: ast.AST) -> set[str]:
    """Returns the names in an expression, those behind a dot included."""
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute)
    }
