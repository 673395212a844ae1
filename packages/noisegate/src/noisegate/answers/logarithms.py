"""Logarithms of numbers as terms: ``log(wage)`` and, where 0 occurs, ``log1p(visits)``.

No moments of them are released. Sums of their products follow from tables of counts, in
which a logarithm stands for the mean of its cell: it does not mind a long tail, whose
moments the noise would hide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.errors import OptionError
from noisegate.queries.moments import ScaledNumber
from noisegate.schema import NumericColumn
from noisegate.schema.layout import bound_positions, bounds_of

_CALL = re.compile(r"(?P<function>log|log1p)\s*\(\s*(?P<column>.+?)\s*\)")
# What is added to a number before the logarithm is taken.
_SHIFTS: Mapping[str, float] = {"log": 0.0, "log1p": 1.0}


class LogarithmicTerm(NamedTuple):
    """The logarithm of a column, as a question writes it.

    Attributes:
        name: The term, such as "log(wage)".
        function: "log", or "log1p" for that of one more.
        column: Name of the column.
    """

    name: str
    function: str
    column: str


def parse_logarithm(name: str, columns: Sequence[str]) -> LogarithmicTerm | None:
    """Parses a term; None if it is no logarithm of a column, or a column itself.

    Args:
        name: The term, in which the column may stand between backquotes.
        columns: Names of all columns.

    Examples:
        >>> parse_logarithm("log(`net wage`)", ["net wage"]).column
        'net wage'
        >>> parse_logarithm("log(wage)", ["log(wage)"]) is None
        True
    """
    match = _CALL.fullmatch(name)
    if match is None or name in columns:
        return None
    column = match["column"].strip("`")
    if column not in columns:
        return None
    return LogarithmicTerm(name, match["function"], column)


def is_logarithm(name: str) -> bool:
    """Tells whether a term is written as a logarithm, of whatever column."""
    return _CALL.fullmatch(name) is not None


@dataclass(frozen=True, kw_only=True)
class LogarithmicColumn(ScaledNumber):
    """A numeric column whose logarithm is scaled to [−1, 1]; low and high are of that.

    Attributes:
        lower: The lower bound of the column, in its unit.
        unit: What a position of 1 is more than one of 0, in the unit of the column.
        shift: What is added to a number before the logarithm is taken.
    """

    lower: float
    unit: float
    shift: float

    @property
    def is_clipped(self) -> bool:
        """Whether numbers within the bounds are clipped, which they never are."""
        return False

    def unclipped(self, positions: Floats) -> Floats:
        """Scales the logarithms of numbers at some positions, of any shape."""
        numbers = self.lower + self.unit * (positions - self.start)
        # Positions of atoms outside the bounds, which are no numbers, may be negative.
        smallest = np.exp(self.low)
        logarithms = np.log(np.maximum(numbers + self.shift, smallest))
        middle = (self.low + self.high) / 2
        return np.asarray((logarithms - middle) * (2 / (self.high - self.low)))


def logarithmic_column(
    term: LogarithmicTerm, column: NumericColumn, scaled: ScaledNumber
) -> LogarithmicColumn:
    """Returns the scaled logarithm of a column.

    Args:
        term: What is asked for.
        column: The column.
        scaled: The column with its bounds as range.

    Raises:
        OptionError: if the column holds dates, or numbers that have no logarithm.
    """
    if column.unit is not None:
        raise OptionError(f"{term.name}: {term.column!r} holds no amounts.")
    lower, upper = (float(bound) for bound in bounds_of(column))
    shift = _SHIFTS[term.function]
    if lower + shift <= 0:
        cure = f"; ask for log1p({term.column})" if lower >= 0 else ""
        raise OptionError(
            f"{term.name}: by the schema {term.column!r} may be {lower:g}, which has no "
            f"logarithm{cure}."
        )
    start, stop = bound_positions(column)
    return LogarithmicColumn(
        index=scaled.index,
        low=float(np.log(lower + shift)),
        high=float(np.log(upper + shift)),
        start=scaled.start,
        stop=scaled.stop,
        nullable=scaled.nullable,
        lower=lower,
        unit=(upper - lower) / (stop - start),
        shift=shift,
    )
