"""How close synthetic records are in each group of a column, such as each sex: the worst group beside the mean.

A copy may be good on average and bad for a few. So every figure is measured in each
group by itself, and the group with the largest error is named for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.answers.verdict import (
    Verdict,
    in_percent,
    of_misplaced,
    word_of_misplaced,
)
from noisegate.errors import OptionError, choices
from noisegate.schema import CodedColumn, Schema
from noisegate_evaluate.metrics.analyses import Associations, Quantiles
from noisegate_evaluate.metrics.marginals import marginal_distances
from noisegate_evaluate.metrics.result import verdict_of
from noisegate_evaluate.reading import known_numbers, read_levels

# Figures of fewer real records are mostly chance: a share is off by some 5 % at 100.
MIN_GROUP_RECORDS = 100

# A mean is off by more than chance from two standard errors on.
_STANDARD_ERRORS = 2.0


@dataclass(frozen=True, kw_only=True)
class NumberError:
    """How far one figure of the worst numeric column of a group is off.

    Attributes:
        column: Name of the column.
        what: "mean", or the quantile, such as "95% quantile".
        error: Of a mean, the difference in standard deviations of the real records; of
            a quantile, the share of real records between the real and the synthetic
            one. Both beyond chance.
    """

    column: str
    what: str
    error: float


@dataclass(frozen=True, kw_only=True)
class GroupScore:
    """What a model reaches on the test records of one group.

    Attributes:
        synthetic: After training on all synthetic records.
        real: After training on all real training records.
    """

    synthetic: float
    real: float

    @property
    def lost(self) -> float:
        """How much lower it is after training on synthetic records; 0 if it is not."""
        return max(self.real - self.synthetic, 0.0)


@dataclass(frozen=True, kw_only=True)
class GroupScores:
    """What a model reaches in each group.

    Attributes:
        score: What is measured: "ROC-AUC" or "R²".
        by_level: The scores by the code of the level, of groups with enough test records.
    """

    score: str
    by_level: Mapping[int, GroupScore]


@dataclass(frozen=True, kw_only=True)
class Group:
    """One group: the records with one level of a column.

    Figures are None for a group that is too small to judge, one without synthetic
    records, and where there is nothing to measure.

    Attributes:
        level: The level.
        records: Number of its real records.
        share: Share of the synthetic records that are of this group.
        real_share: Share of the real ones.
        pairs: total variation distance of a pair of columns beyond sampling error, on average over pairs.
        associations_kept: Mean part kept of the associations that are strong among its real records.
        mean: The mean of a numeric column that is farthest off.
        quantile: The 5, 50 or 95 % quantile of a numeric column that is farthest off.
        score: What a model reaches on its test records.
    """

    level: str
    records: int
    share: float
    real_share: float
    pairs: float | None = None
    associations_kept: float | None = None
    mean: NumberError | None = None
    quantile: NumberError | None = None
    score: GroupScore | None = None

    @property
    def is_too_small(self) -> bool:
        """Whether it has too few real records to judge."""
        return self.records < MIN_GROUP_RECORDS

    @property
    def errors(self) -> dict[str, float]:
        """The error of each figure that was measured, by its name: larger is worse."""
        errors: dict[str, float | None] = {
            "pairs": self.pairs,
            "associations_lost": None
            if self.associations_kept is None
            else 1 - self.associations_kept,
            "mean": None if self.mean is None else self.mean.error,
            "quantile": None if self.quantile is None else self.quantile.error,
            "score_lost": None if self.score is None else self.score.lost,
        }
        return {name: error for name, error in errors.items() if error is not None}


@dataclass(frozen=True, kw_only=True)
class WorstGroup:
    """The group in which a figure has its largest error.

    Attributes:
        group: The group.
        error: Its error.
        mean_error: The mean of the errors of all groups, each of which counts alike.
        groups: Number of groups in which it was measured.
    """

    group: Group
    error: float
    mean_error: float
    groups: int

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as JSON values."""
        return {
            "level": self.group.level,
            "error": self.error,
            "mean_error": self.mean_error,
            "groups": self.groups,
        }


@dataclass(frozen=True, kw_only=True)
class Groups:
    """All groups of a column.

    Attributes:
        column: Name of the column.
        groups: Its groups, in the order of the schema.
        score: What models are scored by, "ROC-AUC" or "R²"; None where none was scored.
    """

    column: str
    groups: tuple[Group, ...]
    score: str | None = None

    @property
    def worst(self) -> dict[str, WorstGroup]:
        """The worst group by the name of each figure that was measured, as in `Group.errors`."""
        groups_of_figure: dict[str, list[Group]] = {}
        for group in self.groups:
            for figure in group.errors:
                groups_of_figure.setdefault(figure, []).append(group)
        worst = {}
        for figure, groups in groups_of_figure.items():
            errors = [group.errors[figure] for group in groups]
            worst[figure] = WorstGroup(
                group=groups[int(np.argmax(errors))],
                error=max(errors),
                mean_error=float(np.mean(errors)),
                groups=len(errors),
            )
        return worst

    def verdicts(self) -> Iterator[Verdict]:
        """Yields what the worst group of each figure says.

        Pairs have a word, as those of all records do. The other figures are said, and not
        judged: in a group of a hundred records they vary too much by chance.
        """
        for figure, worst in self.worst.items():
            if figure == "pairs":
                yield self._verdict_of_pairs(worst)
            elif worst.error > 0:
                reason = f"by {self.column}, {self._reason(figure, worst)}"
                yield verdict_of(None, reason, "")

    def _verdict_of_pairs(self, worst: WorstGroup) -> Verdict:
        word = word_of_misplaced(worst.error)
        level = worst.group.level
        reason = (
            f"by {self.column}, total variation distance of "
            f"{in_percent(worst.error)} in a pair of columns of {level!r}, the "
            f"worst of {worst.groups} groups, and of "
            f"{in_percent(worst.mean_error)} on average"
        )
        detail = f" in pairs of {level!r}, the worst by {self.column}"
        return verdict_of(
            word,
            reason,
            f"more records of {level!r}",
            [of_misplaced("groups", worst.error, detail)],
            worst_group=level,
            error_of_worst_group=worst.error,
        )

    def _reason(self, figure: str, worst: WorstGroup) -> str:
        """Says a figure of the worst group beside the mean over groups."""
        group = worst.group
        of_group = f"in {group.level!r}, the worst of {worst.groups} groups"
        if figure == "associations_lost":
            return (
                f"{1 - worst.error:.0%} of strong associations are kept "
                f"{of_group}, and {1 - worst.mean_error:.0%} on average"
            )
        if figure == "mean" and group.mean is not None:
            return (
                f"the mean of {group.mean.column!r} is off by {worst.error:.2f} "
                f"standard deviations {of_group}, and that farthest off by "
                f"{worst.mean_error:.2f} on average"
            )
        if figure == "quantile" and group.quantile is not None:
            return (
                f"the {group.quantile.what} of {group.quantile.column!r} is off by "
                f"{in_percent(worst.error)} of records {of_group}, and that "
                f"farthest off by {in_percent(worst.mean_error)} on average"
            )
        assert group.score is not None
        return (
            f"models trained on synthetic records reach {self.score} "
            f"{group.score.synthetic:.3f} and on real records "
            f"{group.score.real:.3f} {of_group}: {worst.error:.3f} less, and "
            f"{worst.mean_error:.3f} less on average over groups"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Says which groups are too small to judge; empty if none is."""
        small = [
            f"{group.level!r} ({group.records:,})"
            for group in self.groups
            if group.is_too_small
        ]
        if not small:
            return ()
        listing = f"fewer than {MIN_GROUP_RECORDS} real records are too few to judge"
        return (f"by {self.column}, {listing}: {', '.join(small)}",)

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as JSON values."""
        return {
            "column": self.column,
            "score": self.score,
            "groups": [asdict(group) for group in self.groups],
            "worst": {figure: worst.to_json() for figure, worst in self.worst.items()},
        }


def group_column(schema: Schema, name: str) -> CodedColumn:
    """Returns the column of levels by which groups are formed.

    Raises:
        OptionError: if the schema has no such column of levels.
    """
    columns = {column.name: column for column in schema.columns if not column.numeric}
    if name not in columns:
        raise OptionError(
            f"groups of {name!r}: expected a column of levels: {choices(name, columns)}"
        )
    column = columns[name]
    assert not column.numeric
    return column


def group_figures(
    synthetic: pa.Table,
    real: pa.Table,
    schema: Schema,
    name: str,
    *,
    scores: GroupScores | None = None,
    seed: int = 0,
) -> Groups:
    """Returns how close synthetic records are in each group of a column.

    Args:
        synthetic: Synthetic records.
        real: Real ones.
        schema: Their schema.
        name: Name of a column of levels.
        scores: What models reach in each group; None where none was scored.
        seed: As of `marginal_distances`.

    Raises:
        OptionError: if the schema has no such column of levels.
    """
    column = group_column(schema, name)
    synthetic_codes, real_codes = (
        read_levels(table, column, schema).codes for table in (synthetic, real)
    )
    others = tuple(other for other in schema.columns if other.name != name)
    group_schema = Schema(others, missing_values=schema.missing_values)
    groups = [
        _group(
            str(level),
            synthetic.filter(pa.array(synthetic_codes == code)),
            real.filter(pa.array(real_codes == code)),
            group_schema,
            totals=(synthetic.num_rows, real.num_rows),
            score=None if scores is None else scores.by_level.get(code),
            seed=seed,
        )
        for code, level in enumerate(column.levels)
    ]
    return Groups(
        column=name,
        groups=tuple(groups),
        score=None if scores is None else scores.score,
    )


def _group(
    level: str,
    synthetic: pa.Table,
    real: pa.Table,
    schema: Schema,
    *,
    totals: tuple[int, int],
    score: GroupScore | None,
    seed: int,
) -> Group:
    """Measures one group, of which both tables are, without its column; `totals` are the records of all groups."""
    counted = Group(
        level=level,
        records=real.num_rows,
        share=synthetic.num_rows / totals[0],
        real_share=real.num_rows / totals[1],
    )
    if counted.is_too_small or not synthetic.num_rows or not schema.columns:
        return counted
    orders = (min(2, len(schema.columns)),)
    distances = marginal_distances(synthetic, real, schema, orders=orders, seed=seed)
    associations = Associations.measured(synthetic, real, schema=schema, seed=seed)
    return replace(
        counted,
        pairs=distances.orders[-1].beyond_sampling,
        associations_kept=None if associations is None else associations.kept,
        mean=_worst_mean(synthetic, real, schema),
        quantile=_worst_quantile(synthetic, real, schema, seed=seed),
        score=score,
    )


def _worst_mean(
    synthetic: pa.Table, real: pa.Table, schema: Schema
) -> NumberError | None:
    """Finds the numeric column whose mean is farthest off beyond chance; None without one that varies."""
    errors = []
    for column in schema.file_layout.numeric:
        synthetic_numbers = known_numbers(synthetic, column, schema)
        real_numbers = known_numbers(real, column, schema)
        if not len(synthetic_numbers) or len(real_numbers) < 2:
            continue
        deviation = float(real_numbers.std(ddof=1))
        if deviation == 0:
            continue
        difference = abs(synthetic_numbers.mean() - real_numbers.mean()) / deviation
        chance = _STANDARD_ERRORS * math.sqrt(
            1 / len(synthetic_numbers) + 1 / len(real_numbers)
        )
        error = max(float(difference) - chance, 0.0)
        errors.append(NumberError(column=column.name, what="mean", error=error))
    return max(errors, key=lambda found: found.error, default=None)


def _worst_quantile(
    synthetic: pa.Table, real: pa.Table, schema: Schema, *, seed: int
) -> NumberError | None:
    """Finds the quantile that is farthest off beyond chance; None without numbers."""
    quantiles = Quantiles.measured(synthetic, real, schema=schema, seed=seed)
    if quantiles is None:
        return None
    return NumberError(
        column=quantiles.column,
        what=f"{quantiles.at:.0%} quantile",
        error=max(quantiles.largest - quantiles.chance, 0.0),
    )
