"""One period of a stream: sums of its records, less part of the noise of earlier ones.

A stream releases totals of all periods so far, or of a window of the last ones. If each
period got noise of its own, the noise of a total would grow with the number of periods.
So a period takes part of the noise of earlier ones back, with weights that are rows of
a Toeplitz matrix (G-34)::

    period 3:  exact sums − Σ weights · noise of periods 2, 1 + fresh noise ──► state
                                                                                 │
    release:   noisy sums of periods 1 to 3, added up ◄──────────────────────────╯

How to read it: `StreamReservation` is the one entry of the ledger for all periods,
`_PeriodEngine` sums a period's records, and `StreamSession._answer` is what is drawn
above.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisegate.errors import DataError, ModelError, OptionError
from noisegate.gate.session import Integers, Reservation, State, Values
from noisegate.gate.sessions.sums import SumSession
from noisegate.gate.streams.state import PeriodSums, StreamState
from noisegate.gate.sums import Engine, Progress, SumTask, Totals
from noisegate.ledger.ledger import Entry, Kind
from noisegate.privacy.accounting import noise_coefficients
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.continual_plan import ContinualRelease
from noisegate.privacy.events import TOEPLITZ
from noisegate.privacy.grid import RECORD_LIMIT
from noisegate.privacy.plan import PlannedRelease, PricedPlan
from noisegate.privacy.release import Release
from noisegate.privacy.silos import PERIOD_PREFIX, Stream
from noisegate.sources.tables.tables import Source

DECISIONS_KEY = "fixed"
"""Where a certificate lists what the first period has decided for all."""

# Of queries with more numbers than this, a release has no sums of single periods: they
# would make it as large as all releases before it together.
_MAX_SHOWN_NUMBERS = 2000
# Records of a period, a quarter of those that one sum may have: so few that sums of
# many periods, with noise taken back, stay far from the end of 64 bits.
_MAX_RECORDS = RECORD_LIMIT // 4


class StreamReservation(Reservation):
    """The one entry in the ledger for all periods of a stream.

    It is reserved before the first period, and open until the last.

    Args:
        reservation: That of the gate, which has reserved nothing yet.
        state: The folder of the stream, which remembers the reservation.
        period_count: How many periods the stream has.
        is_last_period: Whether this is the last one.
    """

    def __init__(
        self,
        reservation: Reservation,
        state: StreamState,
        period_count: int,
        *,
        is_last_period: bool,
    ) -> None:
        super().__init__(reservation.ledger, reservation.dataset or None)
        self._state = state
        self._period_count = period_count
        self._is_last_period = is_last_period
        # What the ledger had recorded of the reservation when this period took it up;
        # empty where this period has reserved.
        self._recorded_kinds: set[Kind] = set()

    def reserve(self, plan: PricedPlan, method: str) -> None:
        """Reserves the cost of all periods, or takes up what the first has reserved.

        The ledger has, of the reservation that the folder remembers::

            nothing, or no folder entry   reserve, and write it to the folder
            void                          the same: no noise was drawn on it
            another plan                  refuse
            this plan, open or committed  take it up, at no cost

        The ledger reserves before the folder remembers it. If the process dies in
        between, the next run reserves anew, and somebody may give the first reservation
        back by hand: no noise was drawn on it.
        `test_a_stream_is_one_entry_of_the_ledger` watches over this.

        Args:
            plan: The plan of the stream, whose events are of all periods.
            method: Name of the method.

        Raises:
            BudgetRefusedError: if the ledger refuses.
            OptionError: if the reservation is of another plan.
        """
        reservation_id = self._state.ledger_entry.get("reservation")
        entries: list[Entry] = []
        if self.ledger and reservation_id:
            entries = self._entries(self.ledger, reservation_id)
        recorded_kinds = {entry.kind for entry in entries}

        if not recorded_kinds or Kind.VOID in recorded_kinds:
            self._recorded_kinds = set()
            super().reserve(plan, f"{method}, {self._period_count} periods")
            if self.ledger is not None:
                path = None if self.ledger.path is None else str(self.ledger.path)
                self._state.write_ledger_entry(
                    reservation=self._id, dataset=self.dataset, ledger=path
                )
            return
        if entries[0].events != tuple(plan.events):
            raise OptionError(
                f"stream: the reservation {reservation_id} in the ledger is of another "
                "plan."
            )
        self._recorded_kinds = recorded_kinds
        self._id = reservation_id
        self._resumed_id = reservation_id

    def confirm(self) -> None:
        """Makes sure that the reservation stands for good.

        One that was committed, with the last period, does: a last period that is
        answered again confirms nothing.
        """
        if Kind.COMMIT not in self._recorded_kinds:
            super().confirm()

    def commit(self, certificate: Certificate) -> None:
        """Closes the reservation with the last period; before, it stays open.

        A last period that is answered again has committed already.
        """
        if self._is_last_period and Kind.COMMIT not in self._recorded_kinds:
            super().commit(certificate)


@dataclass(frozen=True)
class _PeriodEngine(Engine):
    """Sums the records of a period, less those that are withdrawn.

    Attributes:
        records_engine: The engine that sums each of the two sources.
        state: The folder of the stream.
        period: Number of the period, from 1.
        withdrawn_source: Records of earlier periods that leave the stream with this
            one, as somebody has asked for or corrected; None for none.
    """

    records_engine: Engine
    state: StreamState
    period: int
    withdrawn_source: Source[Any] | None

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Sums the records, and compares the sums with those of earlier periods.

        Args:
            source: The records of the period.
            tasks: The questions, by name.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals, less what is withdrawn; private. Their number of records
            is that of the period's own.

        Raises:
            DataError: if there are too many records for 64 bits.
            OptionError: if an earlier period had these records, or this one had others.
        """
        totals = self.records_engine.sum(source, tasks, progress)
        record_count = totals.records
        if self.withdrawn_source is not None:
            withdrawn_totals = self.records_engine.sum(
                self.withdrawn_source, tasks, None
            )
            record_count += withdrawn_totals.records
            for name, sums in withdrawn_totals.sums.items():
                totals.sums[name] -= sums
        if record_count > _MAX_RECORDS:
            raise DataError(
                f"{source.name}: too many records for one period of a stream in 64 "
                "bits."
            )
        self.state.check_records_are_new(
            self.period, totals.sums, has_records=record_count > 0
        )
        return totals


class StreamSession(SumSession):
    """Answers the questions of one period with totals of the stream.

    It takes the place of a session of a gate that was asked nothing yet. An answer that
    was given before is given again, whatever stopped the run in between.

    Args:
        gate_session: The session of the gate, which hands its access over.
        state: The folder of the stream, opened for its plan.
        progress: Which period of how many this is; the certificate states it.
        withdrawn_source: Records that leave the stream with this period; None for none.
    """

    def __init__(
        self,
        gate_session: SumSession,
        state: StreamState,
        progress: Stream,
        withdrawn_source: Source[Any] | None,
    ) -> None:
        access = gate_session.hand_over()
        is_last_period = progress.period == progress.periods
        reservation = StreamReservation(
            access.reservation, state, progress.periods, is_last_period=is_last_period
        )
        # Without a ledger, a stream counts as one run: that of its first period.
        unbooked_run = access.unbooked_run if progress.period == 1 else None
        super().__init__(
            replace(access, reservation=reservation, unbooked_run=unbooked_run)
        )
        self._state = state
        self._period = progress.period
        self._window = progress.window
        self._is_last_period = is_last_period
        self._withdrawn_source = withdrawn_source
        # A period may have no records, and may withdraw none.
        access.source.allow_no_records()
        if withdrawn_source is not None:
            withdrawn_source.allow_no_records()

    def _started_engine(self) -> Engine:
        """Returns the engine, which also takes withdrawn records off the sums."""
        return _PeriodEngine(
            super()._started_engine(), self._state, self._period, self._withdrawn_source
        )

    def _check_record_count(self, record_count: int, link: str | None = None) -> None:
        """Checks the number of records; a period may have none."""
        # As a link may have no rows, so may a period: any name of a link says so.
        super()._check_record_count(record_count, link or "period")

    def _answer(self, sums: Integers, release: PlannedRelease) -> Values:
        """Draws the noise of the period if it was not, and returns the noisy total.

        The reservation is confirmed before the noise is drawn, and the answer is on
        disk before it leaves. If the process dies after the drawing and before the
        writing, nobody has seen that noise, and the next run draws other noise. An
        answer on disk is given again.

        What a change must keep: noise that somebody saw is never drawn anew, and what
        is stored as `noise` is all of it, less what was taken back.
        `test_killed_at_any_stage_a_period_has_one_answer` and
        `test_every_release_is_the_exact_total_with_the_stated_noise` watch over this.

        Args:
            sums: Exact sums of the period in grid units, (columns, dim); private.
            release: What was planned for the question.

        Returns:
            The total of the stream so far, or of its window, (dim, columns), in the
            units of the vectors.
        """
        assert isinstance(release, ContinualRelease)
        name = release.query.name
        if self._state.read_answer(self._period, name) is None:
            weights = release.horizon.weights
            earlier_noise = self._earlier_noise(name, len(weights) - 1)
            corrected_sums = sums - noise_to_take_back(weights, earlier_noise)
            noisy_sums = self._add_noise(corrected_sums, release.event)
            answer = PeriodSums(
                noisy=noisy_sums,
                # Fresh noise less what was taken back: all that is in the noisy sums,
                # as later periods take part of the whole back.
                noise=noisy_sums - sums,
                seal=self._state.seal_of(name, sums),
            )
            self._state.write_answer(self._period, name, answer)
        elif self.state is State.RESERVED:
            # The session confirms as if it drew noise: it hands out what has noise.
            self._confirm()

        # From disk in either case, so that an answer that is given again is the same.
        if self._window is None:
            first_period = 1
        else:
            first_period = max(self._period - self._window + 1, 1)
        total = self._state.sum_answers(name, first_period, self._period)
        return _in_natural_units(total, release)

    def _earlier_noise(self, name: str, max_periods: int) -> Iterator[Integers]:
        """Yields the noise of a query in earlier periods, the latest first.

        Args:
            name: Name of the query.
            max_periods: How many earlier periods at most; the first ones of a stream
                have fewer before them.

        Yields:
            The noise of a period in grid units, (columns, dim).

        Raises:
            ModelError: if the noise is missing.
        """
        first_period = max(self._period - max_periods, 1)
        for period in range(self._period - 1, first_period - 1, -1):
            answer = self._state.read_answer(period, name)
            if answer is None or answer.noise is None:
                raise ModelError(
                    f"the stream lacks the noise of period {period}; restore it from a "
                    "backup."
                )
            yield answer.noise

    def release_period(self, decisions: Mapping[str, Any]) -> Release:
        """Releases the totals, and erases what no later period needs.

        If the process dies before the erasing is complete, nothing is lost: the period
        may be answered again, with the same release, and the next one erases first. A
        second call on the same session is refused, as `release` is.

        Args:
            decisions: What the first period has decided for all, such as the bins of
                its columns; JSON can express it. The certificate lists it as public,
                and later periods read it there.

        Raises:
            OptionError: if a question is open, the release was handed out before, or
                the folder of the stream cannot be written.
        """
        if decisions:
            # As they are when the certificate is read back: tuples become lists.
            self._add_public_facts({DECISIONS_KEY: json.loads(json.dumps(decisions))})
        release = self.release()
        # Only now: a release that fails can be had by answering the period again.
        if self._is_last_period:
            self._state.erase_all_secrets()
            return release
        # All queries of a stream have the same horizon. The next period takes back the
        # noise of the `band` - 1 periods before it, this one and band - 2 more. For
        # example, with a band of 4, period 8 takes back that of 7, 6 and 5, so after
        # period 7 that of 1 to 4 is erased.
        horizon = self.plan.releases[0].horizon
        self._state.erase_secrets_until(self._period + 1 - horizon.band)
        return release

    def _release(
        self, values: Mapping[str, Values], noise_std: Mapping[str, float]
    ) -> Release:
        """Releases the totals, with the noisy sums of each period of small queries.

        Args:
            values: Totals by query, (dim, columns), in natural units.
            noise_std: Standard deviation of the noise of each, in the same units.
        """
        all_values = dict(values)
        all_stds = dict(noise_std)
        for release in self.plan.releases:
            name = release.query.name
            if values[name].size > _MAX_SHOWN_NUMBERS:
                continue
            period_sums = [
                _in_natural_units(
                    self._state.sum_answers(name, period, period), release
                ).reshape(-1)
                for period in range(1, self._period + 1)
            ]
            # (numbers, periods)
            all_values[PERIOD_PREFIX + name] = np.ascontiguousarray(
                np.stack(period_sums, axis=1)
            )
            # The noise of this period is fresh noise of all periods so far, each with
            # a factor; independent noises add up by their squares. That of an earlier
            # period has fewer summands, so this is the largest of them.
            std_factor = math.hypot(
                *noise_coefficients(release.horizon.weights, self._period)
            )
            fresh_std = release.noise_std / release.query.grid.scale
            all_stds[PERIOD_PREFIX + name] = fresh_std * std_factor
        return super()._release(all_values, all_stds)


def noise_to_take_back(
    weights: Sequence[int], earlier_noise: Iterable[Integers]
) -> Integers:
    """Computes what a period takes back of the noise of earlier ones.

    Args:
        weights: A row of the Toeplitz matrix, in units of 1 / `TOEPLITZ`: of the period
            itself, and of those before it, the latest first.
        earlier_noise: Noise of earlier periods in grid units, the latest first; of
            fewer periods than there are weights at the beginning of a stream.

    Returns:
        Σ weight · noise / `TOEPLITZ`, rounded to integer grid units, halves upwards.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.streams.session import noise_to_take_back
        >>> # 128 · 3 / 256 = 1.5, and −1.5; the second weight has no period yet
        >>> noise_to_take_back((256, 128, 64), [np.array([3, -3])]).tolist()
        [2, -1]
    """
    weighted_noise = (
        weight * noise
        for weight, noise in zip(weights[1:], earlier_noise, strict=False)
    )
    total = sum(weighted_noise, np.int64(0))  # 0 of the first period
    # Half of the divisor is added, so that the division, which rounds down, rounds to
    # the nearest integer. The stated sensitivity takes this rounding into account, as
    # `test_the_stated_sensitivity_is_that_of_the_rounded_matrix_and_of_rounded_noise`
    # checks.
    return np.asarray((total + TOEPLITZ // 2) // TOEPLITZ)


def _in_natural_units(sums: Integers, release: PlannedRelease) -> Values:
    """Returns sums in grid units, (columns, dim), in natural ones, (dim, columns)."""
    return np.ascontiguousarray(release.query.grid.restore(sums).T)
