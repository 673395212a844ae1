"""What pictures have in common: colours, texts that their font can draw, names of cells, and the file they become."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path

from noisegate.errors import OptionError
from noisegate.features.binning import NumericBins
from noisegate.schema import CodedColumn, Continuous, Date, Datetime, NumericColumn
from noisegate.schema.layout import body

FONT = "DejaVu Sans"
REAL = "#c3cad6"
SYNTHETIC = "#d1495b"
INK = "#2b2f36"
FAINT = "#7b8494"
MISSING = "(missing)"
_CLOSE = 1e-9  # the width of a cell that holds a single real number


def save_picture(path: str | Path, picture: bytes) -> None:
    """Writes a picture; a file that is there is replaced."""
    try:
        Path(path).write_bytes(picture)
    except OSError as error:
        raise OptionError(
            f"cannot write the picture to {str(path)!r}: {error.strerror}; "
            "give a file in a folder that exists and is writable"
        ) from error


def legible(value: object, most: int) -> str:
    """Returns a value on one line: at most so many characters, a middle dot for each that the font does not have."""
    drawable = _drawable()
    text = "".join(letter if ord(letter) in drawable else "·" for letter in " ".join(str(value).split()))
    return text if len(text) <= most else text[: most - 1] + "…"


def at(column: NumericColumn, unit: float) -> str:
    """Returns the value at a position of a column, as the scale between its bounds says it: 4.2M, 0.35, 2024-05-01."""
    lower, upper = body(column)
    unit = (unit - lower) / (upper - lower)
    if isinstance(column, Date | Datetime):
        start, end = column.steps
        day = timedelta(days=1) if isinstance(column, Date) else timedelta(microseconds=1)
        moment = datetime(1970, 1, 1) + day * round(start + unit * (end - start))
        return f"{moment:%Y-%m-%d}"
    return _short(float(column.lower) + unit * (float(column.upper) - float(column.lower)))


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if size <= abs(number) < 1e13:
            return f"{number / size:.3g}{letter}"
    return f"{number:,.0f}" if 1e4 <= abs(number) < 1e6 else f"{number:.4g}"


@cache
def _drawable() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(FONT)).get_charmap())


def level_names(column: CodedColumn) -> list[str]:
    """Returns the name of each code of a column."""
    names = [str(level) for level in column.levels]
    return [*names, MISSING][: column.size]


def cell_names(column: NumericColumn, bins: NumericBins) -> list[str]:
    """Returns the name of each cell: the values between two cuts, or the one value that is there."""
    names = [span_name(column, low, high) or "" for low, high in pairwise((0.0, *bins.cuts, 1.0))]
    return [*names, MISSING] if bins.nullable else names


def numbered(names: Sequence[str]) -> list[str]:
    """Returns names that differ: those that read alike get a number behind them."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told


def span_name(column: NumericColumn, low: float, high: float) -> str | None:
    """Returns the values from one position up to another, the last bound with it; None where there are none."""
    if isinstance(column, Continuous):
        # A bound is a cell of its own, and the next one begins at the float64 above it.
        ends = [round(low, 12)] if high - low < _CLOSE else [round(low, 12), round(high, 12)]
    else:
        first = math.ceil(low * column.last - _CLOSE)
        last = column.last if high == 1.0 else math.ceil(high * column.last - _CLOSE) - 1
        if last < first:
            return None
        ends = [first / column.last, last / column.last]
    return " – ".join(dict.fromkeys(at(column, end) for end in ends))
