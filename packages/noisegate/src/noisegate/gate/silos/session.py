"""A session of the gate whose answers are masked shares of a sum over silos (G-32)."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from noisegate.errors import CalibrationError, DataError
from noisegate.gate.session import Integers, State, Values
from noisegate.gate.sessions.sums import SumSession
from noisegate.gate.silos.keys import Masking, as_numbers
from noisegate.privacy.accounting import MINIMUM_STD
from noisegate.privacy.events import Sampler
from noisegate.privacy.grid import RECORD_LIMIT
from noisegate.privacy.plan import PlannedRelease


class ShareSession(SumSession):
    """Takes the place of a session of a gate that was asked nothing yet; its answers are masked shares (G-32).

    They are as `masks.as_numbers` writes them, (2·dim, columns); sum and noise leave the gate with the mask alone.
    """

    def __init__(self, session: SumSession, masking: Masking) -> None:
        super().__init__(session._access)
        self._masking = masking
        if min(
            release.noise_std for release in self.plan.releases
        ) < MINIMUM_STD * math.sqrt(masking.sum.honest):
            raise CalibrationError(
                f"the noise of {masking.sum.honest} silos, in shares, would be below {MINIMUM_STD:g} grid units each, "
                "where nothing is proved; ask for a smaller epsilon."
            )

    def _confirm(self) -> None:
        """Just before noise: the masks count as used from here on, as the budget does."""
        if self.state is not State.CONFIRMED:
            self._masking.begin()
        super()._confirm()

    def _check_records(self, seen: int, link: str | None = None) -> None:
        super()._check_records(seen, link)
        # With it, the sum of all silos and its noise stay below 2⁶³ in magnitude.
        if seen > RECORD_LIMIT // len(self._masking.sum.keys):
            raise DataError(
                f"{self._access.source.name}: too many records for a sum of several silos in 64 bits."
            )

    def _answer(self, sums: Integers, release: PlannedRelease) -> Values:
        std = release.noise_std / math.sqrt(self._masking.sum.honest) * (1 + 1e-12)
        noisy = self._add_noise(
            sums,
            replace(release.event, noise_std=std, sampler=Sampler.DISCRETE_GAUSSIAN),
        )
        words = np.ascontiguousarray(noisy.T).view(np.uint64)
        return as_numbers(
            words
            + self._masking.mask(release.query.name, words.size).reshape(words.shape)
        )

    def _stds(self) -> dict[str, Any]:
        return {
            name: std / math.sqrt(self._masking.sum.honest)
            for name, std in super()._stds().items()
        }
