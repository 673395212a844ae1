"""Fits a mixture of product distributions to released contingency tables.

Each class of the label has components of its own, and the counts that they expect of
pairs of columns are the second moment of its records (`distance`). The mixture is
fitted by gradient descent, on the CPU, to pairs whose noise was reduced before
(`pair_denoising`). So it is fitted to the end: what could be overfitted is gone.

All of it is post-processing, which costs no privacy.

Related: RAP (Aydore et al. 2021), RAP++ (Vietri et al. 2022) and GEM (Liu, Vietri and
Wu 2021) fit relaxed tables and generators to noisy queries by gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Domain
from noisegate.answers.noisy_table import NoisyTable
from noisegate.devices import one_thread
from noisegate.models.checkpoint import FitState, joined, under
from noisegate.models.tables.descent import MixtureSettings, Search
from noisegate.models.tables.distance import Components
from noisegate.models.tables.packed_tables import PackedTables, pack_tables, split
from noisegate.models.tables.pair_denoising import denoise_pairs

Array = npt.NDArray[Any]

FAR = 2.0
"""A fit warns if it ends at a larger discrepancy from its release than this."""


class MixtureFit:
    """The fit of a mixture to released tables; a `Resumable` (`models.checkpoint`).

    If there is a label, a trial comes before the fit: the mixture of noisier tables,
    which can be judged by other tables with independent noise.

    Args:
        tables: The released tables.
        domain: All columns.
        label: The column whose classes are fitted apart. None for no such column.
        settings: How the mixture is fitted.
        seed: Seed for non-private randomness.
        n_ordered: How many cells of each column, the first ones, have an order.
        prior: Shares of the cells of columns of which something is known, by column.

    Attributes:
        settings: How the mixture is fitted.
        tables: The denoised tables to which the mixture is fitted.
        trial_tables: The denoised tables to which the trial is fitted.
        judge_tables: Tables by which the trial may be judged.
    """

    def __init__(
        self,
        tables: Sequence[NoisyTable],
        domain: Domain,
        label: int | None,
        settings: MixtureSettings,
        *,
        seed: int,
        n_ordered: Sequence[int],
        prior: Mapping[int, npt.NDArray[np.float64]] | None = None,
    ) -> None:
        self.settings = settings
        self._seed = seed
        other_n_ordered = [
            count for column, count in enumerate(n_ordered) if column != label
        ]
        trial, judge = split(tables, np.random.default_rng(seed))
        released = pack_tables(tables, domain, label, prior)
        released_trial = pack_tables(trial, domain, label, prior)
        self.judge_tables = pack_tables(judge, domain, label, prior)
        self._searches: dict[str, Search] = {}
        with one_thread():
            self.trial_tables = self._prepare(
                denoise_pairs(released_trial, other_n_ordered)
            )
            self.tables = self._prepare(denoise_pairs(released, other_n_ordered))
            if label is not None:
                self._searches["trial"] = Search(
                    self.trial_tables, released_trial, settings, seed=seed
                )
            self._searches["fit"] = Search(self.tables, released, settings, seed=seed)

    def _prepare(self, tables: PackedTables) -> PackedTables:
        """Returns denoised tables as they are; subclasses may add what they know."""
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
        """Mean squared distance to the released pairs and triples.

        It is in units of their noise, and infinite before the end.
        """
        return self._searches["fit"].discrepancy

    @property
    def warning(self) -> str | None:
        """What is wrong with the fit once it has run, in words; None if nothing is."""
        if not FAR < self.discrepancy < math.inf:
            return None
        larger_settings = (
            f'{{"components": {2 * self.settings.components}, '
            f'"steps": {3 * self.settings.steps}}}'
        )
        return (
            "the fit has ended far from its release: the distance is "
            f"{self.discrepancy:.2g} times what the noise explains, where 1 is as near "
            f"as can be and above {FAR:g} tables of the synthetic records are off by "
            "more than their noise. The release is whole, and may be fitted again at no "
            f"cost: noisegate.Pairwise(seed=1, fit_options={larger_settings})"
            ".fit_release(model.release); columns that nearly say the same are best "
            "asked for as one."
        )

    @property
    def components(self) -> Components:
        """The components that the fit has reached."""
        return self._searches["fit"].components

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps of the trial, and then of the fit.

        Args:
            report: Is called with the state after each step.
        """
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
        """Returns all that `load_state_dict` needs to go on with the same bits."""
        states = {name: search.state_dict() for name, search in self._searches.items()}
        return joined(**states)

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another fit.
        """
        if "fit/search" not in arrays:
            raise ValueError("it holds the fit of an earlier version")
        with one_thread():
            for name, search in self._searches.items():
                search.load_state_dict(under(arrays, f"{name}/"))
