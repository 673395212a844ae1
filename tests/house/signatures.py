"""Writes options that `app/request.py` declares into the functions of Python that take them.

    python -m tests.house.signatures

`fit` and `plan` list their options, so that a reader, an editor and mypy know them. An option that is declared and
missing there is added: its parameter, its line in the docstring, and its value in the request that the function makes.
`tests/house/test_options.py` fails as long as one is missing.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from pathlib import Path

from noisegate.app.request import DOORS

APP = Path(__file__).parents[2] / "packages/noisegate/src/noisegate/app"


def declared(folder: Path) -> dict[str, tuple[str, str]]:
    """Returns the type and the default of each option, as `request.py` in a folder writes them."""
    module = ast.parse((folder / "request.py").read_text("utf-8"))
    (request,) = (
        node
        for node in module.body
        if isinstance(node, ast.ClassDef) and node.name == "Request"
    )
    options = {}
    for field in request.body:
        if isinstance(field, ast.AnnAssign) and isinstance(
            field.annotation, ast.Subscript
        ):
            (type_, _) = field.annotation.slice.elts
            text = (
                type_.value if isinstance(type_, ast.Constant) else ast.unparse(type_)
            )
            options[field.target.id] = (text, ast.unparse(field.value))
    del options["settings"]  # any keyword of another name
    return options


def missing(folder: Path, function: str) -> dict[str, tuple[str, str]]:
    """Returns the options that a function of `api.py` does not take."""
    module = ast.parse((folder / "api.py").read_text("utf-8"))
    (node,) = (
        node
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name == function
    )
    taken = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    return {
        name: option
        for name, option in declared(folder).items()
        if name not in taken and (function == "fit" or DOORS[name].in_plan)
    }


def complete(folder: Path) -> None:
    """Adds what is missing to `fit` and `plan`."""
    path = folder / "api.py"
    for function in ("fit", "plan"):
        for name, (type_, default) in missing(folder, function).items():
            before, start, rest = path.read_text("utf-8").partition(
                f"def {function}(\n"
            )
            entry = textwrap.fill(
                f"{name}: {DOORS[name].help}",
                width=88,
                initial_indent=" " * 8,
                subsequent_indent=" " * 12,
            )
            for pattern, line in (
                (r"    \*\*settings: Any,\n", f"    {name}: {type_} = {default},\n"),
                (r"        settings: Settings of", f"{entry}\n"),
                (r"        settings=settings,\n", f"        {name}={name},\n"),
            ):
                rest = re.sub(pattern, lambda m, line=line: line + m[0], rest, count=1)
            path.write_text(before + start + rest, encoding="utf-8")


if __name__ == "__main__":
    complete(Path(sys.argv[1]) if sys.argv[1:] else APP)
