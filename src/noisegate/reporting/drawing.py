"""What pictures have in common: colours, short texts that their font can draw, and the file that they become."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from noisegate.errors import OptionError
from noisegate.schema import Date, Datetime, NumericColumn
from noisegate.schema.positions import body

FONT = "DejaVu Sans"
REAL = "#c3cad6"
SYNTHETIC = "#d1495b"
INK = "#2b2f36"
FAINT = "#7b8494"


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
