"""How numbers, days and moments are written: from a cell to what its kind is read from, and back, cell by cell."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from noisegate.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

_MONTHS = re.findall(
    "[a-z]+",
    "january february march april may june july august september october november december",
)
_NUMBERS = {
    text: f"{place:02}"
    for place, name in enumerate(_MONTHS, start=1)
    for text in (name, name[:3])
}
_FIELD = re.compile(r"%(-?)([YymdHMSbBIp])")
_SHAPES = {"Y": "[0-9]{4}", "b": "[A-Za-z]{3}", "B": "[A-Za-z]{3,9}", "p": "[AaPp][Mm]"}
_SAME = str.maketrans("ybBI", "YmmH")  # fields that say the same
_NUMBER = re.compile(
    r"([^#0-9;]*)(?:#([^#0-9])##)?0(?:([.,])(0+))?([^#0-9;]*)(;\(.*\))?"
)
_BY_CLOCK = ("date", "datetime")


def check_format(column: Any) -> None:
    """Requires fields such as %Y as the format of days and moments, and of numbers a pattern such as $#,##0.00."""
    form = column.format
    if form is None:
        return
    fields = [field.translate(_SAME) for _, field in _FIELD.findall(str(form))]
    known: Any = (
        fields
        and len({*fields}) == len(fields)
        and not re.search("[%0-9]", _FIELD.sub("", str(form)))
    )
    known = known and ("%p" in form) == bool(re.search("%-?I", form))
    such = "'%d.%m.%Y %H:%M', each field once"
    if column.kind not in _BY_CLOCK:
        known, such = (
            _NUMBER.fullmatch(str(form)),
            "'$#,##0.00', '0.0%' or '#.##0,00 €'",
        )
    if not known or not isinstance(form, str):
        raise SchemaError(
            f"column {column.name!r}: format = {form!r} cannot be read; expected one such as {such}"
        )


def parse_formatted(column: Any, cells: pa.Array) -> pa.Array:
    """Returns the text of a column as ISO text or plain numbers; what is not in its format as none, or as it is."""
    form = getattr(column, "format", None)
    if form is None:
        return cells
    if (
        column.kind in _BY_CLOCK
        and _digits(form)
        and re.match("u?int|double", str(cells.type))
    ):
        cells = cells.cast("string")
    plain = partial(iso_text if column.kind in _BY_CLOCK else _plain, form)
    return _each(cells, plain) if str(cells.type) == "string" else cells


def format_cells(column: Any, cells: pa.Array) -> pa.Array:
    """Returns numbers, days or moments as text in their format; as whole numbers if a date of digits alone."""
    if column.kind not in _BY_CLOCK:
        return _each(cells, partial(_decorated, column.format))
    text = _each(
        cells.cast("timestamp[s]", safe=False).cast("string"),
        partial(_clocked, column.format),
    )
    return (
        text.cast("int64")
        if _digits(column.format) and column.format.startswith(("%Y", "%-"))
        else text
    )


def _each(cells: pa.Array, made: Callable[[Any], str]) -> pa.Array:
    import pyarrow as pa  # here, so that reading a schema stays fast

    distinct = cells.dictionary_encode()
    return pa.array(
        [made(cell) for cell in distinct.dictionary.to_pylist()], pa.string()
    ).take(distinct.indices)


def _digits(form: str) -> bool:
    return not re.sub(r"%-?[YmdHMS]", "", form)


@lru_cache(maxsize=1024)
def _clock_pattern(form: str) -> re.Pattern[str]:
    *pieces, last = _FIELD.split(
        form
    )  # literal text, a minus or none, the letter of a field, and so on
    fields = zip(pieces[0::3], pieces[1::3], pieces[2::3], strict=True)
    shapes = (
        (text, field, _SHAPES.get(field, "[0-9]{1,2}" if short else "[0-9]{2}"))
        for text, short, field in fields
    )
    found = [f"{re.escape(text)}(?P<{field}>{shape})" for text, field, shape in shapes]
    return re.compile("".join([*found, re.escape(last)]))


def iso_text(form: str, cell: str) -> str:
    """Returns a cell of fields as ISO text; as it is, if it is not written in the format."""
    width = 2 * len(_FIELD.findall(form)) + 2 * ("Y" in form) if _digits(form) else 0
    found = _clock_pattern(form).fullmatch(
        cell.removesuffix(".0").zfill(width) if width else cell
    )
    if found is None:
        return cell
    said = {
        "Y": "1970",
        "m": "1",
        "d": "1",
        "H": "0",
        "M": "0",
        "S": "0",
    } | found.groupdict()
    said["m"] = _NUMBERS.get(said.get("b", said.get("B", "")).lower(), said["m"])
    if "y" in said:  # as everywhere, 69 to 99 are the last century's
        said["Y"] = ("19" if said["y"] >= "69" else "20") + said["y"]
    if "I" in said:
        said["H"] = str(int(said["I"]) % 12 + 12 * (said.get("p", "").lower() == "pm"))
    return "{Y}-{m:0>2}-{d:0>2} {H:0>2}:{M:0>2}:{S:0>2}".format_map(said)


def _clocked(form: str, moment: str) -> str:
    said = dict(zip("YmdHMS", re.split("[-: ]", moment), strict=True))
    said["B"] = _MONTHS[int(said["m"]) - 1].capitalize()
    said |= {
        "b": said["B"][:3],
        "y": said["Y"][2:],
        "p": "AM" if said["H"] < "12" else "PM",
    }
    said["I"] = f"{(int(said['H']) + 11) % 12 + 1:02}"
    return _FIELD.sub(
        lambda field: said[field[2]].removeprefix("0" * len(field[1])), form
    )


@lru_cache
def _number_pattern(form: str) -> re.Pattern[str]:
    before, mark, point, _, after, _ = (
        re.escape(part.strip() or part) for part in _parts(form)
    )
    whole = rf"[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+|[0-9]+" if mark else "[0-9]+"
    part = rf"(?:{point}([0-9]+))?" if point else "()"
    return re.compile(
        rf"(\()?([-+]?)(?:{before})?\s*([-+]?)({whole}){part}\s*(?:{after})?(\))?"
    )


def _parts(form: str) -> list[str]:
    return _NUMBER.findall(form)[0]  # type: ignore[no-any-return]


def _plain(form: str, cell: str) -> str:
    found = _number_pattern(form).fullmatch(cell)
    if found is None or bool(found[1]) != bool(found[6]):
        return "in another format"  # is 1.5 one and a half where 1.234 is a thousand?
    sign = "-" * ("-" in found[2] + found[3] or found[1] is not None)
    return f"{sign}{re.sub('[^0-9]', '', found[4])}.{found[5] or 0}"


def _decorated(form: str, number: float) -> str:
    before, mark, point, places, after, below = _parts(form)
    digits = f"{abs(number):,.{len(places)}f}".translate(
        {ord(","): mark, ord("."): point}
    )
    text = f"{before}{digits}{after}"
    if number >= 0 or not re.search("[1-9]", digits):
        return text
    return f"({text})" if below else f"-{text}"
