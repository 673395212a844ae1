"""What each question asks for, as a function of sums or counts that were released."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np

from noisegate.answers.answers import (
    Analysis,
    Estimate,
    Function,
    estimate,
    exponential,
    off_by,
    spread_of_counts,
    spread_of_sums,
    wider,
)
from noisegate.answers.crosstab import crosstab
from noisegate.answers.cumulative import calibrated, cumulative
from noisegate.answers.domain import Level, NumberRange
from noisegate.answers.evidence import (
    DrownedError,
    Evidence,
    NotMeasuredError,
    Sums,
)
from noisegate.answers.released import Floats
from noisegate.errors import OptionError
from noisegate.schema import Date, Datetime

# Simulations of the null of a test, and draws of the noise for what is solved step by step.
_NULLS, _FEW_DRAWS = 1999, 60
_UNITS = {Date: "days", Datetime: "microseconds"}
# Kinds of questions whose answers, or whose names, are in the units of columns.
_IN_UNITS = ("mean", "quantile", "ols", "crosstab")


class Estimands:
    """The answers of one release, from its evidence, with intervals of a level.

    Where `finite`, the records themselves are asked about, and not the population that they are a sample of.
    """

    def __init__(self, evidence: Evidence, *, level: float, finite: bool) -> None:
        self._evidence, self._level, self._finite = evidence, level, finite

    def answer(self, asked: Analysis) -> list[Estimate]:
        """Returns the answers to one question; an OptionError where it does not fit the columns."""
        try:
            found = list(getattr(self, f"_{asked.kind}")(asked))
        except DrownedError as drowned:
            why = f"the noise forbids an answer: it hides the range in which '{drowned}' lies"
            return [Estimate(question=asked.text, name=asked.text, refused=why)]
        counted = asked.columns if asked.kind in _IN_UNITS else ()
        kinds = {
            name: type(self._evidence.numeric(self._evidence.column(name)))
            for name in counted
        }
        units = {name: _UNITS[kind] for name, kind in kinds.items() if kind in _UNITS}
        notes = tuple(
            f"{name!r} is counted in {unit} since 1970-01-01"
            for name, unit in units.items()
        )
        return [replace(one, notes=(*one.notes, *notes)) for one in found]

    def _estimates(
        self,
        asked: Analysis,
        names: Sequence[str],
        function: Function,
        sums: Sums,
        **options: Any,
    ) -> list[Estimate]:
        spread = spread_of_sums(self._evidence, sums, finite=self._finite)
        return estimate(
            asked.text,
            names,
            function,
            spread,
            level=self._level,
            notes=sums.clipped,
            **options,
        )

    def _sums(
        self, asked: Analysis, names: Sequence[str]
    ) -> tuple[Sums, dict[str, list[int]]]:
        """Returns the sums of some columns, and the places of the terms of each among all, 1 being the first."""
        columns = {name: self._evidence.column(name) for name in names}
        if len(columns) < len(names):
            raise OptionError(f"query {asked.text!r} names a column twice.")
        sums = self._evidence.sums(list(columns.values()))
        order = sorted(columns.values())
        places = {
            name: [
                at + 1
                for at, (place, _) in enumerate(sums.terms.terms)
                if order[place] == column
            ]
            for name, column in columns.items()
        }
        return sums, places

    def _number(self, asked: Analysis, name: str) -> tuple[float, float]:
        """Returns what a numeric column is at position 0, and how much more at 1; an OptionError of another column."""
        column = self._evidence.column(name)
        if self._evidence.numeric(column) is None:
            raise OptionError(
                f"query {asked.text!r}: {name!r} is not numeric; it has levels."
            )
        return self._evidence.linear(column)

    def _scale(self, asked: Analysis, sums: Sums, name: str) -> tuple[float, float]:
        column, (offset, slope) = self._evidence.column(name), self._number(asked, name)
        one = next(each for each in sums.terms.numeric if each.index == column)
        return offset + slope * (one.low + one.high) / 2, slope * (
            one.high - one.low
        ) / 2

    def _levels(self, asked: Analysis, name: str) -> list[Any]:
        column = self._evidence.column(name)
        if self._evidence.numeric(column) is not None:
            raise OptionError(
                f"query {asked.text!r}: {name!r} is a number; a column with levels is expected there."
            )
        return self._evidence.levels(column)

    def _level_place(self, asked: Analysis, name: str, value: str) -> int:
        levels = self._levels(asked, name)
        spelled = [_spelled(level) for level in levels]
        wanted = value if value in spelled else value.capitalize()
        if wanted not in spelled:
            raise OptionError(
                f"query {asked.text!r}: {name!r} has no level {value!r}; it has {', '.join(spelled)}."
            )
        return spelled.index(wanted)

    # Means and shares, in all or by group

    def _mean(self, asked: Analysis) -> list[Estimate]:
        (name,) = asked.columns
        names = [name] if asked.by is None else [name, asked.by]
        sums, places = self._sums(asked, names)
        centre, scale = self._scale(asked, sums, name)
        z, present = places[name][0], (places[name][1] if len(places[name]) > 1 else 0)
        groups = [0] if asked.by is None else places[asked.by]

        def means(values: Floats) -> Floats:
            matrix = sums.matrix(values)
            below = matrix[present, groups]
            return _with_differences(centre * below + scale * matrix[z, groups], below)

        return self._estimates(asked, self._group_names(asked), means, sums)

    def _share(self, asked: Analysis) -> list[Estimate]:
        (name,) = asked.columns
        if asked.how != "=":
            return self._below(asked)
        place = self._level_place(asked, name, asked.value)
        sums, places = self._sums(
            asked, [name] if asked.by is None else [name, asked.by]
        )
        at, groups = places[name][place], [0] if asked.by is None else places[asked.by]

        def shares(values: Floats) -> Floats:
            matrix = sums.matrix(values)
            return _with_differences(matrix[at, groups], matrix[0, groups])

        return self._estimates(asked, self._group_names(asked), shares, sums)

    def _count(self, asked: Analysis) -> list[Estimate]:
        (name,) = asked.columns
        if asked.how != "=" or asked.by is not None:
            raise OptionError(
                f"query {asked.text!r}: a count needs a level, as in count(sex = female)."
            )
        sums, places = self._sums(asked, [name])
        at, names = (
            [places[name][self._level_place(asked, name, asked.value)]],
            [f"{name} = {asked.value}"],
        )
        return self._estimates(asked, names, lambda v: sums.matrix(v)[at, 0], sums)

    def _group_names(self, asked: Analysis) -> list[str]:
        if asked.by is None:
            return [asked.text]
        names = [
            f"{asked.by} = {_spelled(level)}" for level in self._levels(asked, asked.by)
        ]
        return [*names, *(f"difference of {name} to {names[0]}" for name in names[1:])]

    # Associations and regressions

    def _partial(self, asked: Analysis) -> list[Estimate]:
        sums, places = self._sums(asked, [*asked.columns, *asked.given])
        first, second = (self._term(asked, places, name) for name in asked.columns)
        given = [at for name in asked.given for at in self._regressors(places, name)]

        def correlation(values: Floats) -> Floats:
            matrix = _per_record(sums, values)
            kept, out = [0, *given], [first, second]
            try:
                left = matrix[np.ix_(out, out)] - matrix[
                    np.ix_(out, kept)
                ] @ np.linalg.solve(
                    matrix[np.ix_(kept, kept)], matrix[np.ix_(kept, out)]
                )
            except np.linalg.LinAlgError:
                return np.full((2, 1), np.nan)
            below = (
                math.sqrt(left[0, 0] * left[1, 1])
                if left[0, 0] > 0 and left[1, 1] > 0
                else np.nan
            )
            return np.array([[left[0, 1]], [below]])

        return self._estimates(asked, [asked.text], correlation, sums)

    _corr = _partial

    def _ols(self, asked: Analysis) -> list[Estimate]:
        sums, places, terms, names, back = self._regression(asked)
        y = self._term(asked, places, asked.columns[0])

        def coefficients(values: Floats) -> Floats:
            matrix = _per_record(sums, values)
            inner = matrix[np.ix_(terms, terms)]
            if np.linalg.eigvalsh(inner)[0] <= 0:
                return np.full((2, len(terms)), np.nan)
            inverse = np.linalg.inv(inner)
            # Of a regressor by what the others leave of it (Frisch and Waugh, 1933), whose variance is 1/(inverse)_jj.
            below = 1 / np.einsum("ij,jk,ik->i", back, inverse, back)
            return np.stack(
                [(back @ inverse @ matrix[terms, y] * scale + offset) * below, below]
            )

        centre, scale = (
            self._scale(asked, sums, asked.columns[0])
            if self._is_number(asked.columns[0])
            else (0.0, 1.0)
        )
        offset = centre * np.eye(len(terms))[0]
        return self._estimates(asked, names, coefficients, sums)

    def _logit(self, asked: Analysis) -> list[Estimate]:
        if len(self._levels(asked, asked.columns[0])) != 2:
            raise OptionError(
                f"query {asked.text!r}: logit needs an outcome with two levels."
            )
        return self._generalised(
            asked,
            (0.0, 1.0),
            lambda s: 1 / (1 + np.exp(-s)),
            lambda mean: mean * (1 - mean),
        )

    def _poisson(self, asked: Analysis) -> list[Estimate]:
        self._number(asked, asked.columns[0])
        return self._generalised(
            asked,
            None,
            lambda score: np.exp(np.minimum(score, 50.0)),
            lambda mean: mean,
        )

    def _generalised(
        self, asked: Analysis, scaled: tuple[float, float] | None, link: Any, slope: Any
    ) -> list[Estimate]:
        """Solves X'y = X'μ(Xβ): X'y is released, and records of the model, weighted so that their X'X is, say X'μ."""
        sums, places, terms, names, back = self._regression(asked)
        if lacking := [
            self._evidence.names[one.index]
            for one in sums.terms.numeric
            if one.nullable
        ]:
            raise OptionError(
                f"query {asked.text!r}: {', '.join(map(repr, lacking))} may be missing, which {asked.kind} has no "
                "answer for; an OLS leaves such records out, pair by pair."
            )
        outcome = asked.columns[0]
        y = self._term(asked, places, outcome)
        centre, scale = scaled or self._scale(asked, sums, outcome)
        solved, sampled = calibrated(sums, self._evidence.sample, terms, (link, slope))

        def by_scaled(values: Floats) -> Floats:
            matrix = sums.matrix(values) / max(float(values[0]), 1.0)
            return solved(values, centre * matrix[terms, 0] + scale * matrix[terms, y])

        found = self._estimates(
            asked,
            names,
            lambda values: back @ by_scaled(values),
            sums,
            draws=_FEW_DRAWS,
        )
        errors = np.sqrt(np.diag(back @ sampled(by_scaled(sums.values)) @ back.T))
        return [
            off_by(one, float(error), self._times)
            for one, error in zip(found, errors, strict=True)
        ]

    def _regression(
        self, asked: Analysis
    ) -> tuple[Sums, dict[str, list[int]], list[int], list[str], Floats]:
        """Returns sums, places, the regressors among all terms, their names, and the way back from z to x."""
        sums, places = self._sums(asked, asked.columns)
        terms, names, scaled = [0], ["intercept"], [(0.0, 1.0)]
        for name in asked.columns[1:]:
            terms += self._regressors(places, name)
            if self._is_number(name):
                names.append(name)
                scaled.append(self._scale(asked, sums, name))
            else:
                names += [
                    f"{name} = {_spelled(level)}"
                    for level in self._levels(asked, name)[1:]
                ]
                scaled += [(0.0, 1.0)] * (len(names) - len(scaled))
        centres, scales = np.asarray(scaled).T
        back = np.diag(1 / scales)
        back[0] -= centres / scales
        return sums, places, terms, names, back

    def _is_number(self, name: str) -> bool:
        return self._evidence.numeric(self._evidence.column(name)) is not None

    def _term(self, asked: Analysis, places: dict[str, list[int]], name: str) -> int:
        """Returns the term of a number, or of the second of two levels."""
        if self._is_number(name):
            return places[name][0]
        if len(self._levels(asked, name)) != 2:
            raise OptionError(
                f"query {asked.text!r}: {name!r} must be a number, or have two levels, missing included."
            )
        return places[name][1]

    def _regressors(self, places: dict[str, list[int]], name: str) -> list[int]:
        """Returns the terms of a column in a regression: the number, or all levels but the first."""
        return places[name][:1] if self._is_number(name) else places[name][1:]

    # Functions of tables of counts

    def _counts(self, asked: Analysis, names: Sequence[str]) -> tuple[Floats, float]:
        """Returns counts of the cells of two columns, and the variance of the noise on each."""
        if not any(map(self._is_number, names)):
            sums, places = self._sums(asked, names)
            rows, columns = (places[name] for name in names)
            left, right = sums.terms.entries
            inside = (np.isin(left, rows) & np.isin(right, columns)) | (
                np.isin(left, columns) & np.isin(right, rows)
            )
            return sums.matrix(sums.values)[np.ix_(rows, columns)], float(
                sums.variance[inside].mean()
            )
        found = self._evidence.table(
            tuple(self._evidence.column(name) for name in names)
        )
        if found is None:
            raise self._not_measured_together(asked, names)
        return found.counts, float(found.variance.max())

    def _odds(self, asked: Analysis) -> list[Estimate]:
        counts, variance = self._counts(asked, asked.columns)
        if counts.shape != (2, 2):
            raise OptionError(
                f"query {asked.text!r}: an odds ratio needs two columns with two levels each."
            )

        def log_odds(cells: Floats) -> Floats:
            with np.errstate(all="ignore"):
                return np.array(
                    [
                        float(
                            np.array([1, -1, -1, 1])
                            @ np.log(np.where(cells > 0, cells, np.nan))
                        )
                    ]
                )

        spread = spread_of_counts(counts, variance, finite=self._finite)
        return [
            exponential(one)
            for one in estimate(
                asked.text, [asked.text], log_odds, spread, level=self._level
            )
        ]

    def _crosstab(self, asked: Analysis) -> list[Estimate]:
        """Returns the share of all records in each cell of two columns."""
        row, column = asked.columns
        for name in asked.columns:
            # Refuses a name that no column has.
            self._evidence.column(name)
        if row == column:
            raise OptionError(f"query {asked.text!r} names a column twice.")
        try:
            table = crosstab(
                self._evidence.measurements,
                row,
                column,
                level=self._level,
                finite=self._finite,
            )
        except LookupError:
            raise self._not_measured_together(asked, asked.columns) from None
        if table is None:
            reason = "the noise forbids an answer: it hides how many records there are"
            return [Estimate(question=asked.text, name=asked.text, refused=reason)]
        row_cells, column_cells = table.domain.cells
        return [
            Estimate(
                question=asked.text,
                name=f"{row} = {_name_of(row_cell)}, {column} = {_name_of(column_cell)}",
                value=float(table.shares[i, j]),
                low=float(table.low[i, j]),
                high=float(table.high[i, j]),
                noise=float(table.noise[i, j]),
                sampling=float(table.sampling[i, j]),
            )
            for i, row_cell in enumerate(row_cells)
            for j, column_cell in enumerate(column_cells)
        ]

    def _not_measured_together(
        self, asked: Analysis, names: Sequence[str]
    ) -> NotMeasuredError:
        """Returns the error for columns that no table of the release holds together."""
        return NotMeasuredError(
            f"query {asked.text!r}: {' and '.join(map(repr, names))} were not measured "
            "together in a table; those of two columns and the label of the schema are, "
            "by the default method."
        )

    def _chi2(self, asked: Analysis) -> list[Estimate]:
        counts, variance = self._counts(asked, asked.columns)
        if 1 in counts.shape:
            raise OptionError(
                f"query {asked.text!r}: a test needs two columns with two levels or more each."
            )
        random = np.random.default_rng(0)
        records = max(float(counts.sum()), 1.0)
        shares = np.maximum(np.outer(counts.sum(axis=1), counts.sum(axis=0)), 0)
        if shares.sum() <= 0:
            why = "the noise forbids an answer: it hides all counts"
            return [Estimate(question=asked.text, name=asked.text, refused=why)]
        shares = shares / shares.sum()
        drawn = random.multinomial(round(records), shares.ravel(), size=_NULLS).reshape(
            _NULLS, *counts.shape
        )
        if self._finite:
            drawn = np.broadcast_to(records * shares, drawn.shape)
        nulls = _chi_squares(
            drawn + random.normal(scale=math.sqrt(variance), size=drawn.shape), variance
        )
        seen = float(_chi_squares(counts[None], variance)[0])
        p, note = (
            (1 + int((nulls >= seen).sum())) / (_NULLS + 1),
            ("chi-squared, noise in its null",),
        )
        return [
            Estimate(question=asked.text, name=asked.text, value=seen, p=p, notes=note)
        ]

    def _quantile(self, asked: Analysis) -> list[Estimate]:
        (name,) = asked.columns
        self._number(asked, name)
        probabilities: tuple[float, ...] = asked.value
        curve = cumulative(self._evidence, self._evidence.column(name))
        # All come from one curve that never falls, so quantiles cannot cross.
        values, low, high = np.array(
            [
                curve.quantile(probability, self._times, finite=self._finite)
                for probability in probabilities
            ]
        ).T
        # Nor do their intervals: a larger quantile is at least as large as the lower end
        # of a smaller one, and a smaller one at most the upper end of a larger one.
        low = np.maximum.accumulate(low)
        high = np.minimum.accumulate(high[::-1])[::-1]
        if len(probabilities) == 1:
            names = [asked.text]
        else:
            names = [f"{name} at {probability:g}" for probability in probabilities]
        return [
            Estimate(
                question=asked.text,
                name=names[i],
                value=float(values[i]),
                low=float(low[i]),
                high=float(high[i]),
            )
            for i in range(len(probabilities))
        ]

    def _below(self, asked: Analysis) -> list[Estimate]:
        (name,) = asked.columns
        self._number(asked, name)
        try:
            bound = float(asked.value)
        except ValueError:
            raise OptionError(
                f"query {asked.text!r}: a number is expected after {asked.how!r}."
            ) from None
        if asked.by is not None:
            raise OptionError(
                f"query {asked.text!r}: shares below a number are for all records: leave out 'by'."
            )
        found = cumulative(self._evidence, self._evidence.column(name))
        # The last cell that lies below as a whole, and the first that lies above.
        within = found.high < bound if asked.how == "<" else found.high <= bound
        beyond = found.low >= bound if asked.how == "<" else found.low > bound
        first, last = int(within.sum()) - 1, int((~beyond).sum()) - 1
        shares = [float(found.shares[at]) if at >= 0 else 0.0 for at in (first, last)]
        noise = max(float(found.noise[at]) if at >= 0 else 0.0 for at in (first, last))
        value, bias = sum(shares) / 2, (shares[1] - shares[0]) / 2
        sampling = 0.0 if self._finite else found.sampling(value)
        half = self._times * math.hypot(noise, sampling) + bias
        errors: dict[str, Any] = {"noise": noise, "sampling": sampling, "bias": bias}
        return [
            Estimate(
                question=asked.text,
                name=asked.text,
                value=value,
                low=value - half,
                high=value + half,
                **errors,
            )
        ]

    @property
    def _times(self) -> float:
        """How many standard errors an interval is wide on either side."""
        return NormalDist().inv_cdf(0.5 + self._level / 2)

    def _survival(self, asked: Analysis) -> list[Estimate]:
        time, event = asked.columns
        self._number(asked, time)
        if len(self._levels(asked, event)) != 2:
            raise OptionError(
                f"query {asked.text!r}: {event!r} must have two levels, yes or no."
            )
        if asked.by is None:
            return self._surviving(asked, "", *self._counts(asked, asked.columns))
        groups = self._levels(asked, asked.by)
        counts, variance = self._counts(asked, [*asked.columns, asked.by])
        named = [
            (f"{asked.by} = {_spelled(level)}: ", counts[:, :, at])
            for at, level in enumerate(groups)
        ]
        return [
            one
            for name, cells in named
            for one in self._surviving(asked, name, cells, variance)
        ]

    def _surviving(
        self, asked: Analysis, group: str, counts: Floats, variance: float
    ) -> list[Estimate]:
        """Returns the share that survives the ends of cells of time, by a life table (Cutler and Ederer, 1958)."""
        place = self._evidence.column(asked.columns[0])
        bins = self._evidence.bins[place]
        counts = counts[: len(bins.cuts) + 1]

        def surviving(cells: Floats, at_risk_of_lost: float = 0.5) -> Floats:
            lost, died = cells.reshape(counts.shape).T
            at_risk = (
                np.cumsum((lost + died)[::-1])[::-1] - (1 - at_risk_of_lost) * lost
            )
            with np.errstate(all="ignore"):
                hazard = np.where(at_risk > 0, died / at_risk, np.nan)
            return np.cumprod(1 - hazard)[:-1]

        # Those who are lost may be so at the beginning of a cell, or at its end.
        first, last = (surviving(counts.ravel(), part) for part in (0.0, 1.0))
        offset, slope = self._evidence.linear(place)
        names = [f"{group}beyond {offset + slope * cut:.4g}" for cut in bins.cuts]
        spread = spread_of_counts(counts, variance, finite=self._finite)
        found = estimate(asked.text, names, surviving, spread, level=self._level)
        return [
            wider(one, abs(float(end)) / 2)
            for one, end in zip(found, last - first, strict=True)
        ]


def _name_of(cell: Level) -> str:
    """Returns a cell in words: a level, "18 to 29", or "missing"."""
    if not isinstance(cell, NumberRange):
        return _spelled(cell)
    if cell.low == cell.high:
        return f"{cell.low:.6g}"
    return f"{cell.low:.6g} to {cell.high:.6g}"


def _spelled(level: Any) -> str:
    return "missing" if level is None else str(level)


def _with_differences(above: Floats, below: Floats) -> Floats:
    """Returns the quotient of each group, and the differences of all but the first to the first, (2, estimates)."""
    # a/b − c/d = (ad − bc)/bd, over d so that numbers stay of the size of counts
    above = np.append(above, above[1:] - above[0] * below[1:] / below[0])
    return np.stack([above, np.append(below, below[1:])])


def _per_record(sums: Sums, values: Floats) -> Floats:
    """Returns mean products of terms, over the records in which both numbers are present."""
    matrix = sums.matrix(values)
    present = [0]
    for at, (column, code) in enumerate(sums.terms.terms):
        present.append(
            at + 2 if code is None and (column, -1) in sums.terms.terms else 0
        )
    with np.errstate(all="ignore"):
        return matrix / matrix[np.ix_(present, present)]


def _chi_squares(tables: Floats, variance: float) -> Floats:
    """Returns how far noisy tables, (tables, rows, columns), are from independence."""
    totals = np.maximum(tables.sum(axis=(1, 2)), 1.0)[:, None, None]
    expected = (
        tables.sum(axis=2, keepdims=True) * tables.sum(axis=1, keepdims=True) / totals
    )
    return np.asarray(
        ((tables - expected) ** 2 / (np.maximum(expected, 0) + variance)).sum(
            axis=(1, 2)
        )
    )
