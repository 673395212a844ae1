"""Formulas of columns: parsed from text, and computed for many records at once.

A formula has names of columns, numbers, `+ - * / **`, brackets, and the functions of
`FUNCTIONS`. A name that is no identifier stands in backticks, `` `blood pressure` ``,
and so does a keyword of Python, `` `yield` ``. Columns of linked tables have names such
as ``visits.day``, which need none.

Dates count as days since 1970-01-01, points in time and lengths of time as seconds, so
that `discharge - admission` is days, or seconds.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError

Floats = npt.NDArray[np.float64]

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "max": np.maximum,
    "min": np.minimum,
    "round": np.rint,
    "sqrt": np.sqrt,
}
"""The functions of a formula; `min` and `max` take two numbers, all others one."""
_FUNCTIONS_OF_TWO = ("max", "min")

_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
_QUOTED_NAME = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Expression:
    """A formula of columns.

    Attributes:
        text: The formula as written by the user.

    Raises:
        SchemaError: if the text is not a formula.

    Examples:
        >>> import numpy as np
        >>> from noisegate.schema.relations.expression import Expression
        >>> bmi = Expression("weight / (`height in cm` / 100) ** 2")
        >>> bmi.names
        ('weight', 'height in cm')
        >>> one = {"weight": np.array([81.0]), "height in cm": np.array([180.0])}
        >>> bmi.value(one).tolist()
        [25.0]
    """

    text: str

    def __post_init__(self) -> None:
        _check_node(self._tree, self.text)

    @cached_property
    def _quoted_names(self) -> list[str]:
        """Names in backticks, in order, each as often as it stands there."""
        return _QUOTED_NAME.findall(self.text)

    @cached_property
    def _tree(self) -> ast.expr:
        """The syntax tree, in which `_quoted_0` stands for the first quoted name."""
        indices = iter(range(len(self._quoted_names)))
        plain = _QUOTED_NAME.sub(lambda _: f"_quoted_{next(indices)}", self.text)
        try:
            tree = ast.parse(plain.strip(), mode="eval")
            return _DottedNames().visit(tree).body  # type: ignore[no-any-return]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise SchemaError(
                f"{self.text!r} is no formula; write columns with + - * / ** and "
                "brackets, such as weight / (height / 100) ** 2, and names with "
                "blanks or that are keywords, such as `yield`, in backticks"
            ) from None

    def _name(self, node: ast.Name) -> str:
        """Returns the column that a name of the tree stands for."""
        if node.id.startswith("_quoted_"):
            return self._quoted_names[int(node.id.removeprefix("_quoted_"))]
        return node.id

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names in the formula, each once, in order."""
        called = {
            id(node.func) for node in ast.walk(self._tree) if isinstance(node, ast.Call)
        }
        names = [
            (node.lineno, node.col_offset, self._name(node))
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and id(node) not in called
        ]
        return tuple(dict.fromkeys(name for _, _, name in sorted(names)))

    def is_one_of(self, names: Collection[str]) -> bool:
        """Returns whether the formula is only the name of a column."""
        return isinstance(self._tree, ast.Name) and self._name(self._tree) in names

    def value(self, numbers: Mapping[str, npt.NDArray[Any]]) -> Floats:
        """Computes the formula, (records,); infinite or NaN where it has no value.

        Args:
            numbers: Numbers of each column in the formula, (records,).
        """
        with np.errstate(all="ignore"):
            value = self._evaluate(self._tree, numbers)
        length = len(next(iter(numbers.values())))
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (length,))

    def _evaluate(self, node: ast.expr, numbers: Mapping[str, Any]) -> Any:
        """Computes one node of the tree."""
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Name():
                return np.asarray(numbers[self._name(node)], dtype=np.float64)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._evaluate(operand, numbers)
            case ast.UnaryOp(operand=operand):
                return self._evaluate(operand, numbers)
            case ast.BinOp(left=left, op=operator, right=right):
                compute = _OPERATORS[type(operator)]
                return compute(
                    self._evaluate(left, numbers), self._evaluate(right, numbers)
                )
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return FUNCTIONS[name](
                    *[self._evaluate(argument, numbers) for argument in arguments]
                )
        raise AssertionError(node)  # `_check_node` has refused it


class _DottedNames(ast.NodeTransformer):
    """Makes one name of a table and its column, as in ``visits.day``."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not isinstance(node.value, ast.Name):
            return node
        dotted = ast.Name(id=f"{node.value.id}.{node.attr}", ctx=node.ctx)
        return ast.copy_location(dotted, node)


def _check_node(node: ast.expr, text: str) -> None:
    """Checks that a node and those below it are of the few kinds that formulas have.

    Raises:
        SchemaError: if not.
    """
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return
        case ast.Name():
            return
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check_node(operand, text)
            return
        case ast.BinOp(left=left, op=operator, right=right) if (
            type(operator) in _OPERATORS
        ):
            _check_node(left, text)
            _check_node(right, text)
            return
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if (
            name in FUNCTIONS
            and len(arguments) == (2 if name in _FUNCTIONS_OF_TWO else 1)
        ):
            for argument in arguments:
                _check_node(argument, text)
            return
    raise SchemaError(
        f"{text!r}: {ast.unparse(node)!r} cannot stand in a formula; it may have "
        "columns, numbers, + - * / **, brackets and the functions "
        f"{', '.join(FUNCTIONS)}"
    )


def quoted(name: str) -> str:
    """Returns a name as a formula writes it: in backticks if Python has no such name.

    Examples:
        >>> from noisegate.schema.relations.expression import quoted
        >>> quoted("age"), quoted("visits.day"), quoted("blood pressure")
        ('age', 'visits.day', '`blood pressure`')
        >>> quoted("yield")
        '`yield`'
    """
    parts = name.split(".") if name.count(".") == 1 else [name]
    are_names = all(
        part.isidentifier() and not keyword.iskeyword(part) for part in parts
    )
    is_plain = are_names and name.isascii() and name not in FUNCTIONS
    return name if is_plain else f"`{name}`"
