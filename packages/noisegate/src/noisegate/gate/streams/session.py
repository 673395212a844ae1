"""One period of a stream: sums of its records, less part of the noise of earlier ones.

A stream gets new records period by period, such as month by month. After each period it
releases totals over all periods so far, or over a window of the last ones. If each
period got noise of its own, the noise of a total would grow with the number of periods.
So a period takes part of the noise of earlier ones back: it subtracts them, multiplied
by weights that are a row of a Toeplitz matrix (G-34)::

    period 3:  exact sums − Σ weights · noise of periods 2, 1 + fresh noise ──► state
                                                                                 │
    release:   noisy sums of periods 1 to 3, added up ◄──────────────────────────╯

How to read it: `StreamReservation` is the one entry of the ledger for all periods,
`_PeriodRounds` sums a period's records, and `StreamTotals.answer` is what is drawn
above.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from noisegate.errors import DataError, ModelError, OptionError
from noisegate.gate.samples import StepTask
from noisegate.gate.session import Session, in_natural_units
from noisegate.gate.streams.state import PeriodSums, StreamState
from noisegate.gate.sums import OpenEngine, Progress, RunEngine, SumTask, Totals
from noisegate.gate.transaction import (
    Answering,
    Integers,
    Reservation,
    SingleUse,
    State,
    Transaction,
    Values,
)
from noisegate.ledger.ledger import Entry, Kind
from noisegate.privacy.accounting import noise_coefficients
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import TOEPLITZ
from noisegate.privacy.grid import RECORD_LIMIT
from noisegate.privacy.plan import NoisySum, Plan
from noisegate.privacy.release import Release
from noisegate.privacy.silos import PERIOD_PREFIX, Stream
from noisegate.queries.feature_map import FeatureMap
from noisegate.sources.tables.tables import Source

DECISIONS_KEY = "fixed"
"""Key of a certificate under which it lists what the first period decided for all."""

# A release has the sums of each single period only for queries with at most so many
# numbers. Of larger ones they would make it as large as all earlier releases together.
_MAX_SHOWN_NUMBERS = 2000
# Largest number of records in a period: a quarter of those that one sum may have, so
# that sums of many periods, with noise taken back, stay far below 2⁶³.
_MAX_RECORDS = RECORD_LIMIT // 4


class StreamReservation(SingleUse):
    """The one reservation in the ledger that pays for all periods of a stream.

    It is reserved before the first period, and committed with the last one.

    Args:
        reservation: The reservation of the gate, which has reserved nothing yet.
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
        self._reservation = reservation
        self._state = state
        self._period_count = period_count
        self._is_last_period = is_last_period
        # Kinds of the entries that the ledger had of the reservation when this period
        # began; empty if this period has reserved.
        self._recorded_kinds: set[Kind] = set()

    @property
    def ledger_reference(self) -> Mapping[str, str] | None:
        """Data set and id of the reservation, for the certificate; None without one."""
        return self._reservation.ledger_reference

    def reserve(self, plan: Plan, method: str) -> None:
        """Reserves the cost of all periods, or continues with an earlier reservation.

        The folder of the stream remembers the reservation. Its entries in the ledger
        decide::

            entries in the ledger         what is done
            none, or none remembered      reserve, and write it to the folder
            void                          the same: no noise was drawn on it
            of another plan               refuse
            of this plan, open or closed  continue with it, at no cost

        The ledger reserves before the folder remembers it. If the process dies in
        between, the next run reserves again. The first reservation can then be voided
        by hand, as no noise was drawn on it. `test_a_stream_is_one_entry_of_the_ledger`
        notices if a stream pays twice.

        Args:
            plan: The plan of the stream, whose events are of all periods.
            method: Name of the method.

        Raises:
            BudgetRefusedError: if the ledger refuses.
            OptionError: if the reservation is of another plan.
        """
        reservation = self._reservation
        ledger = reservation.ledger
        reservation_id = self._state.ledger_entry.get("reservation")
        entries: list[Entry] = []
        if ledger and reservation_id:
            entries = reservation.entries(ledger, reservation_id)
        recorded_kinds = {entry.kind for entry in entries}

        if not recorded_kinds or Kind.VOID in recorded_kinds:
            self._recorded_kinds = set()
            reservation.reserve(plan, f"{method}, {self._period_count} periods")
            if ledger is not None:
                path = None if ledger.path is None else str(ledger.path)
                reference = reservation.ledger_reference or {}
                self._state.write_ledger_entry(
                    reservation=reference.get("reservation"),
                    dataset=reservation.dataset,
                    ledger=path,
                )
            return
        if entries[0].events != tuple(plan.events):
            raise OptionError(
                f"stream: the reservation {reservation_id} in the ledger is of another "
                "plan."
            )
        assert reservation_id is not None
        self._recorded_kinds = recorded_kinds
        reservation.continue_with(reservation_id)

    def void(self, error: BaseException) -> bool:
        """Gives back the cost of a stream that drew no noise; see `Reservation.void`.

        A period that continues with the reservation of earlier ones gives nothing back.
        """
        return self._reservation.void(error)

    def confirm(self) -> None:
        """Makes the reservation final in the ledger, just before noise is drawn.

        If the last period is answered again, the reservation is committed already, and
        nothing is confirmed.
        """
        if Kind.COMMIT not in self._recorded_kinds:
            self._reservation.confirm()

    def commit(self, certificate: Certificate) -> None:
        """Closes the reservation with the last period of the stream.

        After any other period it stays open. If the last period is answered again, it
        is closed already.

        Args:
            certificate: The certificate of the release of this period.
        """
        if self._is_last_period and Kind.COMMIT not in self._recorded_kinds:
            self._reservation.commit(certificate)


@dataclass(frozen=True)
class _PeriodEngine:
    """Opens an engine for the rounds of a period; a `RunEngine`.

    Attributes:
        engine: The engine that sums the records of each source.
        state: The folder of the stream.
        period: Number of the period, from 1.
        withdrawn_source: Records of earlier periods that leave the stream with this
            period, since they are to be deleted or were corrected; None for none.
    """

    one_core: ClassVar[bool] = False

    engine: RunEngine
    state: StreamState
    period: int
    withdrawn_source: Source[Any] | None

    @contextmanager
    def opened(self) -> Iterator[_PeriodRounds]:
        """Opens the engine that sums the records of each source."""
        with self.engine.opened() as rounds:
            yield _PeriodRounds(self, rounds)


@dataclass(frozen=True)
class _PeriodRounds:
    """Sums the records of a period, less those withdrawn; an `OpenEngine`.

    Attributes:
        period_engine: What it was opened from.
        rounds: Sums the records of each source.
    """

    period_engine: _PeriodEngine
    rounds: OpenEngine

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Sums the records of the period, less those that are withdrawn.

        Also checks that they are no records of an earlier period, by their sums.

        Args:
            source: The records of the period.
            tasks: The sum to take for each query, by name of the query.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals, less the withdrawn records; private. Their number of
            records does not count the withdrawn ones.

        Raises:
            DataError: if there are too many records for 64 bits.
            OptionError: if an earlier period had these records, or this period was
                answered with others.
        """
        engine = self.period_engine
        totals = self.rounds.sum(source, tasks, progress)
        record_count = totals.records
        if engine.withdrawn_source is not None:
            withdrawn_totals = self.rounds.sum(engine.withdrawn_source, tasks, None)
            record_count += withdrawn_totals.records
            for name, sums in withdrawn_totals.sums.items():
                totals.sums[name] -= sums
        if record_count > _MAX_RECORDS:
            raise DataError(
                f"{source.name}: too many records for one period of a stream in 64 "
                "bits."
            )
        engine.state.check_records_are_new(
            engine.period, totals.sums, has_records=record_count > 0
        )
        return totals

    def hold(self, source: Any, task: StepTask, progress: Progress | None) -> Any:
        """Reads all records into memory; a stream has no steps that use it."""
        return self.rounds.hold(source, task, progress)


class StreamSession(Answering):
    """Answers the queries of one period with totals of the stream so far.

    Use it in a ``with`` block. If the run is interrupted and the period answered again,
    each query has the same answer as before, without further noise.

    Args:
        gate_session: A session that `Gate.open` returned and that has answered nothing.
            This session takes its place and its access to the records.
        state: The folder of the stream, opened for its plan.
        progress: Which period of how many this is, and the window; the certificate
            states it.
        withdrawn_source: Records that leave the stream with this period; None for none.
    """

    def __init__(
        self,
        gate_session: Session,
        state: StreamState,
        progress: Stream,
        withdrawn_source: Source[Any] | None,
    ) -> None:
        access = gate_session.hand_over()
        assert isinstance(access.reservation, Reservation)
        self._state = state
        self._period = progress.period
        self._is_last_period = progress.period == progress.periods
        reservation = StreamReservation(
            access.reservation,
            state,
            progress.periods,
            is_last_period=self._is_last_period,
        )
        assert access.engine is not None
        engine = _PeriodEngine(access.engine, state, progress.period, withdrawn_source)
        # Without a ledger, a stream counts as one run: that of its first period.
        unbooked_run = access.unbooked_run if progress.period == 1 else None
        transaction = Transaction(
            replace(
                access,
                reservation=reservation,
                engine=engine,
                unbooked_run=unbooked_run,
                # The folder of the stream has the answers.
                journal=None,
            )
        )
        super().__init__(transaction)
        self._session = Session(
            transaction,
            answers=StreamTotals(state, progress.period, progress.window),
        )
        # A period may have no records, and may withdraw none.
        access.source.allow_no_records()
        if withdrawn_source is not None:
            withdrawn_source.allow_no_records()

    def ask(self, maps: Mapping[str, FeatureMap]) -> dict[str, Values]:
        """Answers some of the plan's queries in one round; see `Session.ask`."""
        return self._session.ask(maps)

    def release_period(self, decisions: Mapping[str, Any]) -> Release:
        """Releases the totals of this period, and erases noise that is needed no more.

        The noise of a period is kept on disk as long as later periods take part of it
        back. If the process dies before the erasing is complete, nothing is lost: the
        period can be answered again, with the same release, and the next period erases
        first. A second call on the same session is refused.

        Args:
            decisions: What the first period decided for all periods, such as the bins
                of columns, by name; JSON can express it. The certificate lists it as
                public, and later periods read it there.

        Returns:
            The totals with their certificate, and for each small query an array
            (dim · columns, periods) of noisy sums by period.

        Raises:
            OptionError: if a query is not answered, the release was returned before,
                or the folder of the stream cannot be written.
        """
        if decisions:
            # In the form that they have when a certificate is read: tuples become
            # lists.
            fixed = json.loads(json.dumps(decisions))
            self._transaction.add_public_facts({DECISIONS_KEY: fixed})
        release = self._session.release()
        # Only now: if the release failed, the period could still be answered again.
        if self._is_last_period:
            self._state.erase_all_secrets()
            return release
        # All queries of a stream have the same horizon. The next period takes back the
        # noise of the `band` - 1 periods before it, this one and band - 2 more. For
        # example, with a band of 4, period 8 takes back that of 7, 6 and 5, so after
        # period 7 that of 1 to 4 is erased.
        horizon = self.plan.releases[0].horizon
        assert horizon is not None
        self._state.erase_secrets_until(self._period + 1 - horizon.band)
        return release


class StreamTotals:
    """Answers with the total of the stream after a period; see `Answers`.

    Args:
        state: The folder of the stream, opened for its plan.
        period: The period, from 1.
        window: How many of the last periods a total is over; None for all so far.
    """

    may_be_empty = True

    def __init__(self, state: StreamState, period: int, window: int | None) -> None:
        self._state = state
        self._period = period
        self._window = window

    def check_record_count(self, record_count: int, source_name: str) -> None:
        """Allows any number of records; `_PeriodRounds` has checked it."""

    def noise_std(self, release: NoisySum) -> float:
        """Returns the standard deviation of the noise on a total, in its units."""
        return release.noise_std_natural

    def answer(
        self, transaction: Transaction, sums: Integers, release: NoisySum
    ) -> Values:
        """Returns the noisy total of the stream, and draws this period's noise once.

        The noisy sums of the period are the exact sums, less part of the noise of
        earlier periods, plus fresh noise. They are on disk before the total leaves. If
        the process dies before they are, nobody has seen that noise, and the next run
        draws other noise; if they are on disk, no noise is drawn, and the total is the
        same again.

        What a change must keep: noise that somebody may have seen is not drawn again;
        the reservation is confirmed before noise is drawn; and the stored `noise` is
        all that is in the noisy sums, fresh noise less what was taken back.
        `test_killed_at_any_stage_a_period_has_one_answer` and
        `test_every_release_is_the_exact_total_with_the_stated_noise` notice.

        Args:
            transaction: Pays for the noise, and draws it.
            sums: Exact sums of the period in grid units, (columns, dim); private.
            release: The planned query, with its noise and its weights.

        Returns:
            The noisy total over all periods so far, or over the window of the last
            ones, (dim, columns), in the units of the vectors.
        """
        assert release.horizon is not None
        name = release.query.name
        if self._state.read_answer(self._period, name) is None:
            weights = release.horizon.weights
            earlier_noise = self._earlier_noise(name, len(weights) - 1)
            corrected_sums = sums - noise_to_take_back(weights, earlier_noise)
            noisy_sums = transaction.add_noise(corrected_sums, release.event)
            answer = PeriodSums(
                noisy=noisy_sums,
                # All noise in the noisy sums, as later periods take part of all of it
                # back: fresh noise less what was taken back here.
                noise=noisy_sums - sums,
                seal=self._state.seal_of(name, sums),
            )
            self._state.write_answer(self._period, name, answer)
        elif transaction.state is State.RESERVED:
            # Confirmed as if noise were drawn: what leaves has noise.
            transaction.confirm()

        # Read from disk in either case, so that a repeated answer is the same.
        if self._window is None:
            first_period = 1
        else:
            first_period = max(self._period - self._window + 1, 1)
        total = self._state.sum_answers(name, first_period, self._period)
        return in_natural_units(total, release)

    def _earlier_noise(self, name: str, max_periods: int) -> Iterator[Integers]:
        """Yields the noise in the sums of earlier periods, the latest period first.

        Args:
            name: Name of the query.
            max_periods: For how many earlier periods at most; near the beginning of a
                stream there are fewer.

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

    def released(
        self, plan: Plan, values: dict[str, Values], noise_std: dict[str, float]
    ) -> tuple[dict[str, Values], dict[str, float]]:
        """Returns the totals, and for small queries also the sums of each period.

        Args:
            plan: The plan of the stream.
            values: Noisy totals by query, (dim, columns), in the units of the vectors.
            noise_std: Standard deviation of the noise in each total, in the same units.

        Returns:
            The totals, and for each small query an array (dim · columns, periods) of
            noisy sums by period; with the noise in them.
        """
        all_values = dict(values)
        all_stds = dict(noise_std)
        for release in plan.releases:
            name = release.query.name
            if values[name].size > _MAX_SHOWN_NUMBERS:
                continue
            assert release.horizon is not None
            period_sums = [
                in_natural_units(
                    self._state.sum_answers(name, period, period), release
                ).reshape(-1)
                for period in range(1, self._period + 1)
            ]
            # (dim · columns, periods)
            all_values[PERIOD_PREFIX + name] = np.ascontiguousarray(
                np.stack(period_sums, axis=1)
            )
            # The noise in the sums of this period is a combination of the fresh noise
            # of all periods so far, each with a factor; independent noises add up by
            # their squares. The sums of an earlier period combine fewer of them. So
            # this is the largest standard deviation of the periods.
            std_factor = math.hypot(
                *noise_coefficients(release.horizon.weights, self._period)
            )
            fresh_std = release.noise_std / release.query.grid.scale
            all_stds[PERIOD_PREFIX + name] = fresh_std * std_factor
        return all_values, all_stds


def noise_to_take_back(
    weights: Sequence[int], earlier_noise: Iterable[Integers]
) -> Integers:
    """Computes the part of the noise of earlier periods that a period subtracts.

    Args:
        weights: A row of the Toeplitz matrix, in units of 1 / `TOEPLITZ`: the weight of
            the period itself, which is not used here, and those of the periods before
            it, the latest first.
        earlier_noise: Noise of earlier periods in grid units, the latest first. At the
            beginning of a stream there are fewer of them than weights.

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
    # the nearest integer. The stated sensitivity includes this rounding, as
    # `test_the_stated_sensitivity_is_that_of_the_rounded_matrix_and_of_rounded_noise`
    # checks.
    return np.asarray((total + TOEPLITZ // 2) // TOEPLITZ)
