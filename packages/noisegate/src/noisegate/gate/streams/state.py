"""What a stream keeps between its periods, in a folder beside its plan, for the owner's eyes alone (G-34).

::

    registry.json        the plan, public
    registry.private/    plan              the identifier of the plan
                         booked.json       the reservation in the ledger
                         key               of the seals; erased with the last of them
                         0003.pairs.npz    one query in period 3: `noisy`, and until they are erased `noise` and `seal`

The noise is on disk before the answer leaves: a run that was killed gives the same answer again, and no second one.
Noisy sums less their noise are the exact sums, and a seal is a keyed hash of them, from which they can be found by
trying. So a seal is erased with its noise, once no later period takes that noise back, and the key after the last
period. From then on the folder holds nothing but what was released.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from noisegate.atomic import second_name, sync_folders
from noisegate.errors import DataError, ModelError, OptionError
from noisegate.privacy.release import read_json
from noisegate.progress import LOG

Integers = npt.NDArray[np.int64]

_MAX_TOTAL = 2**61  # totals of noisy sums stay far from the end of 64 bits
_FOR_OTHERS = 0o077  # the permissions of everybody but the owner
# What a process that was killed may leave: a file under the name that it would have had and eight hexadecimal digits.
# Earlier versions wrote booked.json in a hidden folder.
_TEMPORARY = re.compile(
    r"(?:key|plan|booked\.json|\d{4}\..+\.npz)\.[0-9a-f]{8}|\.booked\.json\.[0-9a-f]{8}"
)
_PAID = "What was paid for stays paid for: make room, and give the same again at no further cost."


@dataclass(frozen=True)
class PeriodSums:
    """One query in one period.

    Attributes:
        noisy: The noisy sums, (columns, dim), in grid units.
        noise: The noise in them, of the same shape; None once it is erased.
        seal: The keyed hash of the exact sums; None once it is erased.
    """

    noisy: Integers
    noise: Integers | None = None
    seal: str | None = None

    @property
    def is_erased(self) -> bool:
        """Whether nothing is left of the exact sums."""
        return self.noise is None and self.seal is None


class StreamState:
    """The folder beside the plan of a stream; made with its first period."""

    def __init__(self, plan: Path) -> None:
        if (why := second_name(plan)) is not None:
            raise OptionError(
                f"stream={str(plan)!r} {why}. What was released is remembered beside its name."
            )
        self.folder = plan.resolve().with_suffix(".private")
        self._key: bytes | None = None

    def begin(self, plan: str) -> None:
        """Opens the folder for the stream of a plan, and makes it if it is not there.

        The folder and its files become the owner's alone, and what a killed process left is removed.

        Raises:
            OptionError: if the folder is of another plan, belongs to somebody else, or cannot be written.
        """
        with self._writing("Nothing was spent."):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._protect()
            self._sweep()
            if not self.periods:
                self._place_first("key", secrets.token_bytes(32))
            self._place_first("plan", plan.encode())
            known = (self.folder / "plan").read_bytes()
            # No key: the stream has ended, and its seals are erased.
            self._key = None
            with suppress(FileNotFoundError):
                self._key = (self.folder / "key").read_bytes()
        if known != plan.encode():
            raise OptionError(
                f"stream: {self.folder} is of another plan; give each plan a name of its own."
            )

    @property
    def periods(self) -> int:
        """How many periods were begun."""
        return max(
            (int(path.name[:4]) for path in self.folder.glob("[0-9]*.npz")), default=0
        )

    @property
    def booked(self) -> Mapping[str, Any]:
        """Reservation, data set and ledger of the stream; empty if it is in no ledger."""
        try:
            return dict(read_json(self.folder / "booked.json"))
        except FileNotFoundError:
            return {}

    def book(self, **place: Any) -> None:
        """Remembers where the stream is booked."""
        with self._writing("Make room, and start again."):
            self._place(
                self.folder / "booked.json",
                (json.dumps(place) + "\n").encode(),
                force=True,
            )

    def seal(self, name: str, sums: Integers) -> str:
        """Returns the keyed hash by which the exact sums of a query are known again."""
        if self._key is None:
            raise ModelError(
                f"{self.folder / 'key'} is missing; restore it from a backup."
            )
        content = (
            f"{name}:{sums.shape}:".encode()
            + np.ascontiguousarray(sums, dtype="<i8").tobytes()
        )
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()

    def check_new(
        self, period: int, sums: Mapping[str, Integers], *, empty: bool
    ) -> None:
        """Refuses records that an earlier period had, and others than those that this one began with.

        They are compared with the seals that are there. Where those of this period are erased, with the last period of
        the stream, it has all its answers: they are given again whatever the records are.
        """
        answers = {name: self.read(period, name) for name in sums}
        if all(answer is not None and answer.is_erased for answer in answers.values()):
            LOG.info(
                "Period %d was answered, and its seals are erased: the answer is given again.",
                period,
            )
            return
        seals = {name: self.seal(name, one) for name, one in sums.items()}
        for before in range(1, period if not empty else 1):
            if all(
                (found := self.read(before, name)) and found.seal == seals[name]
                for name in seals
            ):
                raise OptionError(
                    f"data: these are the records of period {before}, which were released already. Nothing was drawn "
                    f"or spent; give those of period {period}. If they are others that count the same, give them "
                    "together with those of the next period."
                )
        given_before = {
            name: answer.seal
            for name, answer in answers.items()
            if answer and answer.seal
        }
        if any(seal != seals[name] for name, seal in given_before.items()):
            cure = "give the same records again, or go on from the model that it came to. Nothing was drawn."
            raise OptionError(
                f"data: period {period} was answered with other records. A period has one answer: {cure}"
            )

    def read(self, period: int, name: str) -> PeriodSums | None:
        """Returns an answer; None where there is none."""
        return _read(self._path(period, name))

    def write(self, period: int, name: str, answer: PeriodSums) -> None:
        """Keeps an answer for good; an OptionError if another process was faster, or it cannot be kept."""
        with self._writing(_PAID):
            try:
                self._place(self._path(period, name), answer)
            except (FileExistsError, FileNotFoundError):
                busy = f"stream: another process answers period {period} at this moment; let it end."
                raise OptionError(busy) from None

    def total(self, name: str, first: int, last: int) -> Integers:
        """Returns the noisy sums of some periods, added up."""
        parts = [self.read(period, name) for period in range(first, last + 1)]
        if not all(parts):
            raise ModelError(
                f"{self.folder} lacks an answer of a period before {last}; restore it from a backup."
            )
        noisy = [part.noisy for part in parts if part]
        if np.abs(np.sum(noisy, axis=0, dtype=np.float64)).max(initial=0) > _MAX_TOTAL:
            raise DataError(
                "the totals of the stream leave 64 bits; begin another one."
            )
        return np.asarray(np.sum(noisy, axis=0), dtype=np.int64)

    def forget(self, last: int) -> None:
        """Erases noise and seals of all periods up to one, whose noise no later period takes back."""
        with self._writing(_PAID):
            self._sweep()
            for path in sorted(self.folder.glob("[0-9]*.npz")):
                answer = _read(path) if int(path.name[:4]) <= last else None
                if answer is not None and not answer.is_erased:
                    # Another process that begins may sweep the file away; it erases the same then.
                    with suppress(FileNotFoundError):
                        self._place(path, PeriodSums(answer.noisy), force=True)

    def end(self) -> None:
        """Erases all secrets: after the last period nothing takes noise back, and no records are compared."""
        self.forget(self.periods)
        with self._writing(_PAID):
            (self.folder / "key").unlink(missing_ok=True)
            sync_folders(self.folder)

    def _path(self, period: int, name: str) -> Path:
        return self.folder / f"{period:04}.{quote(name, safe='')}.npz"

    def _protect(self) -> None:
        """Takes the permissions of all others away from the folder and its files."""
        if os.name != "posix":
            return
        mode = self.folder.stat().st_mode
        if mode & _FOR_OTHERS:
            try:
                self.folder.chmod(0o700)
            except PermissionError:
                raise OptionError(
                    f"stream: {self.folder} can be opened by others (mode {mode & 0o777:04o}), and belongs to somebody "
                    "else. It is to hold secrets: move it away, or move the plan to a folder of your own."
                ) from None
            LOG.warning(
                "%s could be opened by others (mode %04o); now only its owner can. What it holds may have been read.",
                self.folder,
                mode & 0o777,
            )
        for path in self.folder.iterdir():
            if (
                path.is_file()
                and not path.is_symlink()
                and path.stat().st_mode & _FOR_OTHERS
            ):
                path.chmod(0o600)

    def _sweep(self) -> None:
        """Removes what processes left that were killed while they wrote."""
        for path in self.folder.iterdir():
            if _TEMPORARY.fullmatch(path.name) is None:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    @contextmanager
    def _writing(self, cure: str) -> Iterator[None]:
        """Turns an error of the disk into one that says what to do."""
        try:
            yield
        except OSError as error:
            raise OptionError(
                f"{self.folder} cannot be written: {error.strerror or error}. {cure}"
            ) from None

    def _place_first(self, name: str, content: bytes) -> None:
        """Writes a file unless it is there; another process that begins may have been faster."""
        if not (self.folder / name).exists():
            with suppress(FileExistsError, FileNotFoundError):
                self._place(self.folder / name, content)

    def _place(
        self, path: Path, content: bytes | PeriodSums, *, force: bool = False
    ) -> None:
        """Writes a file that is whole or not there, and that nothing replaces unless told so."""
        beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        try:
            with open(
                beside, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)
            ) as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    held = {
                        name: value
                        for name, value in vars(content).items()
                        if value is not None
                    }
                    np.savez(file, **held)
                file.flush()
                os.fsync(file.fileno())
            if force:
                beside.replace(path)
            elif not _linked(beside, path):
                raise FileExistsError(path)
        finally:
            # It is there after a link, and after a disk that was full: it holds what the file was to hold.
            beside.unlink(missing_ok=True)
        sync_folders(path.parent)


def _read(path: Path) -> PeriodSums | None:
    try:
        with np.load(path, allow_pickle=False) as held:
            seal = held.get("seal")
            return PeriodSums(
                held["noisy"], held.get("noise"), None if seal is None else str(seal)
            )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ModelError(
            f"{path} is broken ({type(error).__name__}); restore it from a backup."
        ) from None


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
