"""Patches of behaviour, addressed by objects: they fit whatever file, line or import the behaviour comes from.

A function is patched in place, by its code: so it makes no difference who imported it, under what name, and when.

Prefer `Plant.wrap` at a seam that a refactoring keeps: it says what is wrong and nothing of how the right code is
written. Where no wrapper can express a bug, `Plant.rewrite` changes the syntax tree of a function, a class or a whole
module: layout, docstrings and comments do not count, names that begin with `any_` stand for any expression, and it
must fit exactly once. A bug whose target is gone is an error (`CannotPlantError`) and not a success.
"""

from __future__ import annotations
import __future__

import ast
import copy
import dataclasses
import functools
import importlib
import inspect
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType, TracebackType
from typing import Any, Self

import numpy as np
from tests.planted.seams import modules

WILDCARD = "any_"
_MARK = "what the patched function calls instead"


class CannotPlantError(Exception):
    """A bug does not fit the library as it is now: bring it up to date."""


@dataclass(frozen=True)
class Bug:
    """A planted bug.

    Attributes:
        name: What it is called on the command line and in the suite.
        apply: Patches the library.
        tests: Tests below tests/, each of which must find it: at least one of its cases fails.
    """

    name: str
    apply: Callable[[Plant], None]
    tests: tuple[str, ...]


BUGS: dict[str, Bug] = {}


def bug(*tests: str) -> Callable[[Callable[[Plant], None]], Callable[[Plant], None]]:
    """Registers a function that plants a bug; its docstring says what is wrong, its name is the bug's."""

    def register(apply: Callable[[Plant], None]) -> Callable[[Plant], None]:
        name = apply.__name__.replace("_", "-")
        if name in BUGS or not tests or not apply.__doc__:
            raise CannotPlantError(
                f"bug {name!r} needs a name of its own, a docstring and a test"
            )
        BUGS[name] = Bug(name, apply, tests)
        return apply

    return register


def wrong(
    seam: str, *tests: str
) -> Callable[[Callable[..., Any]], Callable[[Plant], None]]:
    """Registers what is called in place of the function at a seam, as `Plant.wrap` has it, as a bug of its name."""

    def register(instead: Callable[..., Any]) -> Callable[[Plant], None]:
        def apply(plant: Plant) -> None:
            plant.wrap(seam)(instead)

        apply.__name__ = instead.__name__
        apply.__doc__ = instead.__doc__
        return bug(*tests)(apply)

    return register


def table(text: str, **own: Callable[..., Any]) -> None:
    """Registers the bugs that need no function of their own; a deeper line goes on with the one before it.

        name-of-the-bug: What is wrong.
            by test_that_finds_it test_that_finds_it_too
            rewrite seam: old => new
            wrap seam other.seam: lambda right, *arguments: ...
            set seam: value
            name-in-own: value

    Expressions may use np, dataclasses, json, math, `find` and what is in `own`; a step that begins with a name of
    `own` calls that with the plant and the value.
    """
    for entry in re.split(r"\n(?=[a-z])", re.sub(r"\n {8,}", " ", text).strip()):
        head, by, *steps = (line.strip() for line in entry.splitlines())
        name, _, why = head.partition(": ")
        apply = functools.partial(_apply, steps, own)
        functools.update_wrapper(apply, _apply)
        apply.__name__, apply.__doc__ = name, why  # type: ignore[attr-defined]
        bug(*by.split()[1:])(apply)


def _apply(steps: list[str], own: dict[str, Callable[..., Any]], plant: Plant) -> None:
    """Plants what the lines of a table say."""
    for step in steps:
        target, _, what = step.partition(": ")
        kind, *seams = target.split()
        if kind == "rewrite":
            old, _, new = what.partition("=>")
            plant.rewrite(seams[0], old.strip(), new.strip())
        elif kind == "wrap":
            plant.wrap(*seams)(eval(what, _KNOWN | own))
        elif kind == "set":
            plant.set(seams[0], eval(what, _KNOWN))
        elif kind in own:
            own[kind](plant, eval(what, _KNOWN | own))
        else:
            raise CannotPlantError(f"{step!r} is none of rewrite, wrap and set")


class Plant:
    """What is wrong with the library; everything is put right again at the end of a ``with`` block."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        self._rewritten: dict[FunctionType, ast.FunctionDef] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._undo:
            self._undo.pop()()

    @property
    def patches(self) -> int:
        """How many patches stand."""
        return len(self._undo)

    def wrap(self, *seams: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorates what is called in place of each function at `seams`, with the right one in front of its arguments.

        A method gets its `self` behind it, as the right one wants it.
        """

        def decorate(wrong: Callable[..., Any]) -> Callable[..., Any]:
            for seam in seams:
                function = _function(find(seam), seam)
                right = FunctionType(
                    function.__code__,
                    function.__globals__,
                    function.__name__,
                    function.__defaults__,
                    function.__closure__,
                )
                right.__kwdefaults__ = function.__kwdefaults__
                self._swap(
                    function,
                    _calling(functools.partial(wrong, right), function.__code__),
                )
            return wrong

        return decorate

    def set(self, seam: str, value: Any) -> None:
        """Binds another value to a constant of a module, in all modules of the library that imported it."""
        right = find(seam)
        name = seam.rpartition(".")[2]
        holders = [m for m in _loaded() if m.__dict__.get(name, self) is right]
        for module in holders:
            self._undo.append(functools.partial(setattr, module, name, right))
            setattr(module, name, value)

    def rewrite(self, seam: str, old: str, new: str) -> None:
        """Puts `new` where the function, class or module at `seam` has `old`.

        Args:
            seam: Where to look.
            old: An expression, or statements that follow each other.
            new: The same; nothing at all takes statements away. Wildcards of `old` stand for what they stood for.

        Raises:
            CannotPlantError: if `old` is not there exactly once.
        """
        fits = []
        for function in _functions(find(seam)):
            tree = copy.deepcopy(self._rewritten.get(function)) or _parsed(function)
            fits += [(function, tree)] * _Rewrite(old, new).apply(tree)
        if len(fits) != 1:
            raise CannotPlantError(
                f"{seam} has {old!r} {len(fits)} times, not once; bring the bug up to date"
            )
        function, tree = fits[0]
        self._rewritten[function] = tree
        self._swap(
            function, _enclosed(ast.fix_missing_locations(tree), function.__code__)
        )

    def _swap(self, function: FunctionType, code: CodeType) -> None:
        right = function.__code__
        _forget()
        function.__code__ = code
        self._undo.append(lambda: (setattr(function, "__code__", right), _forget()))


def find(seam: str) -> Any:
    """Returns the object that a seam names, as it stands in its class or module.

    Raises:
        CannotPlantError: if there is none.
    """
    name, *parts = seam.split(".")
    try:
        found: Any = importlib.import_module(modules()[name])
        for part in parts:
            found = inspect.getattr_static(found, part)
    except (KeyError, ImportError, AttributeError) as error:
        raise CannotPlantError(
            f"{seam}: {type(error).__name__}: {error}; see seams.py"
        ) from error
    return found


_KNOWN = {
    "np": np,
    "dataclasses": dataclasses,
    "find": find,
    "json": json,
    "math": math,
}


def _function(found: Any, seam: str) -> FunctionType:
    """Returns the plain function behind what `find` found: a property, a class method, a cached function."""
    for inner in ("fget", "func", "__func__", "__wrapped__"):
        if (
            not isinstance(found, FunctionType)
            and getattr(found, inner, None) is not None
        ):
            found = getattr(found, inner)
    if not isinstance(found, FunctionType):
        raise CannotPlantError(
            f"{seam} is a {type(found).__name__}, which cannot be patched as a function"
        )
    return found


def _functions(found: Any) -> Iterator[FunctionType]:
    """Yields the functions that are written in a module or class, or the function itself."""
    if isinstance(found, type | ModuleType):
        home = found.__name__ if isinstance(found, ModuleType) else found.__module__
        for value in vars(found).values():
            written_here = getattr(value, "__module__", None) == home
            if isinstance(
                value,
                FunctionType
                | property
                | staticmethod
                | classmethod
                | functools.cached_property,
            ) or (
                hasattr(value, "cache_clear")
                or (isinstance(value, type) and written_here)
            ):
                yield from (one for one in _functions(value) if one.__module__ == home)
    else:
        function = _function(found, repr(found))
        home = sys.modules[function.__module__].__file__
        while function.__code__.co_filename != home and isinstance(
            getattr(function, "__wrapped__", None), FunctionType
        ):
            function = function.__wrapped__  # behind a decorator such as contextmanager
        if (
            function.__code__.co_filename == home
        ):  # a dataclass writes some without a file
            yield function


def _loaded() -> Iterator[ModuleType]:
    return (
        module
        for name, module in list(sys.modules.items())
        if name.startswith("noisegate") and module
    )


def _forget() -> None:
    """Empties the caches of the library: what was computed before must not answer for what is computed now."""
    for module in _loaded():
        for value in list(vars(module).values()):
            if callable(clear := getattr(value, "cache_clear", None)):
                clear()


def _calling(wrong: Callable[..., Any], right: CodeType) -> CodeType:
    """Returns code that passes all arguments on, with the same free variables as `right` so that it can stand in."""
    body = f"def patched(*args, **options):\n  if False: {', '.join(right.co_freevars) or 'pass'}\n"
    body += f"  wrong = {_MARK!r}\n  return wrong(*args, **options)"
    code = _enclosed(ast.parse(body).body[0], right)
    return code.replace(
        co_consts=tuple(wrong if one == _MARK else one for one in code.co_consts)
    )


def _parsed(function: FunctionType) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function.__code__)))
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise CannotPlantError(
            f"{function.__qualname__} is not written as a function; wrap it"
        )
    definition.decorator_list.clear()
    ast.increment_lineno(definition, function.__code__.co_firstlineno - 1)
    return definition


def _enclosed(definition: ast.stmt, right: CodeType) -> CodeType:
    """Compiles a function inside another one that has the free variables of `right`."""
    outer = ast.parse(f"def outer({', '.join(right.co_freevars)}): pass")
    outer.body[0].body = [definition]  # type: ignore[attr-defined]
    flags = right.co_flags & __future__.annotations.compiler_flag
    module = compile(outer, right.co_filename, "exec", flags, dont_inherit=True)
    (inside,) = _codes(module)
    name = getattr(definition, "name", "")
    (code,) = [code for code in _codes(inside) if code.co_name == name]
    if code.co_freevars != right.co_freevars:
        raise CannotPlantError(
            f"{right.co_qualname}: a bug may not use other free variables"
        )
    return code.replace(co_qualname=right.co_qualname, co_name=right.co_name)


def _codes(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


class _Rewrite(ast.NodeTransformer):
    """Puts one piece of syntax in place of another, and counts how often."""

    def __init__(self, old: str, new: str) -> None:
        self._old = ast.parse(old).body
        self._new = ast.parse(new or "pass").body
        first = self._old[0]
        self._expression = (
            first.value if len(self._old) == 1 and isinstance(first, ast.Expr) else None
        )
        self._times = 0

    def apply(self, tree: ast.AST) -> int:
        self.visit(tree)
        return self._times

    def visit(self, node: ast.AST) -> ast.AST:
        bound: dict[str, ast.AST] = {}
        if self._expression is not None and _same(self._expression, node, bound):
            self._times += 1
            if not isinstance(self._new[0], ast.Expr):
                raise CannotPlantError(
                    "an expression can only be replaced by an expression"
                )
            return _filled(self._new[0].value, bound)
        node = self.generic_visit(node)
        if self._expression is None:
            for _, body in ast.iter_fields(node):
                if isinstance(body, list):
                    self._within(body)
        return node

    def _within(self, body: list[Any]) -> None:
        place = 0
        length = len(self._old)
        while place + length <= len(body):
            bound: dict[str, ast.AST] = {}
            if _same(self._old, body[place : place + length], bound):
                self._times += 1
                new = [_filled(one, bound) for one in self._new]
                body[place : place + length] = new
                place += len(new)
            else:
                place += 1


def _same(pattern: Any, node: Any, bound: dict[str, ast.AST]) -> bool:
    """Whether two pieces of syntax say the same; fills in what wildcards stand for."""
    if isinstance(pattern, ast.Name) and pattern.id.startswith(WILDCARD):
        if not isinstance(node, ast.expr):
            return False
        return _same(bound.setdefault(pattern.id, node), node, {})
    if isinstance(pattern, list):
        pairs = zip(pattern, node, strict=False)
        return (
            isinstance(node, list)
            and len(pattern) == len(node)
            and all(_same(*pair, bound) for pair in pairs)
        )
    if isinstance(pattern, ast.AST):
        fields = [
            name for name in pattern._fields if name not in ("ctx", "type_comment")
        ]
        return type(pattern) is type(node) and all(
            _same(getattr(pattern, name, None), getattr(node, name, None), bound)
            for name in fields
        )
    return bool(type(pattern) is type(node) and pattern == node)


def _filled(new: ast.AST, bound: dict[str, ast.AST]) -> ast.AST:
    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return bound.get(node.id, node)

    return Fill().visit(
        ast.parse(ast.unparse(new)).body[0]
        if isinstance(new, ast.stmt)
        else _expression(new)
    )


def _expression(new: ast.AST) -> ast.AST:
    return ast.parse(ast.unparse(new), mode="eval").body
