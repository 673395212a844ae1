"""Analyses that are named before a release, so that the budget goes to what they need, and the least ε for them.

That ε is found by releases of records that stand in for private ones; nothing private is read. They are public, or made
up by the schema: numbers even between their bounds, levels equally common. Real numbers mostly vary less, which makes
intervals narrower; real groups may be rarer, which makes them wider.

```toml
[[analyses]]
kind = "ols"                      # or logit, poisson
outcome = "wage"
terms = ["age", "sex"]

[[analyses]] question = "mean(wage) by sex"    # any that `infer` understands half_width
= 0.5                  # optional: how far its intervals may reach ```
"""

import math
import re
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from noisegate.answers.answers import Estimate, read
from noisegate.answers.infer import infer
from noisegate.app.api import synthesize
from noisegate.errors import OptionError, said
from noisegate.methods.pairwise import Pairwise
from noisegate.privacy.events import Adjacency
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.decode import decode
from noisegate.schema.layout import bounds_of
from noisegate.testing import made_up

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 7.0, 10.0)
SHARES = (
    0.43,
    2.0,
)  # of second moments beside 1 for all else: three and seven tenths of the budget
_RELEASES, _ROOM = (
    3,
    1.2,
)  # of a trial, and how much wider than its widest interval one may be
# Squares of wider and narrower half-widths, over those of the noise, leave float64.
_MIN_HALF_WIDTH, _MAX_HALF_WIDTH = 1e-12, 1e18
_FORM = re.compile(
    r"^(?P<question>.+?)\s*(?:±|\+-|\+/-)\s*(?P<half>[0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*(?P<unit>%?)(?:\s+at\s+(?P<level>[0-9]*\.?[0-9]+)\s*%)?$"
)


@dataclass(frozen=True, kw_only=True)
class Want:
    """A question, and how far its interval may reach to either side."""

    text: str
    question: str
    half: float
    level: float = 0.95

    @property
    def most(self) -> float | None:
        """How far it may reach; None where it may have any width."""
        return self.half if math.isfinite(self.half) else None


@dataclass(frozen=True, kw_only=True)
class Met:
    """What comes of a want."""

    want: Want
    half: float | None  # what is promised; None where there was no answer
    met: bool
    records: int | None = None  # about how many would do at this ε, where these do not


@dataclass(frozen=True, kw_only=True)
class Price:
    """The least ε of `EPSILONS` that meets all wants, or the largest where none does; and the share of moments."""

    epsilon: float
    moments_share: float
    met: tuple[Met, ...]

    @property
    def reached(self) -> bool:
        """Whether all wants are met."""
        return all(one.met for one in self.met)

    def to_json(self) -> dict[str, Any]:
        """Returns what comes of each want at which share of moments, as JSON values."""
        wants = [
            {
                "want": one.want.text,
                "half": one.want.most,
                "promised": one.half,
                "met": one.met,
                "records": one.records,
            }
            for one in self.met
        ]
        return {
            "tried": self.epsilon,
            "moments_share": self.moments_share,
            "wants": wants,
        }


def read_want(text: str, schema: Schema) -> Want:
    """Returns a want such as ``mean(wage) by sex ±2 % at 95 %`` or ``wage ~ age + sex +- 0.05``.

    Of shares and correlations percent are hundredths, of means and quantiles hundredths of the range of the column.

    Raises:
        OptionError: if it is none, or percent are of nothing.

    Examples:
        >>> from noisegate.schema import Integer, Schema
        >>> read_want("mean(age) ±2 %", Schema((Integer(name="age", lower=0, upper=100),))).half
        2.0
    """
    found = _FORM.match(text.strip())
    if found is None:
        raise OptionError(
            f"want {text!r} must be a query and the half-width of its interval, as 'mean(wage) by sex ±2 % at 95 %'."
        )
    asked, half, level = (
        read(found["question"]),
        float(found["half"]),
        float(found["level"] or 95) / 100,
    )
    if not (half > 0 and 0 < level < 1):
        raise OptionError(
            f"want {text!r}: the width must be above 0, and the level between 0 % and 100 %."
        )
    if not _MIN_HALF_WIDTH <= half <= _MAX_HALF_WIDTH:
        raise OptionError(
            f"want {text!r}: the width must be from {_MIN_HALF_WIDTH:g} to {_MAX_HALF_WIDTH:g}, as an answer may have."
        )
    if found["unit"]:
        half /= 100
        if asked.kind in ("mean", "quantile"):
            column = schema.column(asked.columns[0])
            if not column.numeric:
                raise OptionError(
                    f"want {text!r}: {column.name!r} is not numeric; it has levels."
                )
            low, high = map(float, bounds_of(column))
            half *= high - low
        elif asked.kind not in ("share", "corr", "partial"):
            raise OptionError(
                f"want {text!r}: percent are of a share, a correlation, a mean or a quantile."
            )
    return Want(text=text, question=found["question"].strip(), half=half, level=level)


def expected(
    wants: Sequence[Want],
    schema: Schema,
    records: int,
    settings: Mapping[str, Any],
    *,
    stand_in: EncodedTable | None = None,
    **budget: Any,
) -> tuple[Met, ...]:
    """Returns what comes of each want by some settings of `pairwise` and a budget; see `price`."""
    if (
        Adjacency.parse(budget.get("adjacency", Adjacency.ADD_REMOVE))
        is Adjacency.REPLACE_ONE
    ):
        budget["records"] = records  # are public then
    found: list[list[tuple[float, int] | None]] = [[] for _ in wants]
    for seed in range(_RELEASES):
        rows = made_up(schema.layout, records, seed)
        if stand_in is not None:
            rows = stand_in.rows(
                np.random.default_rng(seed).integers(0, len(stand_in), records)
            )
        method = Pairwise(**{"fit_options": {"steps": 20}, "seed": seed, **settings})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nobody's records are spent on
            made = decode(rows, schema, stored=True)
            model = synthesize(made, schema=schema, method=method, **budget)
        for place, want in enumerate(wants):
            found[place].append(
                _half(want, infer(model, want.question, level=want.level), records)
            )
    return tuple(_met(want, halves) for want, halves in zip(wants, found, strict=True))


def price(
    wants: Sequence[Want],
    schema: Schema,
    records: int,
    *,
    stand_in: EncodedTable | None = None,
    shares: Sequence[float] = SHARES,
    progress: Callable[[str], None] = lambda _: None,
    **budget: Any,
) -> Price:
    """Returns the least ε that meets all wants of about so many records; reads no private data.

    Args:
        wants: See `read_want`.
        schema: Public knowledge about the records.
        records: About how many there are, as far as the public knows.
        stand_in: Public records of this schema, drawn from with replacement; None for made-up ones.
        shares: Shares of second moments to try.
        progress: Is told what is tried.
        budget: Further arguments of `noisegate.fit`: ``delta``, ``adjacency``.
    """

    @cache
    def tried(epsilon: float, share: float) -> tuple[Met, ...]:
        progress(f"epsilon {epsilon:g}, moments_share {share:g}")
        return expected(
            wants,
            schema,
            records,
            {"moments_share": share},
            stand_in=stand_in,
            epsilon=epsilon,
            **budget,
        )

    best: tuple[int, float] | None = None
    for share in shares:
        low, high = (
            0,
            len(EPSILONS) - 1 if best is None else best[0],
        )  # of the others only a smaller ε is of interest
        if best is None and not all(one.met for one in tried(EPSILONS[high], share)):
            continue
        while low < high:
            middle = (low + high) // 2
            low, high = (
                (low, middle)
                if all(one.met for one in tried(EPSILONS[middle], share))
                else (middle + 1, high)
            )
        if best is None or high < best[0]:
            best = (high, share)
    if best is not None:
        return Price(
            epsilon=EPSILONS[best[0]],
            moments_share=best[1],
            met=tried(EPSILONS[best[0]], best[1]),
        )
    last = {share: tried(EPSILONS[-1], share) for share in shares}
    share = max(last, key=lambda one: sum(met.met for met in last[one]))
    return Price(epsilon=EPSILONS[-1], moments_share=share, met=last[share])


def _half(
    want: Want, answers: Sequence[Estimate], records: int
) -> tuple[float, int] | None:
    """Returns the widest half interval, and how many records would do; None where there is no answer."""
    halves, enough, goal = (
        [0.0],
        1,
        (want.half / NormalDist().inv_cdf(0.5 + want.level / 2) / _ROOM) ** 2,
    )
    for one in answers:
        if one.name == "intercept":
            continue
        if one.low is None or one.high is None:
            return None
        halves.append((one.high - one.low) / 2)
        # Of m records for n: (sampling² + bias²) n/m + noise² (n/m)²; cells are the finer the more records there are.
        if want.most is None:
            continue
        line = one.sampling**2 + one.bias**2
        root = (line + math.sqrt(line**2 + 4 * goal * one.noise**2)) / (2 * goal)
        enough = max(enough, math.ceil(records * root))
    return max(halves), enough


def _met(want: Want, found: Sequence[tuple[float, int] | None]) -> Met:
    told = [one for one in found if one is not None]
    if len(told) < len(found):
        return Met(want=want, half=None, met=False)
    half, enough = (
        _ROOM * float(max(one[0] for one in told)),
        max(one[1] for one in told),
    )
    return Met(
        want=want,
        half=half,
        met=half <= want.half,
        records=None if half <= want.half else enough,
    )


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
    if (
        not isinstance(entries, list)
        or set(found) != {"analyses"}
        or not all(isinstance(one, dict) for one in entries)
    ):
        raise OptionError(
            f"{where}: expected tables [[analyses]], and nothing beside them."
        )
    return tuple(
        _want(one, f"{where}, number {place}") for place, one in enumerate(entries, 1)
    )


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
        raise OptionError(
            f"{where}: unknown key {min(unknown)!r}; the keys are {', '.join(sorted(known))}."
        )
    question, kind, outcome, terms = (
        entry.get(name, "") for name in ("question", "kind", "outcome", "terms")
    )
    if "question" not in entry:
        good = (
            str(kind) in _MODELS
            and isinstance(outcome, str)
            and isinstance(terms, list)
            and terms
        )
        if not good or not all(isinstance(term, str) for term in terms):
            raise OptionError(
                f"{where}: expected a question, or a kind of {', '.join(_MODELS)} with an outcome and a list of terms: "
                'kind = "ols", outcome = "wage", terms = ["age", "sex"].'
            )
        question = _MODELS[kind].format(
            f"`{outcome}`", " + ".join(f"`{term}`" for term in terms)
        )
    elif not isinstance(question, str) or len(entry) > 1 + ("half_width" in entry):
        raise OptionError(
            f"{where}: a question is text, given without kind, outcome and terms."
        )
    half = entry.get("half_width", float("inf"))
    if isinstance(half, bool) or not isinstance(half, int | float) or not half > 0:
        raise OptionError(f"{where}: half_width = {half!r} must be a number above 0.")
    read(question)
    return Want(text=question, question=question, half=float(half))
