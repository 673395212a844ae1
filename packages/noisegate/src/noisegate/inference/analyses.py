"""Analyses that are named before a release, in a file, so that the budget goes to what they need."""

import tomllib
from pathlib import Path
from typing import Any

from noisegate.errors import OptionError, said
from noisegate.inference.questions import read
from noisegate.inference.wants import SHARES, Want

_MODELS = {"ols": "{} ~ {}", "logit": "logit({}) ~ {}", "poisson": "poisson({}) ~ {}"}
_OF_TABLES = ("quantile", "survival")  # and not of moments


def read_analyses(file: str | Path) -> tuple[Want, ...]:
    """Returns the analyses in a TOML file, of any width where none is stated; an OptionError if it says none."""
    where = said("analyses", Path(file))
    try:
        found = tomllib.loads(Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OptionError(f"{where} cannot be read: {error}") from None
    entries = found.get("analyses")
    if not isinstance(entries, list) or set(found) != {"analyses"} or not all(isinstance(one, dict) for one in entries):
        raise OptionError(f"{where}: expected tables [[analyses]], and nothing beside them.")
    return tuple(_want(one, f"{where}, number {place}") for place, one in enumerate(entries, 1))


def settings_for(file: str | Path) -> dict[str, Any]:
    """Returns the settings of `pairwise` that ask for second moments of the columns that analyses need, and no other.

    Raises:
        OptionError: as `read_analyses` does.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("two.toml").write_text('analyses = [{question = "mean(wage) by sex"}]')
        >>> settings_for("two.toml")
        {'moments_share': 0.43, 'moments': ['sex', 'wage']}
    """
    asked = [read(one.question) for one in read_analyses(file)]
    named = {
        name
        for one in asked
        if one.kind not in _OF_TABLES and one.how == "="
        for name in (*one.columns, *one.given, *([] if one.by is None else [one.by]))
    }
    return {"moments_share": SHARES[0], "moments": sorted(named)} if named else {}


def _want(entry: dict[str, Any], where: str) -> Want:
    known = {"question", "kind", "outcome", "terms", "half_width"}
    if unknown := set(entry) - known:
        raise OptionError(f"{where}: unknown key {min(unknown)!r}; the keys are {', '.join(sorted(known))}.")
    question, kind, outcome, terms = (entry.get(name, "") for name in ("question", "kind", "outcome", "terms"))
    if "question" not in entry:
        good = str(kind) in _MODELS and isinstance(outcome, str) and isinstance(terms, list) and terms
        if not good or not all(isinstance(term, str) for term in terms):
            raise OptionError(
                f"{where}: expected a question, or a kind of {', '.join(_MODELS)} with an outcome and a list of terms: "
                'kind = "ols", outcome = "wage", terms = ["age", "sex"].'
            )
        question = _MODELS[kind].format(f"`{outcome}`", " + ".join(f"`{term}`" for term in terms))
    elif not isinstance(question, str) or len(entry) > 1 + ("half_width" in entry):
        raise OptionError(f"{where}: a question is text, and stands without kind, outcome and terms.")
    half = entry.get("half_width", float("inf"))
    if isinstance(half, bool) or not isinstance(half, int | float) or not half > 0:
        raise OptionError(f"{where}: half_width = {half!r} must be a number above 0.")
    read(question)
    return Want(text=question, question=question, half=float(half))
