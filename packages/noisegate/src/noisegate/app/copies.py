"""Copies of a model and of its refits, for what `infer` has no question for: a parametric bootstrap.

From the model of a release records are drawn, as many as were released; the same method
releases them with fresh noise, through the same gate, and fits a model to that. No
private record is read, so it costs no privacy. Where f is computed from rows, f_0 from
a copy of the model and f_1 … f_m from copies of m such refits, f_i is about as far from
f_0 as f_0 from the truth: by noise, by sampling, and by what the model loses (Efron
1979). So f_0 + (f_0 − mean f_i) is the estimate, mean (f_i − f_0)² its variance, to
which the square of what was taken off is added, since refits lose less than was lost
before them; t has m degrees of freedom. The rules of Raghunathan, Reiter and Rubin
(2003) take a model for unbiased, which those of noisy releases are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.answers.evidence import Evidence
from noisegate.answers.released import Floats
from noisegate.app.api import synthesize
from noisegate.errors import OptionError, require
from noisegate.methods.registry import method_of
from noisegate.privacy.events import RECORD

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.models.synthesizer import Synthesizer


def copies(
    model: Synthesizer, number: int, rows: int, *, seed: int | None = None
) -> Iterator[pa.Table]:
    """Yields a copy of a model, and then of each of its refits, a table of `rows` records each.

    Args:
        model: Of one table, one record a privacy unit.
        number: Of refits, at least 2; each takes as long as the fit of the model did.
        rows: Of each copy. About as many as were released say most.
        seed: Of the rows that are drawn; the noise of refits has none.

    Raises:
        OptionError: if the model is of another kind, or the number of its records was neither public nor released.
    """
    certificate = model.certificate
    if certificate.unit != RECORD or model.schema.images is not None:
        raise OptionError(
            "copies are made of models of one table, in whose release a privacy unit is one record."
        )
    if taken := {".imp", ".id"} & {column.name for column in model.schema.columns}:
        raise OptionError(
            f"a column is called {taken.pop()!r}, as the number of a copy or of its row is."
        )
    if number < 2:
        raise OptionError(f"number={number}: at least 2 refits can be combined.")
    public, method = certificate.public.get("records"), method_of(certificate)
    records = public or max(round(Evidence(model).records[0]), 1)
    model = replace(model, convert=None)
    budget: dict[str, Any] = {
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "adjacency": certificate.adjacency,
    }

    def made() -> Iterator[pa.Table]:
        seeds = iter(
            np.random.SeedSequence(seed).generate_state(2 * number + 1).tolist()
        )
        yield model.sample(rows, seed=next(seeds), independent=True)
        for _ in range(number):
            drawn = model.sample(records, seed=next(seeds), independent=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nobody's records are spent on
                refit = synthesize(
                    drawn, schema=model.schema, method=method, records=public, **budget
                )
            yield replace(refit, convert=None).sample(
                rows, seed=next(seeds), independent=True
            )

    return made()


@dataclass(frozen=True, kw_only=True)
class Combined:
    """Estimates of copies together, each an array of the shape of what was computed from one copy."""

    value: Floats
    error: Floats  # standard error
    low: Floats
    high: Floats


def combine(found: Sequence[Any], *, level: float = 0.95) -> Combined:
    """Returns estimates with intervals of what was computed from each copy, the model's own first.

    Args:
        found: A number or an array of each copy, in the order of `copies`.
        level: Of intervals, between 0 and 1.

    Raises:
        OptionError: if there are fewer than three.
        MissingExtraError: without SciPy.

    Examples:
        >>> made = combine([2.0, 1.5, 1.4, 1.6])
        >>> round(float(made.value), 3), round(float(made.error), 3)
        (2.5, 0.712)
    """
    require("scipy", "combine()")
    from scipy import stats

    values = np.asarray(found, dtype=float)
    if len(values) < 3:
        raise OptionError(
            "the copy of the model and those of at least two refits are needed."
        )
    lost = values[0] - values[1:].mean(axis=0)
    value, error = (
        values[0] + lost,
        np.sqrt(np.square(values[1:] - values[0]).mean(axis=0) + np.square(lost)),
    )
    half = stats.t.ppf(0.5 + level / 2, len(values) - 1) * error
    return Combined(value=value, error=error, low=value - half, high=value + half)
