"""Verdicts on a fit: which associations and regressions it keeps, and what it hides.

An association is named if it is strong and exceeds what noise makes of so many pairs.

**Too close to be told apart** are a number and another column if the copy cannot show
how they differ: with r² of means of cells, if ::

    1 - r² of the model + variance within cells + noise on r²  >  2 (1 - r² of release)

where the noise is its standard deviation. How a number and levels go together within
cells is not known, so that the variance within cells is taken off their 1 - r². Two
examples. Of 15,000 admissions and discharges in three years, 8 days apart in the mean,
a copy at ε = 3 makes 23 days, whatever the ward, while a column of the days keeps all
three wards to a tenth. The longitudes of two towns spread three to ten times as far
inside each, as the cell between them takes the ends of both. Such a copy is usable at
best.

**Coefficients** of regressions are expected by ranks and by values, and the lower part
counts: at ε = 1 the towns' fit kept .93 by ranks, .39 to .84 by values, and .05 to .17
in truth. On 13 tables with 8,000 records at ε 1 and 10, values change what is expected
by .03 at most, upwards on `diamonds` and `randhie`, where ranks decide, and no word but
one of `diamonds`, from rough to usable as is found. What did not help: a cut where an
empty run of fine cells begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from noisegate.answers.verdict import (
    Verdict,
    Word,
    in_percent,
    of_coefficients,
    word_of_kept,
)
from noisegate.models.tables.associations import (
    WEAKENED,
    Association,
    PairMoments,
    coefficients_kept,
    measured_associations,
    measured_moments,
)
from noisegate.models.tables.pairwise_fit import PairwiseFit, UnresolvedCell

# A named association has at least this strength, a correlation or Cramér's V.
_MIN_NAMED_STRENGTH = 0.2
# All associations together stand out if they exceed so many standard deviations of
# their noise.
_CLEAR_STDS = 3.0
# Of the total of unclear associations, an upper bound of about 98 % is taken.
_UPPER_BOUND_STDS = 2
# Associations that may be hidden do not matter up to this strength, as the root of the
# mean square.
_HARMLESS_STRENGTH = 0.1
# Of two close columns, one leaves less than this part of the variance of the other.
_MAX_CLOSE_VARIANCE = 0.2
# Texts name so many of a list at most.
_MAX_NAMED = 5
# Regressions on more scores take too long.
_MAX_SCORES = 2000
# The expected part of coefficients is that much too low at times: evaluations of twelve
# tables found some .1 more of a small part.
_COEFFICIENT_DOUBT = 0.1


def fit_verdicts(fit: PairwiseFit) -> Iterator[Verdict]:
    """Yields what a fit loses of associations, and which columns lie in one cell.

    Args:
        fit: A fit that has run.
    """
    if len(fit.names) > 1:
        moments = measured_moments(fit.released, fit)
        associations = measured_associations(moments.by_rank)
        verdict = _verdict_on_associations(fit, associations)
        yield verdict
        if "associations_kept" in verdict.figures:
            yield from _verdict_on_regressions(fit, moments.by_rank, moments.by_value)
        yield from _verdict_on_close_columns(fit, moments.by_value)
    for cell in fit.unresolved_cells():
        yield _verdict_on_cell(cell)


def _verdict_on_cell(cell: UnresolvedCell) -> Verdict:
    """Says that most records of a numeric column lie in one fine cell."""
    name = cell.column.name
    reason = (
        f"{in_percent(cell.share)} of records have {name!r} between {cell.low:g} and "
        f"{cell.high:g}: nothing finer was measured"
    )
    cure = f"bounds of {name!r} that are nearer to its values"
    return Verdict(word="rough", source="fit", reasons=(reason,), cures=(cure,))


def _verdict_on_regressions(
    fit: PairwiseFit, *moments_by_kind: Sequence[PairMoments]
) -> Iterator[Verdict]:
    """Yields what is expected of the coefficients of regressions of numbers.

    Nothing is if not all pairs are measured, or scores are too many.

    Args:
        fit: The fit.
        moments_by_kind: Moments by ranks and by values, of which those count that keep
            less: groups far apart leave little of a number's variance to the others.
    """
    parts_kept: list[float] = []
    for moments in moments_by_kind:
        n_scores = _scores_of_columns(fit, moments)
        n_columns = sum(map(bool, n_scores))
        is_complete = len(moments) >= math.comb(n_columns, 2)
        if not is_complete or sum(n_scores) > _MAX_SCORES:
            return
        part_kept = _coefficients_kept(fit, moments, n_scores)
        if part_kept is not None:
            parts_kept.append(part_kept)
    if parts_kept:
        yield of_coefficients(min(parts_kept), "fit", doubt=_COEFFICIENT_DOUBT)


def _scores_of_columns(fit: PairwiseFit, moments: Sequence[PairMoments]) -> list[int]:
    """Returns the number of scores of each column; 0 for columns without moments."""
    n_scores = [0] * len(fit.names)
    for pair in moments:
        for column, count in zip(pair.columns, pair.released.shape, strict=True):
            n_scores[column] = count
    return n_scores


def _coefficients_kept(
    fit: PairwiseFit, moments: Sequence[PairMoments], n_scores: Sequence[int]
) -> float | None:
    """Estimates which part is kept of the coefficients of all regressions of numbers.

    Args:
        fit: The fit.
        moments: Moments of all pairs of columns.
        n_scores: Number of scores of each column.

    Returns:
        The part; None if no coefficient is large enough to count.
    """
    offsets = np.cumsum([0, *n_scores]).tolist()
    slices = [slice(start, stop) for start, stop in pairwise(offsets)]
    size = offsets[-1]
    released = np.eye(size)
    modelled = np.eye(size)
    variance = np.zeros((size, size))
    for pair in moments:
        first, second = (slices[column] for column in pair.columns)
        for matrix, block in (
            (released, pair.released),
            (modelled, pair.modelled),
            (variance, pair.variance),
        ):
            matrix[first, second] = block
            matrix[second, first] = block.T
    numbers = [
        offsets[column]
        for column, n_ordered in enumerate(fit.n_ordered)
        if n_ordered > 1 and n_scores[column]
    ]
    n_records = float(fit.tables.class_counts.sum())
    return coefficients_kept(released, modelled, variance, numbers, n_records)


def _verdict_on_close_columns(
    fit: PairwiseFit, moments: Sequence[PairMoments]
) -> Iterator[Verdict]:
    """Yields the pairs of columns that are too close to be told apart, if any.

    Args:
        fit: The fit.
        moments: Moments by values.
    """
    close_pairs = [
        " and ".join(repr(fit.names[column]) for column in pair.columns)
        for pair in moments
        if _is_too_close(fit, pair)
    ]
    if not close_pairs:
        return
    n_more = len(close_pairs) - _MAX_NAMED
    more = f"; and {n_more} more pairs" if n_more > 0 else ""
    reason = (
        "too close to be told apart, so that what sets them apart misleads: "
        f"{'; '.join(close_pairs[:_MAX_NAMED])}{more}"
    )
    cure = (
        "in place of one of two columns that are close, a column of what sets them "
        "apart"
    )
    yield Verdict(
        word="usable",
        source="fit",
        reasons=(reason,),
        cures=(cure,),
        figures={"too_close": close_pairs},
    )


def _is_too_close(fit: PairwiseFit, pair: PairMoments) -> bool:
    """Returns whether a number and another column cannot be told apart.

    That is, whether cells, noise and model make more than half of how they differ.

    Args:
        fit: The fit.
        pair: Moments of the columns, by values.
    """
    unexplained = 1 - float((np.square(pair.released) - pair.variance).sum())
    noise_variance = 4 * np.square(pair.released) * pair.variance + 2 * pair.variance**2
    noise_std = math.sqrt(float(noise_variance.sum()))
    numbers = [column for column in pair.columns if fit.n_ordered[column] > 1]
    if not numbers or unexplained + noise_std >= _MAX_CLOSE_VARIANCE:
        return False
    within_cells = [fit.variance_within_cells(column) for column in numbers]
    unexplained_by_model = 1 - float(np.square(pair.modelled).sum())
    # Two numbers go together inside cells by their order. Of a number and levels
    # nothing says how.
    unknown = within_cells[0] if len(numbers) == 1 else 0.0
    blurred = unexplained_by_model + sum(within_cells) + noise_std
    return unexplained - unknown < blurred / 2


def _verdict_on_associations(
    fit: PairwiseFit, associations: Sequence[Association]
) -> Verdict:
    """Says how much of all associations is kept, and which are weakened or missing.

    Args:
        fit: The fit.
        associations: Associations of all measured pairs.
    """
    n_measured = len(fit.released.pairs)
    n_missing = math.comb(len(fit.names), 2) - n_measured
    figures: dict[str, object] = {
        "pairs_measured": n_measured,
        "pairs_not_measured": n_missing,
    }
    reasons: list[str] = []
    word: Word | None = None

    strong = [
        association
        for association in associations
        if association.released > max(_MIN_NAMED_STRENGTH**2, association.chance)
    ]
    strong.sort(key=lambda association: -association.released)
    clear = associations if _is_total_clear(associations) else strong
    if clear:
        part_kept = _part_kept(clear)
        word = word_of_kept(part_kept)
        figures["associations_kept"] = part_kept
        reasons.append(
            f"{part_kept:.0%} of the associations that stand out of the noise are kept"
        )
    elif associations and _may_hide_associations(associations):
        word = "rough"
        reasons.append(
            "associations between columns cannot be distinguished from noise: "
            "rely on single columns only"
        )

    parts_kept = {
        " × ".join(fit.names[column] for column in association.columns): (
            association.shared / association.released
        )
        for association in strong
    }
    figures["associations"] = parts_kept
    reasons.extend(_reason_of_weakened(parts_kept))
    if n_missing:
        word = _word_of_missing_pairs(word, was_screened=fit.design.screens_pairs)
        n_pairs = n_missing + n_measured
        reasons.append(
            f"{n_missing:,} of {n_pairs:,} pairs of columns were not measured: "
            "independent in this copy, but for what the others imply"
        )
    return Verdict(
        # Single columns are right even if no association is.
        word="rough" if word == "noise" else word,
        source="fit",
        reasons=tuple(reasons),
        figures=figures,
    )


def _is_total_clear(associations: Sequence[Association]) -> bool:
    """Returns whether all associations together stand out and are not harmless."""
    if not associations:
        return False
    total = sum(association.released for association in associations)
    noise_std = _noise_on_total(associations)
    harmless = len(associations) * _HARMLESS_STRENGTH**2
    return total > max(_CLEAR_STDS * noise_std, harmless)


def _may_hide_associations(associations: Sequence[Association]) -> bool:
    """Returns whether associations may be there unseen that are not harmless."""
    total = sum(association.released for association in associations)
    bound = total + _UPPER_BOUND_STDS * _noise_on_total(associations)
    return math.sqrt(max(bound, 0) / len(associations)) > _HARMLESS_STRENGTH


def _noise_on_total(associations: Sequence[Association]) -> float:
    """Returns the standard deviation of the noise on the sum of associations."""
    return math.sqrt(sum(association.noise_std**2 for association in associations))


def _part_kept(associations: Sequence[Association]) -> float:
    """Returns the part of associations that the model has, from 0 to 1."""
    shared = sum(association.shared for association in associations)
    released = sum(association.released for association in associations)
    return min(max(shared / released, 0.0), 1.0)


def _reason_of_weakened(parts_kept: Mapping[str, float]) -> Iterator[str]:
    """Yields a reason that names the weakened associations, if there are any.

    Args:
        parts_kept: Part of each strong association that is kept, by its name.
    """
    weakened = [name for name, part in parts_kept.items() if part < WEAKENED]
    if weakened:
        n_more = len(weakened) - _MAX_NAMED
        more = f" and {n_more} more" if n_more > 0 else ""
        yield f"weakened: {', '.join(weakened[:_MAX_NAMED])}{more}"


def _word_of_missing_pairs(word: Word | None, *, was_screened: bool) -> Word | None:
    """Returns the word of a fit that has not all pairs, from that without this.

    Args:
        word: The word so far.
        was_screened: Whether the pairs that stand out were chosen from a look at all,
            in which some are lost.
    """
    if not was_screened:
        return "rough"
    if word == "good":
        return "usable"
    return word
