"""Fits a mixture of product distributions to released contingency tables, whose noise is taken off before.

Each class has components of its own, and the expected counts of its pairs are the second moment of its records; see
`noisegate.models.tables.distance.Distance`. It is fitted by gradient descent, on the CPU, to what `denoised_pairs`
makes of them, and to its end: what could be overfitted is gone. All of it is post-processing, which costs no privacy.

Related: RAP (Aydore et al. 2021), RAP++ (Vietri et al. 2022) and GEM (Liu, Vietri and Wu 2021) fit relaxed tables and
generators to noisy queries by gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.answers.released import Table
from noisegate.devices import one_thread
from noisegate.models.checkpoint import FitState, joined, under
from noisegate.models.tables.denoising import denoised_pairs
from noisegate.models.tables.descent import MixtureSettings, Search
from noisegate.models.tables.distance import Components
from noisegate.models.tables.packed_tables import (
    PackedTables,
    pack_tables,
    split,
)

FAR = 2.0
"""A fit that ends at a larger distance from its release, in units of its noise, says so."""

if TYPE_CHECKING:
    Array = npt.NDArray[Any]


class MixtureFit:
    """One fit; a `noisegate.models.checkpoint.Resumable`. For tables, sizes and label see `pack_tables`.

    `ordered` says how many cells of each column, the first ones, stand in an order.

    Attributes:
        tables: The released tables without what was taken for noise, which the fit is fitted to.
        trial_tables: With a label, noisier ones, which a trial is fitted to.
        judge_tables: With a label, those with independent noise, by which the trial is judged.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        sizes: Sequence[int],
        label: int | None,
        settings: MixtureSettings,
        *,
        seed: int,
        ordered: Sequence[int],
        prior: Mapping[int, npt.NDArray[np.float64]] | None = None,
    ) -> None:
        self.settings, self._seed = settings, seed
        others = [few for column, few in enumerate(ordered) if column != label]
        trial, judge = split(tables, np.random.default_rng(seed))
        released, tried, self.judge_tables = (
            pack_tables(one, sizes, label, prior) for one in (tables, trial, judge)
        )
        self._searches: dict[str, Search] = {}
        with one_thread():
            self.trial_tables, self.tables = (
                self._known(denoised_pairs(one, others)) for one in (tried, released)
            )
            if label is not None:
                self._searches["trial"] = Search(
                    self.trial_tables, tried, settings, seed=seed
                )
            self._searches["fit"] = Search(self.tables, released, settings, seed=seed)

    def _known(self, tables: PackedTables) -> PackedTables:
        """Returns tables that are fitted to with what is known of them beforehand, if anything is."""
        return tables

    @property
    def step(self) -> int:
        """Steps done, of the trial and of the fit."""
        return sum(search.step for search in self._searches.values())

    @property
    def steps(self) -> int:
        """Steps that there will be, as far as is known."""
        return sum(search.steps for search in self._searches.values())

    @property
    def discrepancy(self) -> float:
        """Mean squared distance to the released pairs and triples, in units of their noise; infinite before the end."""
        return self._searches["fit"].discrepancy

    @property
    def warning(self) -> str | None:
        """What is wrong with the fit once it has run, in words; None where nothing is."""
        if not FAR < self.discrepancy < math.inf:
            return None
        settings = f'{{"components": {2 * self.settings.components}, "steps": {3 * self.settings.steps}}}'
        return (
            f"the fit has ended far from its release: the distance is {self.discrepancy:.2g} times what the noise "
            f"explains, where 1 is as near as can be and above {FAR:g} tables of the synthetic records are off by more "
            "than their noise. The release is whole, and may be fitted again at no cost: "
            f"noisegate.Pairwise(seed=1, fit_options={settings}).fit_release(model.release); columns that nearly say "
            "the same are best asked for as one."
        )

    @property
    def reached(self) -> Components:
        """The mixture that the fit has reached."""
        return self._searches["fit"].components

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps of the trial, and then of the fit."""
        with one_thread():
            for search in self._searches.values():
                while search.advance():
                    if report:
                        report(
                            FitState(
                                step=self.step,
                                steps=self.steps,
                                discrepancy=self.discrepancy,
                            )
                        )

    def state_dict(self) -> dict[str, Array]:
        """Returns everything that `load_state_dict` needs to go on with the same bits, as named arrays."""
        return joined(
            **{kind: one.state_dict() for kind, one in self._searches.items()}
        )

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Takes up the fit where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another fit.
        """
        if "fit/search" not in arrays:
            raise ValueError("it holds the fit of an earlier version")
        with one_thread():
            for kind, search in self._searches.items():
                search.load_state_dict(under(arrays, f"{kind}/"))
