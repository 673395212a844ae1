"""A session of the gate whose answers are masked shares of a sum over silos (G-32).

Each silo answers with its own sum, part of the noise, and a mask. Over all silos the
masks cancel, so whoever adds the answers up learns the noisy sum and nothing else.
"""

import math
from dataclasses import replace

import numpy as np

from noisegate.errors import CalibrationError, DataError
from noisegate.gate.session import Integers, State, Values
from noisegate.gate.sessions.sums import SumSession
from noisegate.gate.silos.keys import Masking, halves_of_words
from noisegate.privacy.accounting import MINIMUM_STD
from noisegate.privacy.events import Sampler
from noisegate.privacy.grid import RECORD_LIMIT
from noisegate.privacy.plan import PlannedRelease

# A share of the noise is a little wider than its part, as a margin for rounding.
_MARGIN = 1 + 1e-12


class ShareSession(SumSession):
    """Answers the questions of one plan with masked shares (G-32).

    It takes the place of a session of a gate that was asked nothing yet. Sum and noise
    leave the gate with the mask alone, written as `keys.halves_of_words` does, (2·dim,
    columns).

    Args:
        gate_session: The session of the gate, which hands its access over.
        masking: The masks of this silo in the sum.

    Raises:
        CalibrationError: if the shares of the noise would be too small for the proof.
    """

    def __init__(self, gate_session: SumSession, masking: Masking) -> None:
        super().__init__(gate_session.hand_over())
        self._masking = masking
        # The shares of the silos that do not collude must add up to the planned noise.
        # Of n independent shares, each has its standard deviation divided by √n.
        honest_count = masking.sum.honest_count
        self._std_divisor = math.sqrt(honest_count)
        smallest_std = min(release.noise_std for release in self.plan.releases)
        if smallest_std < MINIMUM_STD * self._std_divisor:
            raise CalibrationError(
                f"the noise of {honest_count} silos, in shares, would be below "
                f"{MINIMUM_STD:g} grid units each, where nothing is proved; ask for a "
                "smaller epsilon."
            )

    def _confirm(self) -> None:
        """Marks the masks as used, just before noise, and confirms the reservation.

        The mark comes first: if the process dies in between, the masks are lost and
        nothing was handed out under them. The other way round, a second run could use
        them again.
        """
        if self.state is not State.CONFIRMED:
            self._masking.mark_used()
        super()._confirm()

    def _check_record_count(self, record_count: int, link: str | None = None) -> None:
        """Checks the number of records, also against 64 bits for all silos together.

        Raises:
            DataError: if there are too many, or `Session._check_record_count` refuses.
        """
        super()._check_record_count(record_count, link)
        # With so few, the sum of all silos and its noise stay below 2⁶³ in magnitude.
        max_records = RECORD_LIMIT // len(self._masking.sum.keys)
        if record_count > max_records:
            raise DataError(
                f"{self._access.source.name}: too many records for a sum of several "
                "silos in 64 bits."
            )

    def _answer(self, sums: Integers, release: PlannedRelease) -> Values:
        """Draws this silo's share of the noise, and masks the noisy sum.

        Args:
            sums: Exact sum of this silo in grid units, (columns, dim); private.
            release: What was planned for the question.

        Returns:
            The masked share, (2·dim, columns), see `keys.halves_of_words`.
        """
        share_std = release.noise_std / self._std_divisor * _MARGIN
        share_event = replace(
            release.event, noise_std=share_std, sampler=Sampler.DISCRETE_GAUSSIAN
        )
        noisy_sums = self._add_noise(sums, share_event)
        # Negative sums wrap around: words are numbers modulo 2⁶⁴.
        words = np.ascontiguousarray(noisy_sums.T).view(np.uint64)
        mask = self._masking.mask(release.query.name, words.size)
        return halves_of_words(words + mask.reshape(words.shape))

    def _stds(self) -> dict[str, float]:
        """Returns the standard deviation of this silo's noise, by query."""
        return {name: std / self._std_divisor for name, std in super()._stds().items()}
