"""The contingency tables of OpenDP (`opendp.extras.mbi`), with its default algorithms.

OpenDP asks for cut points of numeric columns, so it gets the edges of the public bins; the two outer cells that it adds
are empty, because the bounds are public. It takes ρ of zero-concentrated privacy: the largest ρ that its own conversion
turns into at most the ε of the comparison.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import opendp.prelude as dp
import polars as pl
from contract import BINS, Answer, Request, edges

dp.enable_features("contrib")


def fit(algorithm: Any, request: Request) -> Answer:
    """Releases one contingency table and draws as many records as were read."""
    rho = _rho(request.epsilon, request.delta)
    context = dp.Context.compositor(
        data=pl.from_pandas(request.train).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
    )
    query = context.query().contingency_table(
        keys=request.levels,
        cuts={name: edges(*bounds) for name, bounds in request.bounds.items()},
        algorithm=algorithm,
    )
    synthetic = query.release().synthesize(rows=len(request.train)).to_pandas()
    for name, (lower, upper, _) in request.bounds.items():
        synthetic[name] = synthetic[name].clip(lower, upper)
    # OpenDP adds a missing level to every column with levels; where the public domain has none, it is read as the last.
    for name, levels in request.levels.items():
        synthetic[name] = synthetic[name].fillna(levels[-1])
    return Answer(
        synthetic=synthetic,
        settings={"algorithm": type(algorithm).__name__, "rho": rho, "bins": BINS},
    )


def _rho(epsilon: float, delta: float) -> float:
    """The largest ρ for (ε, δ) by OpenDP's conversion, to a relative 1e-6 on the safe side."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def spent(rho: float) -> float:
        gaussian = space >> dp.m.then_gaussian(scale=1 / sqrt(2 * rho))
        return float(dp.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(delta))

    low, high = 0.0, epsilon  # ρ = ε costs more than ε at any δ below a half
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
    return low
