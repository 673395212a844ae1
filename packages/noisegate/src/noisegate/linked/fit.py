"""The fit of a model of linked tables to a release: link by link, a mixture first and then a chain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.devices import one_thread
from noisegate.features.binning import Histogram
from noisegate.linked.chain import Chain
from noisegate.linked.chain_fit import fit_chain
from noisegate.linked.design import LinkDesign
from noisegate.linked.link_model import LinkModel
from noisegate.linked.start import with_start
from noisegate.models.checkpoint import FitState, under
from noisegate.models.mixture import Mixture
from noisegate.privacy.release import Release
from noisegate.seeds import public_random
from noisegate.tables.descent import MixtureSettings
from noisegate.tables.mixture_fit import MixtureFit, mixture_of, within_cells
from noisegate.tables.tables import ClassTables

_PARENTS = 20_000
"""Parents that are drawn for the fit of a chain."""


class LinkFit(MixtureFit):
    """The fit of a mixture to the transitions of one link."""

    def __init__(self, design: LinkDesign, release: Release, settings: MixtureSettings, *, seed: int) -> None:
        self.design, found = design, design.answers(release)
        self._bins, tables = design.tables.read(found)
        self._histograms = design.tables.read_histograms(found)
        self._numbers = design.numbers(found)
        sizes = [*(bins.size for bins in self._bins), *design.tables.coded]
        prior = design.prior(self._histograms, self._bins)
        ordered = [bins.size - bins.nullable for bins in self._bins] + [0] * len(design.tables.coded)
        super().__init__(tables, sizes, None, settings, seed=seed, ordered=ordered, prior=prior)

    def _known(self, tables: ClassTables) -> ClassTables:
        return with_start(tables, self.design.columns, self._numbers.masses, self._begins)

    @property
    def _begins(self) -> npt.NDArray[np.intp]:
        """Where among the numbers of children the cells of their column begin."""
        place = self.design.columns.number
        cuts = np.searchsorted(self.design.tables.fine[place].cuts, self._bins[place].cuts)
        return np.asarray([0, *(cuts + 1)])

    def mixture(self) -> Mixture:
        """Returns the mixture that the fit has reached; of the number of children it says what was released of it."""
        design, place = self.design, self.design.columns.number
        histograms: Mapping[int, Histogram] = {**self._histograms, place: self._numbers}
        within = within_cells(design.tables, self._bins, histograms)
        mixture = mixture_of(self.reached, self.tables, design.link.schema.layout, within)
        masses = np.add.reduceat(self._numbers.masses, self._begins)
        return _raked(mixture, place, masses / masses.sum()) if masses.sum() > 0 else mixture


def _raked(mixture: Mixture, column: int, shares: npt.NDArray[np.float64]) -> Mixture:
    """Returns the mixture with other shares of the cells of one column, and all else as it was given this."""
    weights, table = mixture.weights.astype(np.float64), mixture.probabilities[column].astype(np.float64)
    joint = weights[:, None] * table * (shares / np.maximum(weights @ table, 1e-12))
    weights = joint.sum(axis=1)
    tables = list(mixture.probabilities)
    tables[column] = joint / np.maximum(weights[:, None], 1e-300)
    live = weights > 0
    return replace(
        mixture, weights=weights[live] / weights.sum(), probabilities=tuple(np.asarray(one)[live] for one in tables)
    )


class LinkedFit:
    """The fits of all links, one after the other; a `noisegate.models.checkpoint.Resumable`.

    Attributes:
        links: The fit of each link, parents first.
    """

    def __init__(
        self, designs: Sequence[LinkDesign], release: Release, settings: MixtureSettings, *, seed: int
    ) -> None:
        self.links = tuple(LinkFit(design, release, settings, seed=seed) for design in designs)
        self._seed = seed

    @property
    def step(self) -> int:
        """Steps done."""
        return sum(link.step for link in self.links)

    @property
    def steps(self) -> int:
        """Most steps that there will be, as far as is known."""
        return sum(link.steps for link in self.links)

    @property
    def discrepancy(self) -> float:
        """The largest mean squared distance of a link to its tables, in units of their noise."""
        found = [link.discrepancy for link in self.links if math.isfinite(link.discrepancy)]
        return max(found, default=math.inf)

    @property
    def warning(self) -> str | None:
        """What is wrong with the fit once it has run, in words; None where nothing is."""
        told = ((link.design.link.name, link.warning) for link in self.links)
        again = "noisegate.Pairwise", "noisegate.linked.method.Linked"
        return next((f"{name}: {warning.replace(*again)}" for name, warning in told if warning), None)

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps."""

        def told(_: FitState) -> None:
            if report:
                report(FitState(step=self.step, steps=self.steps, discrepancy=self.discrepancy))

        for link in self.links:
            link.run(told)

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Returns everything that `load_state_dict` needs to go on with the same bits, as named arrays."""
        return {
            f"{link.design.link.name}.{name}": value for link in self.links for name, value in link.state_dict().items()
        }

    def load_state_dict(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Takes up the fit where `state_dict` was called; KeyError or ValueError if the state is that of another."""
        for link in self.links:
            link.load_state_dict(under(arrays, f"{link.design.link.name}."))

    def model(self) -> tuple[LinkModel, ...]:
        """Returns the model of each link that the fit has reached, parents first."""
        made: dict[str, LinkModel] = {}
        with one_thread():
            for fit in self.links:
                link, mixture = fit.design.link, fit.mixture()
                above = made.get(link.parent.name)
                random = public_random(self._seed)
                if above is None:
                    parents = mixture.cells(mixture.draw(_PARENTS, random))
                else:
                    parents = LinkModel.parent_cells(link, mixture, above.one_each(_PARENTS, random))
                chain: Chain = fit_chain(fit.design.columns, mixture, parents, self._seed)
                made[link.name] = LinkModel(link=link, chain=chain, above=above)
        return tuple(made.values())
