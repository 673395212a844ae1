"""The plan of a stream: what every period asks, and the factor by which later noise takes earlier noise back (G-34).

And what the stream keeps between its periods, beside its plan, for the owner's eyes alone::

    registry.json        the plan, public
    registry.private/    plan                its identifier
                         key                 of the seals by which a period that is given twice is known
                         booked.json         the reservation in the ledger
                         0003.pairs.npz      noisy sums of a query in period 3, the noise in them, and a seal

The noise is there before the answer leaves: a run that was killed gives the same answer again, and no second one.
Whoever has the folder and the releases can compute the exact sums of the periods whose noise it still holds, and no
single record by itself; so it is kept like the records. Noise that no later period takes back is erased.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from noisegate.atomic import new_file, second_name, sync_folders
from noisegate.errors import DataError, ModelError, OptionError, said
from noisegate.privacy import accounting
from noisegate.privacy.accounting import continual_sensitivity, effective_multiplier, prefix_noise
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.events import MOST_PERIODS, TOEPLITZ, Adjacency, ContinualGaussianEvent
from noisegate.privacy.plan import Budget, CalibratedPlan, PlannedRelease, Query, with_noise
from noisegate.privacy.release import read_json
from noisegate.runs.folder import Run
from noisegate.schema.schema import is_linked
from noisegate.silos.rounds import plan_id, plan_of, read_plan, write_plan

BAND = 48
"""How many periods a period takes noise back from at most, itself among them."""
_FORESEEN = 24  # what the first period says stands for this many, where cells and pairs are chosen


@dataclass(frozen=True, kw_only=True)
class ContinualRelease(PlannedRelease):
    """A query that every period answers, as its total after one of them."""

    horizon: Horizon
    period: int

    @property
    def event(self) -> ContinualGaussianEvent:
        """The private event that the answers of all periods are together."""
        periods, query = self.horizon.periods, self.query
        told: dict[str, Any] = {**vars(super().event), "coordinates": query.coordinates * periods, "periods": periods}
        told |= {"weights": self.horizon.weights, "record": float(query.grid.bound.units)}
        return ContinualGaussianEvent(**told, corrected=self.horizon.corrected(query))

    @property
    def noise_std_natural(self) -> float:
        """Standard deviation of the noise on the total, in the units of the record's vector."""
        return self.noise_std / self.query.grid.scale * self.horizon.noise(self.period)


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """How many periods there are, and what is released after each.

    Attributes:
        periods: How many there are at most; left out, `MOST_PERIODS`.
        window: How many of the last periods each release is about; None for all so far.
        corrections: Whether a record may be withdrawn or amended once, in a later period.

    Raises:
        OptionError: if one of them is no such number.

    Examples:
        >>> from noisegate.streams.plans import Horizon
        >>> Horizon(periods=24).weights[:4]
        (256, 128, 96, 80)
        >>> [round(Horizon(periods=24).overhead(period), 2) for period in (1, 12, 24)]
        [1.44, 1.96, 2.07]
    """

    periods: int = MOST_PERIODS
    window: int | None = None
    corrections: bool = False

    def __post_init__(self) -> None:
        for name, most in (("periods", MOST_PERIODS), ("window", self.periods)):
            value = getattr(self, name)
            if not (type(value) is int and 1 <= value <= most) and (name, value) != ("window", None):
                raise OptionError(f"{said(name, value)} must be a whole number from 1 to {most}.")

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The first column of C, in parts of 256: that of the square root of the matrix that adds periods up."""
        root: list[float] = []
        for at in range(min(self.periods, BAND)):
            both = sum(root[one] * root[at - one] for one in range(1, at))
            root.append(1.0 if not at else (float(at < (self.window or self.periods)) - both) / 2)
        return tuple(round(TOEPLITZ * one) for one in root)

    def corrected(self, query: Query) -> int:
        """Returns the square of how many times as far a record moves an answer with a correction, at most (G-34)."""
        falling = list(self.weights) == sorted(self.weights, reverse=True) and self.weights[-1] >= 0
        return 1 if not self.corrections else 3 if query.nonnegative and falling else 9

    def noise(self, period: int) -> float:
        """Returns the noise of what is released after a period, over the fresh noise of one."""
        return prefix_noise(self.weights, period, self.window)

    def overhead(self, period: int) -> float:
        """Returns the noise of what is released after a period, over that of a release at once at the same price."""
        return self.noise(period) * math.sqrt(sum(one * one for one in self.weights)) / TOEPLITZ

    @property
    def foreseen(self) -> int:
        """How many periods cells and pairs are chosen for."""
        return min(self.periods, self.window or self.periods, _FORESEEN)

    def plan(self, once: CalibratedPlan, period: int | None = None) -> CalibratedPlan:
        """Returns the plan of a stream at the price of one that asks once, with the noise after `period` or the last.

        Raises:
            OptionError: if its guarantee is of replaced records, or of units with several.
        """
        budget = once.budget
        if budget.adjacency is not Adjacency.ADD_REMOVE:
            raise OptionError("adjacency='replace-one': how many records a period has is private; use 'add-remove'.")
        if budget.contributions is not None:
            says = "unit_column: the records of one unit may come in several periods, and nobody counts them over all"
            raise OptionError(f"{says}; give a table with one record for each unit, each in one period.")
        period = period or self.periods
        return replace(once, releases=tuple(self._release(one, period) for one in once.releases))

    def _release(self, one: PlannedRelease, period: int) -> ContinualRelease:
        query = one.query
        told = self.weights, float(query.grid.bound.units), self.corrected(query), query.coordinates
        sensitivity = math.ceil(continual_sensitivity(*told))
        made = with_noise(query, one.sampler, 1 / effective_multiplier(one.event), sensitivity)
        return ContinualRelease(**vars(made), horizon=self, period=period)

    def noise_of(self, plan: CalibratedPlan, period: int) -> dict[str, float]:
        """Returns the noise on what a plan of this stream releases after a period, in the units of the answers."""
        scale = self.noise(period)
        return {one.query.name: one.noise_std / one.query.grid.scale * scale for one in plan.releases}

    def at_once(self, budget: Budget) -> Budget:
        """Returns the price at which a release at once has the noise of the last one of the stream."""
        most = max(self.overhead(self.periods) * math.sqrt(3 * self.corrections or 1), 1.0)
        mu = accounting.mu_for(budget.epsilon, budget.delta) / most
        return replace(budget, epsilon=max(accounting.gaussian_epsilon(mu, budget.delta), 0.01))

    def publish(self, run: Run, out: Path) -> str:
        """Writes the plan of a stream; returns its identifier."""
        if is_linked(run.schema):
            raise OptionError(
                "schema: of linked tables there are no streams. The privacy unit is a record of the first table with "
                "all that belongs to it, which would come in several periods. Make a stream of one table."
            )
        if run.discovery is not None:
            says = "schema: it was estimated from private records, at a cost that is of one period alone"
            raise OptionError(f"{says}; a stream takes a schema of public knowledge.")
        plan = self.plan(plan_of(run.method, run.table, run.budget))
        run.method.next_round(run.table, plan, {}, self.noise_of(plan, 1))  # says so where a method asks in no rounds
        write_plan(run, out, stream=asdict(self))
        return stream_id(run, self)

    def to_json(self) -> dict[str, Any]:
        """Returns the horizon as a JSON object, with the noise of its last release over that of one at once."""
        return {**asdict(self), "weights": list(self.weights), "overhead": self.overhead(self.periods)}

    def text(self) -> str:
        """Returns in words what a stream costs."""
        last, times = self.overhead(self.periods), math.sqrt(self.window or self.periods)
        what = "all records so far" if self.window is None else f"the records of the last {self.window} periods"
        changed = ", and may be withdrawn or amended once, in a later one" if self.corrections else ""
        return (
            f"A stream of at most {self.periods} periods, each release about {what}. A record comes in one "
            f"period{changed}, and costs epsilon once. The noise on the last release is {last:.2f} times that of one "
            f"release of everything at the end (releases of single periods, added up: {times:.2f} times). "
            "Cells and pairs are chosen in the first period, and stay."
        )


def read_stream(path: Path, **own: Any) -> tuple[Run, Horizon]:
    """Returns what a stream asks, from the file that `Horizon.publish` wrote, with dataset and ledger from `own`."""
    run = read_plan(path, settle=False, **own)
    try:
        return run, Horizon(**read_json(path)["stream"])
    except (KeyError, TypeError, OptionError):
        note = "`noisegate plan --periods N --save FILE` writes one."
        raise ModelError(f"{path} is the plan of no stream; {note}") from None


def stream_id(run: Run, horizon: Horizon) -> str:
    """Returns the SHA-256 of everything that a stream asks."""
    plan = plan_of(run.method, run.table, run.budget)
    asked = {"plan": plan_id(run.method, run.table, plan), "epsilon": run.epsilon, "delta": run.delta}
    return hashlib.sha256(canonical_json(asked | asdict(horizon))).hexdigest()


Integers = npt.NDArray[np.int64]
_MOST = 2**61  # totals of noisy sums stay far from the end of 64 bits


@dataclass(frozen=True)
class PeriodSums:
    """One query in one period, (columns, dim): the noisy sums, the noise in them until it is erased, and a seal."""

    noisy: Integers
    noise: Integers | None
    seal: str


class StreamState:
    """The folder beside the plan of a stream; made with its first period."""

    def __init__(self, plan: Path) -> None:
        if (why := second_name(plan)) is not None:
            raise OptionError(f"stream={str(plan)!r} {why}. What was released is remembered beside its name.")
        self.folder = plan.resolve().with_suffix(".private")

    def begin(self, plan: str) -> None:
        """Makes the folder, if it is not there, for the stream of a plan; an OptionError if it is of another one."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            for name, content in (("key", secrets.token_bytes(32)), ("plan", plan.encode())):
                if not (self.folder / name).exists():
                    with suppress(FileExistsError):
                        self._place(self.folder / name, content)
            self._key, known = ((self.folder / name).read_bytes() for name in ("key", "plan"))
        except OSError as error:
            raise OptionError(f"{self.folder} cannot be written: {error.strerror}. Nothing was spent.") from None
        if known != plan.encode():
            raise OptionError(f"stream: {self.folder} is of another plan; give each plan a name of its own.")

    @property
    def periods(self) -> int:
        """How many periods were begun."""
        return max((int(path.name[:4]) for path in self.folder.glob("[0-9]*.npz")), default=0)

    @property
    def booked(self) -> Mapping[str, Any]:
        """Reservation, data set and ledger of the stream; empty if it is in no ledger."""
        try:
            return dict(read_json(self.folder / "booked.json"))
        except FileNotFoundError:
            return {}

    def book(self, **place: Any) -> None:
        """Remembers where the stream is booked."""
        with new_file(self.folder / "booked.json", "stream", force=True) as beside:
            beside.write_text(json.dumps(place) + "\n", encoding="utf-8")

    def seal(self, name: str, sums: Integers) -> str:
        """Returns what knows the exact sums of a query again, and tells nothing to whoever has no key."""
        content = f"{name}:{sums.shape}:".encode() + np.ascontiguousarray(sums, dtype="<i8").tobytes()
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()

    def check_new(self, period: int, sums: Mapping[str, Integers], *, empty: bool) -> None:
        """Refuses records that an earlier period had, and others than those that this one began with."""
        seals = {name: self.seal(name, one) for name, one in sums.items()}
        for before in range(1, period if not empty else 1):
            if all((found := self.read(before, name)) and found.seal == seals[name] for name in seals):
                raise OptionError(
                    f"data: these are the records of period {before}, which were released already. Nothing was drawn "
                    f"or spent; give those of period {period}. If they are others that count the same, give them "
                    "together with those of the next period."
                )
        if any((found := self.read(period, name)) and found.seal != seals[name] for name in seals):
            cure = "give the same records again, or go on from the model that it came to. Nothing was drawn."
            raise OptionError(f"data: period {period} was answered with other records. A period has one answer: {cure}")

    def read(self, period: int, name: str) -> PeriodSums | None:
        """Returns an answer; None where there is none."""
        return _read(self._path(period, name))

    def write(self, period: int, name: str, answer: PeriodSums) -> None:
        """Keeps an answer for good; an OptionError if another process was faster."""
        try:
            self._place(self._path(period, name), answer)
        except (FileExistsError, FileNotFoundError):
            raise OptionError(f"stream: another process answers period {period} at this moment; let it end.") from None

    def total(self, name: str, first: int, last: int) -> Integers:
        """Returns the noisy sums of some periods, added up."""
        parts = [self.read(period, name) for period in range(first, last + 1)]
        if not all(parts):
            raise ModelError(f"{self.folder} lacks an answer of a period before {last}; restore it from a backup.")
        noisy = [part.noisy for part in parts if part]
        if np.abs(np.sum(noisy, axis=0, dtype=np.float64)).max(initial=0) > _MOST:
            raise DataError("the totals of the stream leave 64 bits; begin another one.")
        return np.asarray(np.sum(noisy, axis=0), dtype=np.int64)

    def forget(self, last: int) -> None:
        """Erases the noise of all periods up to one: no later one takes it back."""
        for path in sorted(self.folder.glob("[0-9]*.npz")):
            if int(path.name[:4]) <= last and (held := _read(path)) is not None and held.noise is not None:
                self._place(path, PeriodSums(held.noisy, None, held.seal), force=True)

    def _path(self, period: int, name: str) -> Path:
        return self.folder / f"{period:04}.{quote(name, safe='')}.npz"

    def _place(self, path: Path, content: bytes | PeriodSums, *, force: bool = False) -> None:
        """Writes a file that is whole or not there, and that nothing replaces unless told so."""
        beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                held = {name: value for name, value in vars(content).items() if value is not None}
                np.savez(file, **held)
            file.flush()
            os.fsync(file.fileno())
        if force:
            beside.replace(path)
        elif not _linked(beside, path):
            beside.unlink(missing_ok=True)
            raise FileExistsError(path)
        for left in path.parent.glob(f"{path.name}.*"):  # of this process, and of any that was killed here
            left.unlink(missing_ok=True)
        sync_folders(path.parent)


def _read(path: Path) -> PeriodSums | None:
    try:
        with np.load(path, allow_pickle=False) as held:
            return PeriodSums(held["noisy"], held.get("noise"), str(held["seal"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ModelError(f"{path} is broken ({type(error).__name__}); restore it from a backup.") from None


def _linked(beside: Path, path: Path) -> bool:
    """Gives a file its name, unless there is one; returns whether it has it."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError:  # a disk that knows no second names
        if path.exists():
            return False
        beside.rename(path)
    return True
