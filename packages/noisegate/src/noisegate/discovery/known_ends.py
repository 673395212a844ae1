"""Quantities whose ends are public knowledge, by the name of a column."""

from __future__ import annotations

import re

_ENDS: dict[str, tuple[tuple[int, int], ...]] = {
    r"hour(?:_?of_?day)?|hh|stunde": ((0, 23), (0, 24)),
    r"minute|second|sekunde": ((0, 59),),
    r"(?:day_?of_?week|week_?day|dow|wochentag)(?:_?num(?:ber)?)?": ((1, 7), (0, 6), (0, 7)),
    r"^(?:day|tag)|day_?of_?month|dom|mday|dd": ((1, 31), (0, 31)),
    r"(?:day_?of_?year|doy|yday|julian)(?:_?day)?": ((1, 366), (0, 365)),
    r"week(?:_?of_?year|_?num(?:ber)?|_?no)?|woche|kw": ((1, 53), (0, 53)),
    r"month(?:_?of_?year|_?num(?:ber)?|_?no)?|mm|monat": ((1, 12), (0, 11)),
    r"quarter|qtr|quartal": ((1, 4), (0, 3)),
    r"lat|latitude": ((-90, 90),),
    r"lon|lng|long|longitude": ((-180, 180), (0, 360)),
    r"angle|bearing|heading|azimuth|wind_?dir(?:ection)?": ((0, 360), (-180, 180)),
    r"percent(?:age)?|pct|perc|prozent|humidity|spo2": ((0, 100),),
    r"prob|probability": ((0, 1),),
    r"ph": ((0, 14),),
}
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|[^a-zA-Z0-9]+")


def known_ends(name: str, lowest: float, highest: float) -> tuple[int, int] | None:
    """Returns the ends of what a column is called by its last words, if all its numbers are between them."""
    words = _CAMEL.sub("_", name).strip("_").lower()
    ranges = (ends for called, ends in _ENDS.items() if re.search(rf"(?:^|(?<!per)_)(?:{called})$", words))
    return next(((low, high) for low, high in next(ranges, ()) if low <= lowest and highest <= high), None)
