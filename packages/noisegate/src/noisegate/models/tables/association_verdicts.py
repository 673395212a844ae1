"""What is said of a fit: which associations and regressions it keeps, and what it is blind to.

A number and another column are *too close to be told apart* where 1 − r² of the model,
the part of variances that lies inside cells and the standard deviation of the noise on
r² come to more than twice the release's 1 − r² (of means of cells, in values; of a
number and levels less what lies inside cells, as nothing says how these go together
there). Of 15,000 admissions and discharges in three years, 8 days apart in the mean, a
copy at ε = 3 makes 23, whatever the ward, while a column of the days keeps all three
wards to a tenth; the longitudes of two towns spread three to ten times as far inside
each, as the cell between them takes the ends of both. Such a copy is usable at best.
Coefficients are expected by ranks and by values, and the lower part counts: at ε = 1
the towns' fit kept .93 by ranks, .39 to .84 by values, and .05 to .17 in truth. On 13
tables with 8,000 records at ε 1 and 10 values change what is expected by .03 at most,
upwards on `diamonds` and `randhie`, where ranks decide, and no word but one of
`diamonds`, from rough to usable as is found. What did not help: a cut where an empty
run of fine cells begins.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, combinations, pairwise

import numpy as np

from noisegate.answers.verdict import Verdict, in_percent, of_coefficients, word_of_kept
from noisegate.models.tables.associations import (
    WEAKENED,
    Association,
    PairMoments,
    coefficients_kept,
    measured_associations,
    measured_moments,
)
from noisegate.models.tables.pairwise_fit import PairwiseFit

# An association that is named has this strength; all together stand out of their noise by so many deviations.
_STRONG, _CLEAR = 0.2, 3.0
# Of two columns that are close, one leaves less than this of the variance of the other.
_CLOSE = 0.2
# Associations that may be there unseen are no reason for a verdict while they are no stronger, in the root mean square.
_UNSEEN = 0.1
_NAMED = 5
_MOST_SCORES = 2000


def judged(fitting: PairwiseFit) -> Iterator[Verdict]:
    """Yields what is lost of the associations between columns, and which columns lie in one cell."""
    names = fitting.names
    if len(names) > 1:
        ranks, values = measured_moments(fitting.released, fitting)
        yield (told := _of_associations(fitting, names, measured_associations(ranks)))
        if "associations_kept" in told.figures:
            yield from _of_regressions(fitting, ranks, values)
        yield from _of_differences(fitting, values)
    for column, share, low, high in fitting.blind():
        where = f"{column.name!r} between {low:g} and {high:g}"
        reason = (
            f"{in_percent(share)} of records have {where}: nothing finer was measured"
        )
        cure = f"bounds of {column.name!r} that are nearer to its values"
        yield Verdict(word="rough", source="fit", reasons=(reason,), cures=(cure,))


def _of_regressions(
    fitting: PairwiseFit, *kinds: Sequence[PairMoments]
) -> Iterator[Verdict]:
    """Yields what is expected of regressions of numbers, where all pairs are measured and scores are few enough.

    Of ranks and of values, whichever keeps less: groups far apart leave little of a number's variance to the others.
    """
    found: list[float] = []
    for moments in kinds:
        sizes = dict.fromkeys(range(len(fitting.names)), 0)
        sizes |= {
            column: size
            for one in moments
            for column, size in zip(one.columns, one.seen.shape, strict=True)
        }
        if (
            len(moments) < math.comb(sum(map(bool, sizes.values())), 2)
            or sum(sizes.values()) > _MOST_SCORES
        ):
            return
        ends = list(accumulate(sizes.values(), initial=0))
        places = [slice(*ends) for ends in pairwise(ends)]
        seen, made, variance = (
            np.eye(ends[-1]),
            np.eye(ends[-1]),
            np.zeros((ends[-1], ends[-1])),
        )
        for one in moments:
            left, right = (places[column] for column in one.columns)
            for whole, part in (
                (seen, one.seen),
                (made, one.made),
                (variance, one.variance),
            ):
                whole[left, right], whole[right, left] = part, part.T
        targets = [
            ends[column]
            for column, cells in enumerate(fitting.ordered)
            if cells > 1 and sizes[column]
        ]
        kept = coefficients_kept(
            seen, made, variance, targets, float(fitting.tables.counts.sum())
        )
        found += [] if kept is None else [kept]
    if found:
        yield of_coefficients(
            min(found), "fit", doubt=0.1
        )  # evaluations of twelve tables found some .1 more of little


def _of_differences(
    fitting: PairwiseFit, moments: Sequence[PairMoments]
) -> Iterator[Verdict]:
    """Yields the pairs of a number and a column so close that what sets them apart is mostly cells, noise and model."""
    near: list[str] = []
    for one in moments:
        left = 1 - float((np.square(one.seen) - one.variance).sum())
        noise = math.sqrt(
            float((4 * np.square(one.seen) * one.variance + 2 * one.variance**2).sum())
        )
        numbers = [column for column in one.columns if fitting.ordered[column] > 1]
        if numbers and left + noise < _CLOSE:
            inside, model = (
                list(map(fitting.inside, numbers)),
                1 - float(np.square(one.made).sum()),
            )
            # Of a number and levels nothing says how they go together inside cells; of two numbers, their order does.
            if (
                left - (inside[0] if len(inside) == 1 else 0.0)
                < (model + sum(inside) + noise) / 2
            ):
                near.append(
                    " and ".join(repr(fitting.names[column]) for column in one.columns)
                )
    if near:
        more = f"; and {len(near) - _NAMED} more pairs" * (len(near) > _NAMED)
        reason = f"too close to be told apart, so that what sets them apart misleads: {'; '.join(near[:_NAMED])}{more}"
        cure = "in place of one of two columns that are close, a column of what sets them apart"
        yield Verdict(
            word="usable",
            source="fit",
            reasons=(reason,),
            cures=(cure,),
            figures={"too_close": near},
        )


def _of_associations(
    fitting: PairwiseFit, names: Sequence[str], found: Sequence[Association]
) -> Verdict:
    measured = {
        pair for table in fitting.released for pair in combinations(table.columns, 2)
    }
    missing = [
        pair for pair in combinations(range(len(names)), 2) if pair not in measured
    ]
    total, noise = (
        sum(one.released for one in found),
        math.sqrt(sum(one.deviation**2 for one in found)),
    )
    figures: dict[str, object] = {
        "pairs_measured": len(measured),
        "pairs_not_measured": len(missing),
    }
    reasons, word = [], None
    strong = [one for one in found if one.released > max(_STRONG**2, one.chance)]
    strong.sort(key=lambda one: -one.released)
    everywhere = bool(found) and total > max(_CLEAR * noise, len(found) * _UNSEEN**2)
    if everywhere or strong:
        among = found if everywhere else strong
        kept = min(
            max(
                sum(one.shared for one in among) / sum(one.released for one in among),
                0.0,
            ),
            1.0,
        )
        word, figures["associations_kept"] = word_of_kept(kept), kept
        reasons.append(
            f"{kept:.0%} of the associations that stand out of the noise are kept"
        )
    elif found and math.sqrt(max(total + 2 * noise, 0) / len(found)) > _UNSEEN:
        word = "rough"
        reasons.append(
            "associations between columns cannot be distinguished from noise: rely on single columns only"
        )
    told = {
        " × ".join(names[column] for column in one.columns): one.shared / one.released
        for one in strong
    }
    figures["associations"] = told
    if weak := [name for name, part in told.items() if part < WEAKENED]:
        more = f" and {len(weak) - _NAMED} more" * (len(weak) > _NAMED)
        reasons.append(f"weakened: {', '.join(weak[:_NAMED])}{more}")
    if missing:
        # In a wide table those that stand out were chosen from a look at all of them, of which some are lost.
        word = (
            "rough"
            if not fitting.design.screened
            else "usable"
            if word == "good"
            else word
        )
        reasons.append(
            f"{len(missing):,} of {len(missing) + len(measured):,} pairs of columns were not measured: "
            "independent in this copy, but for what the others imply"
        )
    return Verdict(
        word="rough" if word == "noise" else word,
        source="fit",
        reasons=tuple(reasons),
        figures=figures,
    )
