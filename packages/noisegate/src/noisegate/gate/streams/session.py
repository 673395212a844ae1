"""One period of a stream: the gate's sums of its records, with fresh noise that takes earlier noise back (G-34)."""

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
from noisegate.ledger.ledger import Kind
from noisegate.privacy.accounting import noise_taken
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.continual_plan import ContinualRelease
from noisegate.privacy.events import TOEPLITZ
from noisegate.privacy.grid import RECORD_LIMIT
from noisegate.privacy.plan import PlannedRelease, PricedPlan
from noisegate.privacy.release import Release
from noisegate.privacy.silos import PERIOD_PREFIX, Stream

_MOST_TOLD = 2000  # queries with more numbers than this are not told by the period


class StreamReservation(Reservation):
    """One entry of the ledger for all periods: reserved before the first, and open until the last."""

    def __init__(
        self, access: Access, state: StreamState, periods: int, *, last: bool
    ) -> None:
        super().__init__(access.reservation.ledger, access.reservation.dataset or None)
        self._state, self._periods, self._last = state, periods, last
        self._kinds: set[Kind] = set()

    def reserve(self, plan: PricedPlan, method: str) -> None:
        """Reserves the cost of all periods, or finds what was reserved before the first."""
        number = self._state.booked.get("reservation")
        entries = (
            [
                one
                for one in self.ledger.history(self.dataset)
                if one.reservation == number
            ]
            if self.ledger
            else []
        )
        self._kinds = {entry.kind for entry in entries} if number else set()
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
                f"stream: the reservation {number} in the ledger is of another plan."
            )
        self._id = self._resumed_id = number

    def confirm(self) -> None:
        """Makes sure that the reservation stands for good; one that was closed does."""
        if Kind.COMMIT not in self._kinds:
            super().confirm()

    def commit(self, certificate: Certificate) -> None:
        """Closes the reservation with the last period."""
        if self._last and Kind.COMMIT not in self._kinds:
            super().commit(certificate)


@dataclass(frozen=True)
class _Periodic(Engine):
    """Sums the records of a period, less those that are withdrawn, and compares them with what came before."""

    inner: Engine
    state: StreamState
    period: int
    withdrawn: Any

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Returns the exact totals."""
        totals = self.inner.sum(source, tasks, progress)
        records = totals.records
        if self.withdrawn is not None:
            gone = self.inner.sum(self.withdrawn, tasks, None)
            records += gone.records
            for name, sums in gone.sums.items():
                totals.sums[name] -= sums
        if records > RECORD_LIMIT // 4:
            raise DataError(
                f"{source.name}: too many records for one period of a stream in 64 bits."
            )
        self.state.check_new(self.period, totals.sums, empty=not records)
        return totals


class StreamSession(SumSession):
    """Takes the place of a session of a gate that was asked nothing yet; its answers are totals of a stream.

    An answer that was given before is given again, whatever stopped the run in between.
    """

    def __init__(
        self, session: SumSession, state: StreamState, facts: Stream, withdrawn: Any
    ) -> None:
        access = session._access
        reservation = StreamReservation(
            access, state, facts.periods, last=facts.period == facts.periods
        )
        unbooked = access.unbooked if facts.period == 1 else None
        super().__init__(replace(access, reservation=reservation, unbooked=unbooked))
        self._state, self._facts, self._withdrawn = state, facts, withdrawn
        for source in (access.source, withdrawn):
            if source is not None:
                source._empty = ""  # a period may have no records

    def _started_engine(self) -> Engine:
        return _Periodic(
            super()._started_engine(), self._state, self._facts.period, self._withdrawn
        )

    def _check_records(self, seen: int, link: str | None = None) -> None:
        super()._check_records(seen, link or "period")  # which may be none

    def _answer(self, sums: Integers, release: PlannedRelease) -> Values:
        assert isinstance(release, ContinualRelease)
        name, period = release.query.name, self._facts.period
        if self._state.read(period, name) is None:
            weights = release.horizon.weights
            before = self._noise_before(name, len(weights))
            noisy = self._add_noise(sums - taken_back(weights, before), release.event)
            self._state.write(
                period,
                name,
                PeriodSums(noisy, noisy - sums, self._state.seal(name, sums)),
            )
        elif self.state is State.RESERVED:
            self._confirm()
        first = (
            1 if self._facts.window is None else max(period - self._facts.window + 1, 1)
        )
        return _natural(self._state.total(name, first, period), release)

    def _noise_before(self, name: str, periods: int) -> Iterator[Integers]:
        """Yields the noise in a query of so many periods before this one, the latest first."""
        for period in range(
            self._facts.period - 1, max(self._facts.period - periods, 0), -1
        ):
            held = self._state.read(period, name)
            if held is None or held.noise is None:
                raise ModelError(
                    f"the stream lacks the noise of period {period}; restore it from a backup."
                )
            yield held.noise

    def close(self, decisions: Mapping[str, Any]) -> Release:
        """Returns the release, with what was decided by the first period, and erases what has done its work."""
        told = {"fixed": json.loads(json.dumps(decisions))} if decisions else {}
        self._access = replace(self._access, public={**self._access.public, **told})
        found = self.release()
        if self._facts.period == self._facts.periods:
            self._state.end()
        else:
            self._state.forget(
                self._facts.period + 1 - self.plan.releases[0].horizon.band
            )
        return found

    def _release(
        self, values: Mapping[str, Values], noise_std: Mapping[str, float]
    ) -> Release:
        shown, stds, period = dict(values), dict(noise_std), self._facts.period
        for release in self.plan.releases:
            name = release.query.name
            if values[name].size <= _MOST_TOLD:
                each = [
                    _natural(self._state.total(name, at, at), release).reshape(-1)
                    for at in range(1, period + 1)
                ]
                shown[PERIOD_PREFIX + name] = np.ascontiguousarray(
                    np.stack(each, axis=1)
                )
                taken = math.hypot(*noise_taken(release.horizon.weights, period))
                stds[PERIOD_PREFIX + name] = (
                    release.noise_std / release.query.grid.scale * taken
                )
        return super()._release(shown, stds)


def taken_back(weights: Sequence[int], before: Iterable[Integers]) -> Integers:
    """Returns what a period takes back of the noise of those before it, the latest first, in whole grid units."""
    total = sum(
        (weight * noise for weight, noise in zip(weights[1:], before, strict=False)),
        np.int64(0),
    )
    return np.asarray((total + TOEPLITZ // 2) // TOEPLITZ)


def _natural(sums: Integers, release: PlannedRelease) -> Values:
    return np.ascontiguousarray(release.query.grid.restore(sums).T)
