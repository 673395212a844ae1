"""What the installed methods are and what each can be told, read off the classes themselves."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from typing import Any

from noisegate.methods.registry import AUTO, METHODS
from noisegate.registry import one_name_each


def list_methods() -> list[dict[str, str]]:
    """Returns the installed methods: the name of each, what it makes ("records" or "classifier"), and a summary.

    Examples:
        >>> from noisegate import list_methods
        >>> [method["summary"] for method in list_methods() if method["name"] == "dp-merf"]
        ['DP-MERF: mean embeddings by random Fourier features (Harder et al. 2021).']
    """
    found = {name: METHODS.find(name) for name in one_name_each("noisegate.methods")}
    return [
        {"name": name, "makes": method.makes, "summary": (inspect.getdoc(method) or "").partition("\n")[0]}
        for name, method in found.items()
    ]


def list_settings(name: str) -> list[dict[str, Any]]:
    """Returns the settings of a method: name, default (None where it follows from others), and meaning.

    Raises:
        OptionError: if there is no such method.
    """
    method: Any = METHODS.find(name, AUTO)
    meanings: dict[str, str] = {}
    for base in reversed(method.__mro__[:-1]):
        meanings |= _documented(base)
    fields = [field for field in dataclasses.fields(method) if field.init]
    defaults = [None if field.default is dataclasses.MISSING else field.default for field in fields]
    return [
        {"name": field.name, "default": default, "meaning": meanings.get(field.name, "")}
        for field, default in zip(fields, defaults, strict=True)
    ]


def _documented(of: type) -> dict[str, str]:
    """Returns what stands below each attribute of a class, by name."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(of))).body
    except (OSError, TypeError, ValueError, SyntaxError):  # made in a session
        return {}
    found, last = {}, ""
    for node in getattr(body, "body", []):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last:
            found[last] = " ".join(str(node.value.value).split())
        last = node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""
    return found
