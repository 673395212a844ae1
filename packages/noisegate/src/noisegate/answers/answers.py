"""Estimates with intervals: functions of what a release says, with its noise and the sampling of the records.

An estimate is a quotient θ = a/b of functions of sums s with gradients A and B. Its interval is Fieller's (1954): all θ
for which a − θb is within so many of its standard errors of 0. By the delta method the variance of a − θb is that of
the noise, G diag(v) G' with G = A − θB and v known exactly; that of sampling, n G C G', with C the covariance of the
entries of a record, by records of the model; and what sums may be off by, since cells have a width. What the noise does
beyond gradients is found by drawing it again: a shift is taken off, a wider spread counts; where either is no longer
small, or the interval has no end, there is no answer.

The questions that `infer` understands are text: one line each, the same in Python and at the command line.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from noisegate.answers.evidence import Evidence, Sums
from noisegate.answers.released import Floats
from noisegate.errors import OptionError

Function = Callable[[Floats], Floats]
"""From values, (dim,), to numerators and denominators, (2, estimates), or where these are 1 to estimates, (estimates,).

NaN where it is not defined."""

_DRAWS = 200
# Of the noise: how far its spread may be above that of the gradient, and its shift beside it.
_BEYOND, _SHIFTED = 1.5, 1.0
_UNDEFINED = 0.02


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number that was asked for."""

    question: str  # as it was asked
    name: str  # what it is: a column, a group, a coefficient
    value: float | None = None  # the estimate; None where the noise forbids one
    low: float | None = (
        None  # end of its interval; None where there is none. So is `high`
    )
    high: float | None = None
    noise: float = 0.0  # standard error by the noise of the release
    sampling: float = (
        0.0  # standard error by the sampling of the records from a population
    )
    bias: float = 0.0  # what the width of cells may add
    p: float | None = None  # of a test, that what was seen comes of chance alone
    refused: str | None = None  # why there is no answer
    notes: tuple[str, ...] = ()  # what else has to be known

    def to_json(self) -> dict[str, Any]:
        """Returns it as it is written down."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
        }


def wider(one: Estimate, off: float) -> Estimate:
    """Returns an answer that may be off by so much besides."""
    if one.low is None or one.high is None or not math.isfinite(off):
        return one
    return replace(
        one, low=one.low - off, high=one.high + off, bias=math.hypot(one.bias, off)
    )


def off_by(one: Estimate, error: float, times: float) -> Estimate:
    """Returns an answer with a further standard error, of which its interval counts so many."""
    if (
        one.value is None
        or one.low is None
        or one.high is None
        or not math.isfinite(error)
    ):
        return one
    low, high = (
        one.value + side * math.hypot(side * (end - one.value), times * error)
        for side, end in ((-1, one.low), (1, one.high))
    )
    return replace(one, low=low, high=high, bias=math.hypot(one.bias, error))


def exponential(log: Estimate) -> Estimate:
    """Returns the answer whose logarithm is given."""
    if log.value is None or log.low is None or log.high is None:
        return log
    return replace(
        log, value=math.exp(log.value), low=math.exp(log.low), high=math.exp(log.high)
    )


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How values vary: by the noise, independently, by sampling, and what they may be off by."""

    values: Floats
    variance: Floats
    bias: Floats  # standard deviations, by independent causes, (dim, causes)
    sampling: Floats  # covariance of the values as records are sampled, (dim, dim)


def spread_of_sums(evidence: Evidence, sums: Sums, *, finite: bool) -> Spread:
    """Returns how sums vary; `finite` for the records themselves, which are no sample then."""
    covariance = np.zeros((sums.terms.dim,) * 2)
    if not finite:
        entries = sums.terms.products(evidence.sample).astype(np.float64)
        covariance = max(evidence.records[0], 1.0) * np.atleast_2d(
            np.cov(entries, rowvar=False)
        )
    return Spread(
        values=sums.values, variance=sums.variance, bias=sums.bias, sampling=covariance
    )


def spread_of_counts(counts: Floats, variance: float, *, finite: bool) -> Spread:
    """Returns how counts of cells vary."""
    flat, positive = counts.ravel(), np.maximum(counts.ravel(), 0)
    covariance = np.diag(positive) - np.outer(positive, positive) / max(
        float(positive.sum()), 1.0
    )
    return Spread(
        values=flat,
        variance=np.full(len(flat), variance),
        bias=np.zeros((len(flat), 0)),
        sampling=covariance * (not finite),
    )


def estimate(
    question: str,
    names: Sequence[str],
    function: Function,
    spread: Spread,
    *,
    level: float,
    draws: int = _DRAWS,
    notes: tuple[str, ...] = (),
) -> list[Estimate]:
    """Returns the estimates of a function of values."""
    values, scale = spread.values, np.sqrt(spread.variance)
    at, gradients = _quotients(function(values)), _gradients(function, values, scale)
    random = np.random.default_rng(0)
    tried = np.array(
        [
            _quotients(function(values + scale * random.normal(size=len(values))))
            for _ in range(draws)
        ]
    )
    times, found = NormalDist().inv_cdf(0.5 + level / 2), []
    for place, name in enumerate(names):
        one = _one(at[:, place], gradients[:, place], tried[:, :, place], spread, times)
        found.append(Estimate(question=question, name=name, notes=notes, **one))
    return found


def _one(
    at: Floats, gradients: Floats, tried: Floats, spread: Spread, times: float
) -> dict[str, Any]:
    """Returns value, ends and standard errors of a quotient, or why it is refused."""
    noise, moved = gradients * spread.variance @ gradients.T, gradients @ spread.bias
    sampling, bias = gradients @ spread.sampling @ gradients.T, moved @ moved.T
    defined = np.isfinite(tried).all(axis=1)
    usable = (
        bool(np.isfinite([*at, *noise.ravel(), *sampling.ravel()]).all()) and at[1] > 0
    )
    if not usable or defined.mean() < 1 - _UNDEFINED:
        return {"refused": "the noise forbids an answer"}
    away = np.array([1.0, -at[0] / at[1]])  # of a − θb
    error, others = (
        math.sqrt(max(float(away @ one @ away), 0.0))
        for one in (noise, sampling + bias)
    )
    low, middle, high = np.quantile(tried[defined] @ away, [0.025, 0.5, 0.975])
    wider = max(float(high - low) / (2 * 1.96 * error), 1.0) if error else 1.0
    if (wider > _BEYOND or abs(middle) > _SHIFTED * error) and error > 0.1 * others:
        return {
            "refused": f"the noise forbids an answer: it alone moves it by about {wider * error / at[1]:.2g}"
        }
    a, b = at[0] - middle, at[1]
    # (a − θb)² ≤ t² (V_aa − 2 θ V_ab + θ² V_bb)
    (aa, ab), (_, bb) = times**2 * (wider**2 * noise + sampling + bias)
    square, line, rest = b * b - bb, a * b - ab, a * a - aa
    if square <= 0 or line * line < square * rest:
        return {"refused": "the noise forbids an answer: no interval has an end"}
    half = math.sqrt(line * line - square * rest)
    errors = [
        math.sqrt(max(float(away @ one @ away), 0.0)) / b
        for one in (noise * wider**2, sampling, bias)
    ]
    ends = {"low": float(line - half) / square, "high": float(line + half) / square}
    return {
        "value": float(a / b),
        **ends,
        **dict(zip(("noise", "sampling", "bias"), errors, strict=True)),
    }


def _quotients(found: Floats) -> Floats:
    """Returns numerators and denominators, (2, estimates)."""
    return found if found.ndim == 2 else np.stack([found, np.ones_like(found)])


def _gradients(function: Function, values: Floats, scale: Floats) -> Floats:
    """Returns the derivatives by central differences a part of the noise apart, (2, estimates, dim)."""
    columns = []
    for place, step in enumerate(
        0.05 * np.maximum(scale, 1e-6 * max(float(np.abs(values).max()), 1.0))
    ):
        ends = []
        for side in (-1, 1):
            moved = values.copy()
            moved[place] += side * step
            ends.append(_quotients(function(moved)))
        columns.append((ends[1] - ends[0]) / (2 * step))
    return np.stack(columns, axis=2)


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
    "crosstab(a, b)",
    "y ~ x + g",
    "logit(y) ~ x + g",
    "poisson(y) ~ x + g",
    "survival(time, event)",
    "survival(time, event) by g",
)
_CALL = re.compile(
    r"^(?P<kind>[a-z0-9]+)\s*\((?P<inside>.*)\)(?:\s+by\s+(?P<by>.+))?$", re.DOTALL
)
_MODEL = re.compile(
    r"^(?:(?P<kind>logit|poisson)\s*\((?P<inner>[^~]*)\)\s*|(?P<outcome>[^~]+))~(?P<terms>[^~]+)$"
)
_COMPARED = re.compile(r"^(?P<column>[^<=]+?)\s*(?P<how><=|<|=)\s*(?P<value>.+)$")
_NUMBER_OF = {
    "mean": 1,
    "median": 1,
    "quantile": 2,
    "corr": 2,
    "chi2": 2,
    "odds": 2,
    "crosstab": 2,
    "survival": 2,
}


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """One question, taken apart.

    Examples:
        >>> from noisegate.answers.answers import read
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
        return Analysis(
            text=line,
            kind=kind,
            columns=(_name(outcome), *map(_name, found["terms"].split("+"))),
        )
    found = _CALL.match(line)
    if not found:
        raise _unknown(text)
    kind, inside = found["kind"], found["inside"]
    by = None if found["by"] is None else _name(found["by"])
    if kind in ("share", "count") and (compared := _COMPARED.match(inside.strip())):
        value = compared["value"].strip().strip("'\"")
        return Analysis(
            text=line,
            kind=kind,
            columns=(_name(compared["column"]),),
            by=by,
            value=value,
            how=compared["how"],
        )
    if kind == "partial" and "|" in inside:
        pair, given = inside.split("|", 1)
        columns, others = (
            tuple(map(_name, pair.split(","))),
            tuple(map(_name, re.split(r"[,+]", given))),
        )
        if len(columns) == 2 and by is None:
            return Analysis(text=line, kind=kind, columns=columns, given=others)
    parts = [part.strip() for part in inside.split(",")]
    if _NUMBER_OF.get(kind) != len(parts) or (
        by is not None and kind not in ("mean", "survival")
    ):
        raise _unknown(text)
    if kind == "quantile":
        try:
            probability = float(parts[1])
        except ValueError:
            raise _unknown(text) from None
        if not 0 < probability < 1:
            raise OptionError(
                f"query {line!r}: the probability of a quantile must be between 0 and 1."
            )
        return Analysis(
            text=line, kind=kind, columns=(_name(parts[0]),), value=probability
        )
    if kind == "median":
        return Analysis(
            text=line, kind="quantile", columns=(_name(parts[0]),), value=0.5
        )
    return Analysis(text=line, kind=kind, columns=tuple(map(_name, parts)), by=by)


def _name(text: str) -> str:
    return text.strip().strip("`")


def _unknown(text: str) -> OptionError:
    return OptionError(
        f"query {text!r} is not understood; the forms are: {'; '.join(FORMS)}."
    )
