"""A session of the gate whose answers are masked shares of a sum over silos (G-32).

Several owners of private records, the silos, want one noisy sum over all their records.
Each silo answers with a share: the sum of its own records, part of the noise, and a
mask. Over all silos the masks cancel, so whoever adds the shares up learns the noisy
sum and nothing else.
"""

import math

import numpy as np

from noisegate.errors import CalibrationError, DataError
from noisegate.gate.session import Session
from noisegate.gate.silos.keys import Masking, halves_of_words
from noisegate.gate.transaction import Integers, State, Transaction, Values
from noisegate.privacy.accounting import MINIMUM_STD
from noisegate.privacy.events import Sampler, replace_gaussian
from noisegate.privacy.grid import RECORD_LIMIT
from noisegate.privacy.plan import NoisySum, Plan

# The noise of a share is a little wider than computed, as a margin for rounding.
_MARGIN = 1 + 1e-12


def open_share(gate_session: Session, masking: Masking) -> Session:
    """Opens a session that answers the queries of one plan with masked shares.

    Args:
        gate_session: A session that `Gate.open` returned and that has answered nothing.
            The new one takes its place and its access to the records.
        masking: The masks of this silo in the sum.

    Raises:
        CalibrationError: if the noise of one share would be too small for the proof.
    """
    transaction = Transaction(gate_session.hand_over())
    answers = MaskedShares(masking, transaction.plan)
    return Session(transaction, answers=answers)


class MaskedShares:
    """Answers with masked shares (G-32); see `Answers`.

    A share is the sum of this silo's records, plus part of the noise, plus a mask that
    only the shares of all silos together cancel. Nothing else is released.

    Args:
        masking: The masks of this silo in the sum.
        plan: The plan, with the noise of the sum over all silos.

    Raises:
        CalibrationError: if the noise of one share would be too small for the proof.
    """

    may_be_empty = False

    def __init__(self, masking: Masking, plan: Plan) -> None:
        self._masking = masking
        # The noise of the silos that do not collude must add up to the planned noise.
        # If there are n of them, each draws noise of its standard deviation divided by
        # √n.
        honest_count = masking.sum.honest_count
        self._std_divisor = math.sqrt(honest_count)
        smallest_std = min(release.noise_std for release in plan.releases)
        if smallest_std < MINIMUM_STD * self._std_divisor:
            raise CalibrationError(
                f"the noise of {honest_count} silos, in shares, would be below "
                f"{MINIMUM_STD:g} grid units each, where nothing is proved; ask for a "
                "smaller epsilon."
            )

    def check_record_count(self, record_count: int, source_name: str) -> None:
        """Checks the number of records of a pass for the sum over all silos.

        Args:
            record_count: How many records the pass has read; private.
            source_name: What messages call the records.

        Raises:
            DataError: if there are too many.
        """
        # With so few, the sum of all silos and its noise stay below 2⁶³ in magnitude.
        max_records = RECORD_LIMIT // len(self._masking.sum.keys)
        if record_count > max_records:
            raise DataError(
                f"{source_name}: too many records for a sum of several silos in 64 "
                "bits."
            )

    def answer(
        self, transaction: Transaction, sums: Integers, release: NoisySum
    ) -> Values:
        """Adds this silo's part of the noise and its mask to the exact sum of a query.

        The masks are marked as used before the reservation is confirmed: if the process
        dies in between, they are lost, and nothing has left under them. In the other
        order, a second run could use the same masks again.

        Args:
            transaction: Pays for the noise, and draws it.
            sums: Exact sum over this silo's records in grid units, (columns, dim);
                private.
            release: The planned query, with the noise of the sum over all silos.

        Returns:
            The masked share as a release stores it: the high 32 bits of each word above
            the low ones, (2·dim, columns), see `keys.halves_of_words`.
        """
        if transaction.state is not State.CONFIRMED:
            self._masking.mark_used()
        share_std = release.noise_std / self._std_divisor * _MARGIN
        share_event = replace_gaussian(
            release.event, noise_std=share_std, sampler=Sampler.DISCRETE_GAUSSIAN
        )
        noisy_sums = transaction.add_noise(sums, share_event)
        # As words, integers modulo 2⁶⁴: a negative sum becomes a word from 2⁶³ on.
        words = np.ascontiguousarray(noisy_sums.T).view(np.uint64)
        mask = self._masking.mask(release.query.name, words.size)
        return halves_of_words(words + mask.reshape(words.shape))

    def noise_std(self, release: NoisySum) -> float:
        """Returns the standard deviation of this silo's part of the noise."""
        return release.noise_std_natural / self._std_divisor

    def released(
        self, plan: Plan, values: dict[str, Values], noise_std: dict[str, float]
    ) -> tuple[dict[str, Values], dict[str, float]]:
        """Returns the shares as they are, with the noise in them."""
        return values, noise_std
