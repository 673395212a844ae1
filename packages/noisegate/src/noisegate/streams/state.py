"""What a stream keeps between its periods, beside its plan, for the owner's eyes alone.

::

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
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from noisegate.atomic import new_file, second_name, sync_folders
from noisegate.errors import DataError, ModelError, OptionError
from noisegate.privacy.release import read_json

Integers = npt.NDArray[np.int64]
# Totals of noisy sums stay far from the end of 64 bits.
_MOST = 2**61


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
            raise OptionError(
                f"data: period {period} was answered with other records. A period has one answer: give the same "
                "records again, or go on from the model that it came to. Nothing was drawn."
            )

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
