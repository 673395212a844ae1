"""Copies of a model and of its refits, for what `infer` has no question for.

A parametric bootstrap (Efron, Annals of Statistics 1979), which reads no private record
and so costs no privacy::

    model ──► copy 0
      └─────► records drawn from it ──► released again, with fresh noise ──► refit
                                                                   refit ──► copy i

As many records are drawn for a refit as were released, and the method, the gate and the
budget are those of the model. The analyst computes a statistic f from the rows of each
copy, and `combine` makes an estimate with an interval of them.

Let f₀ come from the copy of the model, and f₁ … fₘ from the copies of the refits. Then
fᵢ is about as far from f₀ as f₀ is from the truth: by noise, by sampling, and by what
the model cannot represent. So

- the bias of f₀ is about the mean of fᵢ − f₀, and the estimate is f₀ minus that;
- the variance is the mean of (fᵢ − f₀)², plus the square of the bias, since a refit
  loses less than the model lost before it;
- the interval is that of Student's t with m degrees of freedom.

The rules of Raghunathan, Reiter and Rubin (Journal of Official Statistics 2003) assume
an unbiased model, which models of noisy answers are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.answers.reading import measurements_of
from noisegate.app.api import synthesize
from noisegate.errors import OptionError, require
from noisegate.methods.registry import method_of
from noisegate.privacy.events import RECORD

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.models.synthesizer import Synthesizer

# Columns that mice and its relatives add to stacked copies: the number of the copy, and
# of the row in it.
_ADDED_COLUMNS = frozenset({".imp", ".id"})
_MIN_REFITS = 2


def copies(
    model: Synthesizer, number: int, rows: int, *, seed: int | None = None
) -> Iterator[pa.Table]:
    """Yields a copy of a model, and then one of each of its refits.

    Args:
        model: Model of one table, whose privacy unit is one record.
        number: Number of refits, at least 2. Each takes as long as the model's own fit.
        rows: Records in each copy. About as many as were released say most.
        seed: Seed of the rows that are drawn; the noise of refits has none.

    Returns:
        The `number` + 1 copies, the model's own first. Each is made when it is asked
        for; arguments are checked before.

    Raises:
        OptionError: if the model is of another kind, or the number of its records was
            neither public nor released.
    """
    _check_model(model)
    if number < _MIN_REFITS:
        raise OptionError(f"number={number}: at least 2 refits can be combined.")
    certificate = model.certificate
    public_count = certificate.public.get("records")
    record_count = public_count
    if record_count is None:
        record_count = max(round(measurements_of(model.release).total.value), 1)
    method = method_of(certificate)

    def refit(records: pa.Table) -> Synthesizer:
        with warnings.catch_warnings():
            # These are about a budget, and nobody's records are spent on here.
            warnings.simplefilter("ignore")
            return synthesize(
                records,
                schema=model.schema,
                method=method,
                records=public_count,
                epsilon=certificate.epsilon,
                delta=certificate.delta,
                adjacency=certificate.adjacency,
            )

    return _draw_copies(model, refit, number, rows, record_count, seed)


def _check_model(model: Synthesizer) -> None:
    """Requires a model of one table, of whose records each is a privacy unit."""
    if model.certificate.unit != RECORD or model.schema.images is not None:
        raise OptionError(
            "copies need a model of one table, in whose release each privacy unit "
            "is one record."
        )
    taken_names = _ADDED_COLUMNS & {column.name for column in model.schema.columns}
    if taken_names:
        raise OptionError(
            f"a column is called {min(taken_names)!r}, as the number of a copy or of "
            "its row is."
        )


def _draw_copies(
    model: Synthesizer,
    refit: Callable[[pa.Table], Synthesizer],
    refit_count: int,
    rows: int,
    record_count: int,
    seed: int | None,
) -> Iterator[pa.Table]:
    """Draws the copy of a model, then refits it and draws a copy of each refit.

    Args:
        model: The model of the release.
        refit: Releases and fits records that were drawn from the model.
        refit_count: How many refits.
        rows: Records in each copy.
        record_count: Records that each refit is fitted to.
        seed: Seed of all draws.
    """
    # One for the first copy, and two for each refit: its records and its copy.
    seed_sequence = np.random.SeedSequence(seed)
    seeds = iter(seed_sequence.generate_state(2 * refit_count + 1).tolist())
    # Without its conversion a model samples Arrow tables, whatever it was fitted to.
    arrow_model = replace(model, convert=None)
    yield arrow_model.sample(rows, seed=next(seeds), independent=True)
    for _ in range(refit_count):
        records = arrow_model.sample(record_count, seed=next(seeds), independent=True)
        arrow_refit = replace(refit(records), convert=None)
        yield arrow_refit.sample(rows, seed=next(seeds), independent=True)


@dataclass(frozen=True, kw_only=True)
class Combined:
    """Estimates from several copies, each an array in the shape of the statistic.

    Attributes:
        value: The estimate, with the bias taken off.
        error: Its standard error, by noise, sampling and the bias.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    value: Floats
    error: Floats
    low: Floats
    high: Floats


def combine(statistics: Sequence[Any], *, level: float = 0.95) -> Combined:
    """Combines what was computed from each copy into estimates with intervals.

    Args:
        statistics: A number or an array from each copy, in the order of `copies`: the
            model's own first, then those of its refits.
        level: Level of the intervals, between 0 and 1.

    Raises:
        OptionError: if there are fewer than three.
        MissingExtraError: without SciPy.

    Examples:
        >>> combined = combine([2.0, 1.5, 1.4, 1.6])
        >>> round(float(combined.value), 3), round(float(combined.error), 3)
        (2.5, 0.712)
    """
    require("scipy", "combine()")
    from scipy import stats

    values = np.asarray(statistics, dtype=float)
    refit_count = len(values) - 1
    if refit_count < _MIN_REFITS:
        raise OptionError(
            "the copy of the model and those of at least two refits are needed."
        )
    model_value = values[0]
    refit_values = values[1:]
    loss = model_value - refit_values.mean(axis=0)
    corrected_value = model_value + loss
    mean_square = np.square(refit_values - model_value).mean(axis=0)
    error = np.sqrt(mean_square + np.square(loss))
    half_width = stats.t.ppf(0.5 + level / 2, refit_count) * error
    return Combined(
        value=corrected_value,
        error=error,
        low=corrected_value - half_width,
        high=corrected_value + half_width,
    )
