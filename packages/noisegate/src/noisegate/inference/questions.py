"""The questions that `infer` understands, as text: one line each, the same in Python and at the command line."""

import re
from dataclasses import dataclass
from typing import Any

from noisegate.errors import OptionError

FORMS = (
    "mean(x)",
    "mean(x) by g",
    "share(c = level)",
    "share(c = level) by g",
    "share(x < number)",
    "count(c = level)",
    "quantile(x, 0.9)",
    "median(x)",
    "corr(x, y)",
    "partial(x, y | z)",
    "chi2(a, b)",
    "odds(a, b)",
    "y ~ x + g",
    "logit(y) ~ x + g",
    "poisson(y) ~ x + g",
    "survival(time, event)",
    "survival(time, event) by g",
)
_CALL = re.compile(r"^(?P<kind>[a-z0-9]+)\s*\((?P<inside>.*)\)(?:\s+by\s+(?P<by>.+))?$", re.DOTALL)
_MODEL = re.compile(r"^(?:(?P<kind>logit|poisson)\s*\((?P<inner>[^~]*)\)\s*|(?P<outcome>[^~]+))~(?P<terms>[^~]+)$")
_COMPARED = re.compile(r"^(?P<column>[^<=]+?)\s*(?P<how><=|<|=)\s*(?P<value>.+)$")
_NUMBER_OF = {"mean": 1, "median": 1, "quantile": 2, "corr": 2, "chi2": 2, "odds": 2, "survival": 2}


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """One question, taken apart.

    Examples:
        >>> from noisegate.inference.questions import read
        >>> found = read("logit(ill) ~ age + `smokes daily`")
        >>> found.kind, found.columns
        ('logit', ('ill', 'age', 'smokes daily'))
        >>> read("share(job = nurse) by sex").by
        'sex'
    """

    text: str
    kind: str
    columns: tuple[str, ...]
    by: str | None = None
    value: Any = None  # a level, a bound or a probability
    how: str = "="
    given: tuple[str, ...] = ()


def read(text: str) -> Analysis:
    """Returns a question; an OptionError if it is none of `FORMS`."""
    line = text.strip()
    found = _MODEL.match(line)
    if found:
        kind = found["kind"] or "ols"
        outcome = found["inner"] if found["kind"] else found["outcome"]
        return Analysis(text=line, kind=kind, columns=(_name(outcome), *map(_name, found["terms"].split("+"))))
    found = _CALL.match(line)
    if not found:
        raise _unknown(text)
    kind, inside = found["kind"], found["inside"]
    by = None if found["by"] is None else _name(found["by"])
    if kind in ("share", "count") and (compared := _COMPARED.match(inside.strip())):
        value = compared["value"].strip().strip("'\"")
        return Analysis(
            text=line, kind=kind, columns=(_name(compared["column"]),), by=by, value=value, how=compared["how"]
        )
    if kind == "partial" and "|" in inside:
        pair, given = inside.split("|", 1)
        columns, others = tuple(map(_name, pair.split(","))), tuple(map(_name, re.split(r"[,+]", given)))
        if len(columns) == 2 and by is None:
            return Analysis(text=line, kind=kind, columns=columns, given=others)
    parts = [part.strip() for part in inside.split(",")]
    if _NUMBER_OF.get(kind) != len(parts) or (by is not None and kind not in ("mean", "survival")):
        raise _unknown(text)
    if kind == "quantile":
        try:
            probability = float(parts[1])
        except ValueError:
            raise _unknown(text) from None
        if not 0 < probability < 1:
            raise OptionError(f"question {line!r}: a quantile is asked at a number between 0 and 1.")
        return Analysis(text=line, kind=kind, columns=(_name(parts[0]),), value=probability)
    if kind == "median":
        return Analysis(text=line, kind="quantile", columns=(_name(parts[0]),), value=0.5)
    return Analysis(text=line, kind=kind, columns=tuple(map(_name, parts)), by=by)


def _name(text: str) -> str:
    return text.strip().strip("`")


def _unknown(text: str) -> OptionError:
    return OptionError(f"question {text!r} is not understood; the forms are: {'; '.join(FORMS)}.")
