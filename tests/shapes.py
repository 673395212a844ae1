"""Checks the shapes of arrays and tensors that annotations give (jaxtyping), in every call that some tests make.

A check costs more than many a call, so they are made in the tests of `ROOMS`, and with `--shapes` in all.

The package imports jaxtyping for type checkers only, so that users need not have it. Here each module is read with what
it imports `if TYPE_CHECKING`, and its functions whose annotations name a shape are wrapped.
"""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import inspect
import re
import sys
import threading
from types import FunctionType
from typing import Any

from beartype import beartype
from jaxtyping import jaxtyped

SHAPED = re.compile(r"\b(Float|Int|UInt|Bool|Num|Real|Integer|Shaped)(8|16|32|64)?\[")


ROOMS = "tests/contracts/", "tests/networks/", "tests/models/"
checking = False
_BUILDING = threading.Lock()
"""Held while annotations are read: Python 3.11 ends in a SystemError where two threads parse at once."""


def install() -> None:
    """Has every module of the package that is imported from now on checked."""
    sys.meta_path.insert(0, _Finder())


class _Finder:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith(("noisegate.", "noisegate_")):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: Any) -> None:
        super().exec_module(module)
        _check(module, vars(module), module)


def _check(owner: Any, members: dict[str, Any], module: Any) -> None:
    for name, member in list(members.items()):
        if (
            isinstance(member, type)
            and member.__module__ == module.__name__
            and member is not owner
        ):
            _check(member, dict(vars(member)), module)
        elif isinstance(member, FunctionType) and member.__module__ == module.__name__:
            if _shaped(member):
                setattr(owner, name, checked(member, module))
        elif isinstance(member, staticmethod | classmethod) and _shaped(
            member.__func__
        ):
            setattr(owner, name, type(member)(checked(member.__func__, module)))


def _shaped(function: Any) -> dict[str, str]:
    hints = {
        name: hint
        for name, hint in getattr(function, "__annotations__", {}).items()
        if isinstance(hint, str)
    }
    if inspect.isgeneratorfunction(function):
        hints.pop("return", None)
    return {name: hint for name, hint in hints.items() if SHAPED.search(hint)}


def checked(function: FunctionType, module: Any) -> Any:
    """Returns the function with its shapes checked; what they name is looked up at the first call."""

    @functools.cache
    def build() -> Any:
        names = {**vars(module), **_for_type_checkers(module)}
        same = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        same.__kwdefaults__ = function.__kwdefaults__
        same.__qualname__ = function.__qualname__
        same.__module__ = function.__module__
        same.__annotations__ = {
            name: eval(hint, names) for name, hint in _shaped(function).items()
        }
        return jaxtyped(same, typechecker=beartype)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if not checking:
            return function(*args, **options)
        with _BUILDING:
            checked_function = build()
        return checked_function(*args, **options)

    return call


@functools.cache
def _for_type_checkers(module: Any) -> dict[str, Any]:
    """Returns what a module imports and names for type checkers, beside what it has otherwise."""
    names: dict[str, Any] = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module.__file__, "exec"), names)
    return names
