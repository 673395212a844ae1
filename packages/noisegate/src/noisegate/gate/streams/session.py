"""One period of a stream: sums of its records, less part of the noise of earlier ones.

A stream releases totals of all periods so far, or of a window of the last ones. If each
period got noise of its own, the noise of a total would grow with the number of periods.
So a period takes part of the noise of earlier ones back, with weights that are rows of
a Toeplitz matrix (G-34)::

    period 3:  exact sums − Σ weights · noise of periods 2, 1 + fresh noise ──► state
                                                                                 │
    release:   noisy sums of periods 1 to 3, added up ◄──────────────────────────╯

How to read it: `StreamReservation` is the one entry of the ledger for all periods,
`_Periodic` sums a period's records, and `StreamSession._answer` is what is drawn above.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisegate.errors import DataError, ModelError, OptionError
from noisegate.gate.session import Access, Integers, Reservation, State, Values
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

# Of queries with more numbers than this, a release has no sums of single periods: they
# would make it as large as all releases before it together.
_MAX_SHOWN_NUMBERS = 2000
# Records of a period: so few that sums of many periods, with noise taken back, stay far
# from the end of 64 bits.
_MAX_RECORDS = RECORD_LIMIT // 4


class StreamReservation(Reservation):
    """The one entry in the ledger for all periods of a stream.

    It is reserved before the first period, and open until the last.

    Args:
        access: What the gate grants, with the ledger and the data set.
        state: The folder of the stream, which remembers the reservation.
        periods: How many periods the stream has.
        last: Whether this is the last one.
    """

    def __init__(
        self, access: Access, state: StreamState, periods: int, *, last: bool
    ) -> None:
        super().__init__(access.reservation.ledger, access.reservation.dataset or None)
        self._state = state
        self._periods = periods
        self._last = last
        # What the ledger has recorded of the reservation.
        self._kinds: set[Kind] = set()

    def reserve(self, plan: PricedPlan, method: str) -> None:
        """Reserves the cost of all periods, or takes up what the first has reserved.

        Args:
            plan: The plan of the stream, whose events are of all periods.
            method: Name of the method.

        Raises:
            BudgetRefusedError: if the ledger refuses.
            OptionError: if the reservation is of another plan.
        """
        reservation_id = self._state.booked.get("reservation")
        entries: list[Entry] = []
        if self.ledger:
            entries = [
                entry
                for entry in self.ledger.history(self.dataset)
                if entry.reservation == reservation_id
            ]
        if reservation_id:
            self._kinds = {entry.kind for entry in entries}
        else:
            self._kinds = set()

        if not self._kinds or Kind.VOID in self._kinds:
            self._kinds = set()
            super().reserve(plan, f"{method}, {self._periods} periods")
            if self.ledger is not None:
                path = None if self.ledger.path is None else str(self.ledger.path)
                self._state.book(
                    reservation=self._id, dataset=self.dataset, ledger=path
                )
            return
        if entries[0].events != tuple(plan.events):
            raise OptionError(
                f"stream: the reservation {reservation_id} in the ledger is of another "
                "plan."
            )
        self._id = reservation_id
        self._resumed_id = reservation_id

    def confirm(self) -> None:
        """Makes sure that the reservation stands for good.

        One that was committed, with the last period, does.
        """
        if Kind.COMMIT not in self._kinds:
            super().confirm()

    def commit(self, certificate: Certificate) -> None:
        """Closes the reservation with the last period; before, it stays open."""
        if self._last and Kind.COMMIT not in self._kinds:
            super().commit(certificate)


@dataclass(frozen=True)
class _Periodic(Engine):
    """Sums the records of a period, less those that are withdrawn.

    Attributes:
        inner: The engine that sums.
        state: The folder of the stream.
        period: Number of the period, from 1.
        withdrawn: Source of records of earlier periods that are taken back; None for
            none.
    """

    inner: Engine
    state: StreamState
    period: int
    withdrawn: Any

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Sums the records, and compares the sums with those of earlier periods.

        Args:
            source: The records of the period.
            tasks: The questions, by name.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals; private.

        Raises:
            DataError: if there are too many records for 64 bits.
            OptionError: if an earlier period had these records, or this one had others.
        """
        totals = self.inner.sum(source, tasks, progress)
        record_count = totals.records
        if self.withdrawn is not None:
            withdrawn_totals = self.inner.sum(self.withdrawn, tasks, None)
            record_count += withdrawn_totals.records
            for name, sums in withdrawn_totals.sums.items():
                totals.sums[name] -= sums
        if record_count > _MAX_RECORDS:
            raise DataError(
                f"{source.name}: too many records for one period of a stream in 64 "
                "bits."
            )
        self.state.check_new(self.period, totals.sums, empty=not record_count)
        return totals


class StreamSession(SumSession):
    """Answers the questions of one period with totals of the stream.

    It takes the place of a session of a gate that was asked nothing yet. An answer that
    was given before is given again, whatever stopped the run in between.

    Args:
        session: The session of the gate.
        state: The folder of the stream.
        facts: How far the stream has come.
        withdrawn: Source of records that are taken back; None for none.
    """

    def __init__(
        self, session: SumSession, state: StreamState, facts: Stream, withdrawn: Any
    ) -> None:
        access = session._access
        reservation = StreamReservation(
            access, state, facts.periods, last=facts.period == facts.periods
        )
        # Without a ledger, a stream counts as one run: that of its first period.
        unbooked = access.unbooked if facts.period == 1 else None
        super().__init__(replace(access, reservation=reservation, unbooked=unbooked))
        self._state = state
        self._facts = facts
        self._withdrawn = withdrawn
        for source in (access.source, withdrawn):
            if source is not None:
                # A period may have no records.
                source.allow_no_records()

    def _started_engine(self) -> Engine:
        """Returns the engine, which also takes withdrawn records off the sums."""
        return _Periodic(
            super()._started_engine(), self._state, self._facts.period, self._withdrawn
        )

    def _check_records(self, record_count: int, link: str | None = None) -> None:
        """Checks the number of records; a period may have none."""
        # As a link may have no rows, so may a period.
        super()._check_records(record_count, link or "period")

    def _answer(self, sums: Integers, release: PlannedRelease) -> Values:
        """Draws the noise of the period if it was not, and returns the noisy total.

        Args:
            sums: Exact sums of the period in grid units, (columns, dim); private.
            release: What was planned for the question.

        Returns:
            The total of the stream so far, or of its window, (dim, columns), in the
            units of the vectors.
        """
        assert isinstance(release, ContinualRelease)
        name = release.query.name
        period = self._facts.period
        if self._state.read(period, name) is None:
            weights = release.horizon.weights
            before = self._noise_before(name, len(weights))
            noisy = self._add_noise(sums - taken_back(weights, before), release.event)
            answer = PeriodSums(
                noisy=noisy, noise=noisy - sums, seal=self._state.seal(name, sums)
            )
            # On disk before it leaves: the noise of a period is drawn once.
            self._state.write(period, name, answer)
        elif self.state is State.RESERVED:
            self._confirm()

        if self._facts.window is None:
            first_period = 1
        else:
            first_period = max(period - self._facts.window + 1, 1)
        return _natural(self._state.total(name, first_period, period), release)

    def _noise_before(self, name: str, periods: int) -> Iterator[Integers]:
        """Yields the noise of a query in earlier periods, the latest first.

        Args:
            name: Name of the query.
            periods: How many weights there are: this period's and those before it.

        Raises:
            ModelError: if the noise is missing.
        """
        first_period = max(self._facts.period - periods, 0) + 1
        for period in range(self._facts.period - 1, first_period - 1, -1):
            answer = self._state.read(period, name)
            if answer is None or answer.noise is None:
                raise ModelError(
                    f"the stream lacks the noise of period {period}; restore it from a "
                    "backup."
                )
            yield answer.noise

    def close(self, decisions: Mapping[str, Any]) -> Release:
        """Releases the totals, and erases what no later period needs.

        Args:
            decisions: What the first period has decided for all, for the certificate;
                JSON can express it.
        """
        public = dict(self._access.public)
        if decisions:
            # As they are when the certificate is read back.
            public["fixed"] = json.loads(json.dumps(decisions))
        self._access = replace(self._access, public=public)
        release = self.release()
        if self._facts.period == self._facts.periods:
            self._state.end()
        else:
            band = self.plan.releases[0].horizon.band
            self._state.forget(self._facts.period + 1 - band)
        return release

    def _release(
        self, values: Mapping[str, Values], noise_std: Mapping[str, float]
    ) -> Release:
        """Releases the totals, with the sums of each period of small queries."""
        period = self._facts.period
        all_values = dict(values)
        all_stds = dict(noise_std)
        for release in self.plan.releases:
            name = release.query.name
            if values[name].size > _MAX_SHOWN_NUMBERS:
                continue
            period_sums = [
                _natural(self._state.total(name, number, number), release).reshape(-1)
                for number in range(1, period + 1)
            ]
            # (numbers, periods)
            all_values[PERIOD_PREFIX + name] = np.ascontiguousarray(
                np.stack(period_sums, axis=1)
            )
            # By how much larger the noise of a period is that takes others' back.
            factor = math.hypot(*noise_coefficients(release.horizon.weights, period))
            all_stds[PERIOD_PREFIX + name] = (
                release.noise_std / release.query.grid.scale * factor
            )
        return super()._release(all_values, all_stds)


def taken_back(weights: Sequence[int], before: Iterable[Integers]) -> Integers:
    """Returns what a period takes back of the noise of earlier ones.

    Args:
        weights: A row of the Toeplitz matrix, in units of 1 / `TOEPLITZ`: of the period
            itself, and of those before it, the latest first.
        before: Noise of earlier periods in grid units, the latest first.

    Returns:
        Σ weight · noise, rounded to integer grid units, halves upwards.
    """
    weighted_noise = (
        weight * noise for weight, noise in zip(weights[1:], before, strict=False)
    )
    total = sum(weighted_noise, np.int64(0))
    return np.asarray((total + TOEPLITZ // 2) // TOEPLITZ)


def _natural(sums: Integers, release: PlannedRelease) -> Values:
    """Returns sums in grid units, (columns, dim), in natural ones, (dim, columns)."""
    return np.ascontiguousarray(release.query.grid.restore(sums).T)
