"""How numbers, days and moments are written: from a cell to what its kind is read from, and back, cell by cell."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from noisegate.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema.columns import Column
    from noisegate.schema.numeric import NumericColumn

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November")
_NAMES = {name: f"{place:02}" for place, name in enumerate((*_MONTHS, "December"), start=1)}
_NUMBERS = {text.lower(): number for name, number in _NAMES.items() for text in (name, name[:3])}
_FIELD = re.compile(r"%(-?)([YmdHMSbB])")
_SHAPES = {"Y": "[0-9]{4}", "b": "[A-Za-z]{3}", "B": "[A-Za-z]{3,9}"}
_NUMBER = re.compile(r"([^#0-9;]*)(?:#([^#0-9])##)?0(?:([.,])(0+))?([^#0-9;]*)(;\(.*\))?")


def check_format(column: NumericColumn | Any) -> None:
    """Requires fields such as %Y of days and moments, and of numbers a pattern such as $#,##0.00."""
    form, clock = column.format, _by_clock(column)
    if form is None:
        return
    fields = [field.replace("b", "m").replace("B", "m") for _, field in _FIELD.findall(str(form))]
    wrong = not fields or len({*fields}) < len(fields) or re.search(r"[%0-9]", _FIELD.sub("", str(form))) is not None
    if not isinstance(form, str) or (wrong if clock else _NUMBER.fullmatch(form) is None):
        known = "'%d.%m.%Y %H:%M', each field once" if clock else "'$#,##0.00', '0.0%' or '#.##0,00 €'"
        raise SchemaError(
            f"column {column.name!r}: format = {form!r} is none that can be read; expected one such as {known}"
        )


def _by_clock(column: NumericColumn) -> bool:
    return column.kind in ("date", "datetime")


def plain_text(column: Column, cells: pa.Array) -> pa.Array:
    """Returns the cells of a column as ISO text or plain numbers; those that are not written in its format as is."""
    form: str | None = getattr(column, "format", None)
    if form is None or not column.numeric:
        return cells
    clock = _by_clock(column)
    if clock and _digits(form) and ("int" in str(cells.type) or str(cells.type) == "double"):
        cells = cells.cast("string")
    return _each(cells, partial(_iso if clock else _plain, form)) if str(cells.type) == "string" else cells


def written(column: NumericColumn, cells: pa.Array) -> pa.Array:
    """Returns numbers, days or moments as text in their format; as whole numbers if a date of digits alone."""
    form = str(column.format)
    if not _by_clock(column):
        return _each(cells, partial(_decorated, form))
    text = _each(cells.cast("timestamp[s]", safe=False).cast("string"), partial(_clocked, form))
    return text.cast("int64") if _digits(form) and form.startswith(("%Y", "%-")) else text


def _each(cells: pa.Array, made: Callable[[Any], str]) -> pa.Array:
    import pyarrow as pa  # here, so that reading a schema stays fast

    distinct = cells.dictionary_encode()
    return pa.array([made(cell) for cell in distinct.dictionary.to_pylist()], pa.string()).take(distinct.indices)


def _digits(form: str) -> bool:
    return not re.sub(r"%-?[YmdHMS]", "", form)


@lru_cache
def _clock_pattern(form: str) -> re.Pattern[str]:
    # What _FIELD splits: literal text, a minus or none, the letter of a field, and so on, and literal text.
    pieces = _FIELD.split(form)
    for place in range(2, len(pieces), 3):
        shape = _SHAPES.get(pieces[place], "[0-9]{1,2}" if pieces[place - 1] else "[0-9]{2}")
        pieces[place - 2 : place + 1] = [re.escape(pieces[place - 2]), "", f"(?P<{pieces[place]}>{shape})"]
    return re.compile("".join([*pieces[:-1], re.escape(pieces[-1])]))


def _iso(form: str, cell: str) -> str:
    width = 2 * len(_FIELD.findall(form)) + 2 * ("Y" in form) if _digits(form) else 0
    found = _clock_pattern(form).fullmatch(cell.removesuffix(".0").zfill(width))
    if found is None:
        return cell
    said = {"Y": "1970", "m": "1", "d": "1", "H": "0", "M": "0", "S": "0"} | found.groupdict()
    said["m"] = _NUMBERS.get(said.get("b", said.get("B", "")).lower(), said["m"])
    return "{Y}-{m:0>2}-{d:0>2} {H:0>2}:{M:0>2}:{S:0>2}".format_map(said)


def _clocked(form: str, moment: str) -> str:
    said = dict(zip("YmdHMS", re.split("[-: ]", moment), strict=True))
    said["B"] = next(name for name, number in _NAMES.items() if number == said["m"])
    said["b"] = said["B"][:3]
    return _FIELD.sub(lambda field: said[field[2]].removeprefix("0" * len(field[1])), form)


@lru_cache
def _number_pattern(form: str) -> re.Pattern[str]:
    before, mark, point, _, after, _ = _parts(form)
    whole = rf"[0-9]{{1,3}}(?:{re.escape(mark)}[0-9]{{3}})+|[0-9]+" if mark else "[0-9]+"
    part = rf"(?:{re.escape(point)}([0-9]+))?" if point else "()"
    text = [re.escape(piece.strip()) for piece in (before, after)]
    return re.compile(rf"(\()?([-+]?){text[0]}\s*([-+]?)({whole}){part}\s*{text[1]}(\))?")


def _parts(form: str) -> tuple[str, ...]:
    found = _NUMBER.fullmatch(form)
    assert found is not None  # checked when the column was made
    return tuple(part or "" for part in found.groups())


def _plain(form: str, cell: str) -> str:
    found = _number_pattern(form).fullmatch(cell)
    if found is None or bool(found[1]) != bool(found[6]):
        return cell
    sign = "-" * ("-" in found[2] + found[3] or found[1] is not None)
    return sign + re.sub("[^0-9]", "", found[4]) + f".{found[5] or 0}"


def moment_of(text: str) -> int | None:
    """Returns microseconds since 1970 of ISO text; None if it says no moment that there is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=None if moment.tzinfo is None else UTC)
    return (moment - epoch) // timedelta(microseconds=1)


def _decorated(form: str, number: float) -> str:
    before, mark, point, places, after, below = _parts(form)
    digits = f"{abs(number):,.{len(places)}f}".translate({ord(","): mark, ord("."): point})
    text = f"{before}{digits}{after}"
    if number >= 0 or not re.search("[1-9]", digits):
        return text
    return f"({text})" if below else f"-{text}"
