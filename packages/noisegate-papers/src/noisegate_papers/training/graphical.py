"""Fit a graphical model to noisy marginals by Private-PGM (McKenna, Sheldon, Miklau 2019), and take it apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.errors import MissingExtraError, ModelError
from noisegate.models.checkpoint import FitState
from noisegate.privacy.marginal_plan import marginal_columns
from noisegate.privacy.release import Release
from noisegate_papers.models.graphical import Conditional

if TYPE_CHECKING:
    from torch import Tensor


class NoisyMarginal(NamedTuple):
    """Noisy counts of the cells of some columns, (cells,), the last column fastest, each with noise of `std`."""

    columns: tuple[int, ...]
    counts: npt.NDArray[np.float64]
    std: float


def read_marginals(release: Release, event: str) -> tuple[NoisyMarginal, ...]:
    """Returns the marginals that came of `event`, in the order in which they were measured."""
    names = [name for name in release.values if name.startswith(f"{event}/")]
    if not names:
        raise ModelError(f"the release holds no marginals of {event!r}; it holds {sorted(release.values)}.")
    names.sort(key=lambda name: int(name.removeprefix(f"{event}/").partition(":")[0]))
    counts = {name: release.values[name].reshape(-1) for name in names}
    return tuple(NoisyMarginal(marginal_columns(name), counts[name], release.noise_std[name]) for name in names)


class GraphicalFit:
    """One fit by mirror descent. It starts over when it is taken up again: it is short against what it follows."""

    def __init__(self, sizes: tuple[int, ...], marginals: tuple[NoisyMarginal, ...], *, iterations: int) -> None:
        self._sizes, self._marginals, self.steps = sizes, marginals, iterations
        self.step = 0
        self.discrepancy = math.inf
        self._factors: tuple[Conditional, ...] | None = None

    @property
    def factors(self) -> tuple[Conditional, ...]:
        """The fitted model; `run` comes first."""
        if self._factors is None:
            raise ModelError("this fit has not been run; call run() first.")
        return self._factors

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Fits; a MissingExtraError where the optional packages are not here."""
        try:
            import mbi
            from mbi.estimation import mirror_descent
        except ImportError as error:
            raise MissingExtraError(
                f"fitting a graphical model needs optional packages ({error.name} is missing); "
                "install them with: pip install 'noisegate[marginals]'"
            ) from None

        def count(_: Any) -> None:
            self.step += 1
            if report:
                report(FitState(step=self.step, steps=self.steps, discrepancy=self.discrepancy))

        self.step = 0
        domain = mbi.Domain.fromdict({str(column): size for column, size in enumerate(self._sizes)})
        measured = [
            mbi.LinearMeasurement(marginal.counts, tuple(map(str, marginal.columns)), stddev=marginal.std)
            for marginal in self._marginals
        ]
        model = mirror_descent(domain, measured, iters=self.steps, callback_fn=count)
        self.discrepancy = self._distance(model)
        self._factors = _conditionals(model)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns where the fit stands; nothing that it could go on from."""
        import torch

        return {"step": torch.tensor(self.step)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Starts over."""

    def _distance(self, model: Any) -> float:
        """Returns the mean squared residual in noise standard deviations: 1 is what noise alone would leave."""
        fitted = (model.project(tuple(map(str, each.columns))).values for each in self._marginals)
        pairs = zip(fitted, self._marginals, strict=True)
        residuals = [(np.asarray(values).reshape(-1) - each.counts) / each.std for values, each in pairs]
        return float(np.square(np.concatenate(residuals)).mean())


def _conditionals(model: Any) -> tuple[Conditional, ...]:
    """Returns the tables of the Bayesian network along the reverse of an elimination order of the model's graph."""
    from mbi import junction_tree, marginal_oracles

    tree, order = junction_tree.make_junction_tree(model.domain, [set(clique) for clique in model.cliques])
    cliques = [set(clique) for clique in tree.nodes]
    marginals = marginal_oracles.message_passing_stable(model.potentials.expand(list(tree.nodes)))
    factors: list[Conditional] = []
    known: set[str] = set()
    for column in reversed(order):
        neighbours = set().union(*(clique for clique in cliques if column in clique))
        parents = tuple(sorted(known & neighbours, key=int))
        known.add(column)
        table = np.asarray(marginals.project((*parents, column)).values, dtype=np.float64)
        before = tuple(map(int, parents))
        factors.append(Conditional(column=int(column), parents=before, probabilities=_normalised(table)))
    return tuple(factors)


def _normalised(table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns the table with sums of 1 along its last axis; uniform where it is empty."""
    table = np.maximum(table, 0)
    total = table.sum(axis=-1, keepdims=True)
    # Below, the quotient of two subnormal numbers would be no distribution.
    held = total > 1e-280
    return np.where(held, table / np.where(held, total, 1), 1 / table.shape[-1])
