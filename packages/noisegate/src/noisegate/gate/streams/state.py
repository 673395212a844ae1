"""What a stream keeps between its periods: a folder that only its owner can open.

A stream gets new records period by period. For each query and period, the folder has
the noisy sums, and for some time the noise in them::

    registry.json        the plan, public
    registry.private/    plan              the identifier of the plan
                         booked.json       the reservation in the ledger
                         key               of the seals
                         0003.pairs.npz    the query "pairs" in period 3: `noisy`, and
                                           until they are erased `noise` and `seal`

Sums and noise are on disk before the answer leaves. So a run that was killed gives the
same answer again, and never a second one.

Noisy sums less their noise are the exact sums, so the noise is a secret. A seal is a
keyed hash of the exact sums, by which records that were given before are recognised;
whoever has the key could find the sums from it by trying. So a seal is erased with its
noise, once no later period takes that noise back, and the key after the last period.
From then on the folder holds nothing but what was released (G-34).
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

# Largest total of noisy sums, far below 2⁶³, the end of int64.
_MAX_TOTAL = 2**61
# The permissions of everybody but the owner of a file.
_OTHERS_PERMISSIONS = 0o077
# Names of temporary files that a killed process may leave: the final name and eight
# hexadecimal digits. Earlier versions wrote booked.json in a hidden folder.
_TEMPORARY = re.compile(
    r"(?:key|plan|booked\.json|\d{4}\..+\.npz)\.[0-9a-f]{8}|\.booked\.json\.[0-9a-f]{8}"
)
_STAYS_PAID = (
    "The cost is charged already: free some disk space, and give the same records "
    "again at no further cost."
)


@dataclass(frozen=True)
class PeriodSums:
    """The sums of one query in one period, as the folder of a stream has them.

    Attributes:
        noisy: The noisy sums in grid units, (columns, dim).
        noise: The noise in them, of the same shape; a secret. None once it is erased.
        seal: A keyed hash of the exact sums, by which records are recognised; a secret.
            None once it is erased.
    """

    noisy: Integers
    noise: Integers | None = None
    seal: str | None = None

    @property
    def is_erased(self) -> bool:
        """Whether noise and seal are erased, by which the exact sums could be found."""
        return self.noise is None and self.seal is None


class StreamState:
    """The folder of a stream, beside its plan; created with the first period.

    Args:
        plan: The file of the plan.

    Raises:
        OptionError: if the file has a second name, under which its folder would not be
            found.
    """

    def __init__(self, plan: Path) -> None:
        problem = second_name(plan)
        if problem is not None:
            raise OptionError(
                f"stream={str(plan)!r} {problem}. The history of the stream is "
                "stored beside the plan, under its name."
            )
        self.folder = plan.resolve().with_suffix(".private")
        # The key of the seals; None before the folder is opened, and once the stream
        # has ended.
        self._key: bytes | None = None

    def open_for_plan(self, plan_id: str) -> None:
        """Opens the folder for the stream of a plan, and creates it if necessary.

        Other users lose all permissions on the folder and its files, and temporary
        files of killed processes are removed. A second call changes nothing.

        Args:
            plan_id: Identifier of the plan.

        Raises:
            OptionError: if the folder is of another plan, belongs to somebody else, or
                cannot be written.
        """
        with self._writing("Nothing was spent."):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._protect()
            self._sweep()
            # A stream that has ended has periods and no key, and gets no new one.
            if not self.begun_period_count:
                self._write_if_missing("key", secrets.token_bytes(32))
            self._write_if_missing("plan", plan_id.encode())
            stored_plan_id = (self.folder / "plan").read_bytes()
            # No key: the stream has ended, and its seals are erased.
            self._key = None
            with suppress(FileNotFoundError):
                self._key = (self.folder / "key").read_bytes()
        if stored_plan_id != plan_id.encode():
            raise OptionError(
                f"stream: {self.folder} is of another plan; give each plan a name of "
                "its own."
            )

    @property
    def begun_period_count(self) -> int:
        """Number of periods that were begun: those with at least one answer."""
        periods = (_period_in_name(path) for path in self.folder.glob("[0-9]*.npz"))
        return max(periods, default=0)

    @property
    def ledger_entry(self) -> Mapping[str, Any]:
        """The reservation of the stream: `reservation`, `dataset` and `ledger`.

        Empty before the stream has reserved, and without a ledger.
        """
        try:
            return dict(read_json(self.folder / "booked.json"))
        except FileNotFoundError:
            return {}

    def write_ledger_entry(
        self, *, reservation: str | None, dataset: str, ledger: str | None
    ) -> None:
        """Writes which reservation in which ledger pays for the stream.

        Replaces what was there.

        Args:
            reservation: Id of the reservation in the ledger.
            dataset: Name of the data set in the ledger.
            ledger: Path of the ledger; None for a database.

        Raises:
            OptionError: if the folder cannot be written.
        """
        entry = {"reservation": reservation, "dataset": dataset, "ledger": ledger}
        with self._writing("Free some disk space, and start again."):
            self._write_file(
                self.folder / "booked.json",
                (json.dumps(entry) + "\n").encode(),
                replaces=True,
            )

    def seal_of(self, name: str, sums: Integers) -> str:
        """Computes the seal of exact sums: a keyed hash by which they are recognised.

        Args:
            name: Name of the query.
            sums: Its exact sums in grid units, (columns, dim); private.

        Returns:
            HMAC with SHA-256, in hexadecimal.

        Raises:
            ModelError: if the key is missing.
        """
        if self._key is None:
            raise ModelError(
                f"{self.folder / 'key'} is missing; restore it from a backup."
            )
        content = (
            f"{name}:{sums.shape}:".encode()
            + np.ascontiguousarray(sums, dtype="<i8").tobytes()
        )
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()

    def check_records_are_new(
        self, period: int, sums: Mapping[str, Integers], *, has_records: bool
    ) -> None:
        """Checks that no earlier period had these records, and this one no others.

        Records are recognised by the seals of their exact sums. Once the stream has
        ended, the seals are erased; the last period then gives its answers again,
        whatever the records are.

        Args:
            period: Number of the period, from 1.
            sums: Exact sums by query, (columns, dim) each; private.
            has_records: Whether there are any records. Several periods may have none,
                so an empty period is not compared with earlier ones.

        Raises:
            OptionError: if an earlier period had these records, or this period was
                answered with others.
        """
        answers = {name: self.read_answer(period, name) for name in sums}
        if all(answer is not None and answer.is_erased for answer in answers.values()):
            LOG.info(
                "Period %d was released already, and its seals are erased: the "
                "same release is returned.",
                period,
            )
            return
        seals = {
            name: self.seal_of(name, query_sums) for name, query_sums in sums.items()
        }
        if has_records:
            for earlier_period in range(1, period):
                if self._has_seals(earlier_period, seals):
                    raise OptionError(
                        f"data: these are the records of period {earlier_period}, "
                        "which were released already. Nothing was drawn or spent; "
                        f"give those of period {period}. If they are different "
                        "records with the same counts, give them together with "
                        "those of the next period."
                    )
        has_other_records = any(
            answer is not None and answer.seal and answer.seal != seals[name]
            for name, answer in answers.items()
        )
        if has_other_records:
            raise OptionError(
                f"data: period {period} was released with other records. Each "
                "period is released once: give the same records again, or continue "
                "from its model. No noise was drawn."
            )

    def _has_seals(self, period: int, seals: Mapping[str, str]) -> bool:
        """Returns whether the sums of all queries in a period have these seals.

        It is False for a period whose seals are erased.

        Args:
            period: Number of the period, from 1.
            seals: Seals of exact sums, by query.
        """
        for name, seal in seals.items():
            answer = self.read_answer(period, name)
            if answer is None or answer.seal != seal:
                return False
        return True

    def read_answer(self, period: int, name: str) -> PeriodSums | None:
        """Reads the sums of a query in a period; None if there are none yet."""
        return _read_sums(self._answer_path(period, name))

    def write_answer(self, period: int, name: str, answer: PeriodSums) -> None:
        """Writes the sums of a query in a period, which are never replaced.

        They are complete and on disk when this returns. Of several processes, only the
        first writes, so that a period has one answer.

        Args:
            period: Number of the period, from 1.
            name: Name of the query.
            answer: The noisy sums, with their noise and seal.

        Raises:
            OptionError: if another process was faster, or the folder cannot be written.
        """
        with self._writing(_STAYS_PAID):
            try:
                self._write_file(self._answer_path(period, name), answer)
            except (FileExistsError, FileNotFoundError):
                raise OptionError(
                    f"stream: another process is releasing period {period}; let it end."
                ) from None

    def sum_answers(self, name: str, first_period: int, last_period: int) -> Integers:
        """Adds up the noisy sums of a query over some periods.

        Args:
            name: Name of the query.
            first_period: Number of the first period.
            last_period: Number of the last period, included.

        Returns:
            The total in grid units, (columns, dim).

        Raises:
            ModelError: if an answer is missing.
            DataError: if the total leaves 64 bits.
        """
        answers = [
            self.read_answer(period, name)
            for period in range(first_period, last_period + 1)
        ]
        noisy_sums = [answer.noisy for answer in answers if answer is not None]
        if len(noisy_sums) < len(answers):
            raise ModelError(
                f"{self.folder} lacks the release of a period before "
                f"{last_period}; restore it from a backup."
            )
        # Checked in floats, which do not wrap around.
        rough_total = np.sum(noisy_sums, axis=0, dtype=np.float64)
        if np.abs(rough_total).max(initial=0) > _MAX_TOTAL:
            raise DataError(
                "the totals of the stream leave 64 bits; begin another one."
            )
        return np.asarray(np.sum(noisy_sums, axis=0), dtype=np.int64)

    def erase_secrets_until(self, last_period: int) -> None:
        """Erases the noise and the seals of the first periods; noisy sums stay.

        It is called for periods whose noise no later period takes back. If the process
        dies in between, the next call erases the rest.

        Args:
            last_period: Number of the last period whose secrets are erased; below 1 for
                none.

        Raises:
            OptionError: if the folder cannot be written.
        """
        with self._writing(_STAYS_PAID):
            self._sweep()
            for path in sorted(self.folder.glob("[0-9]*.npz")):
                if _period_in_name(path) > last_period:
                    continue
                answer = _read_sums(path)
                if answer is not None and not answer.is_erased:
                    # Another process may remove the temporary file that is being
                    # written here (`_sweep`). It then erases the same itself.
                    with suppress(FileNotFoundError):
                        self._write_file(path, PeriodSums(answer.noisy), replaces=True)

    def erase_all_secrets(self) -> None:
        """Erases all noise, all seals and their key, after the last period.

        No later period takes noise back any more, or compares its records. The key is
        erased last: as long as there are seals, it is needed to compare records.

        Raises:
            OptionError: if the folder cannot be written.
        """
        self.erase_secrets_until(self.begun_period_count)
        with self._writing(_STAYS_PAID):
            (self.folder / "key").unlink(missing_ok=True)
            sync_folders(self.folder)

    def _answer_path(self, period: int, name: str) -> Path:
        """Returns the file with the sums of a query in a period."""
        return self.folder / f"{period:04}.{quote(name, safe='')}.npz"

    def _protect(self) -> None:
        """Removes all permissions of other users on the folder and its files.

        Raises:
            OptionError: if the folder belongs to somebody else.
        """
        if os.name != "posix":
            return
        mode = self.folder.stat().st_mode
        permissions = mode & 0o777
        if mode & _OTHERS_PERMISSIONS:
            try:
                self.folder.chmod(0o700)
            except PermissionError:
                raise OptionError(
                    f"stream: {self.folder} can be opened by others (mode "
                    f"{permissions:04o}), and belongs to somebody else. It is to hold "
                    "secrets: move it away, or move the plan to a folder of your own."
                ) from None
            LOG.warning(
                "%s could be opened by others (mode %04o); now only its owner can. "
                "What it holds may have been read.",
                self.folder,
                permissions,
            )
        for path in self.folder.iterdir():
            is_own_file = path.is_file() and not path.is_symlink()
            if is_own_file and path.stat().st_mode & _OTHERS_PERMISSIONS:
                path.chmod(0o600)

    def _sweep(self) -> None:
        """Removes the temporary files of processes that were killed while they wrote.

        They may hold secrets. A process that is writing at this moment loses its file
        too, and raises an error, see `write_answer`.
        """
        for path in self.folder.iterdir():
            if _TEMPORARY.fullmatch(path.name) is None:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    @contextmanager
    def _writing(self, cure: str) -> Iterator[None]:
        """Is the context in which files are written: it replaces errors of the disk.

        Args:
            cure: What the user should do, for the message.

        Raises:
            OptionError: in place of an OSError inside.
        """
        try:
            yield
        except OSError as error:
            raise OptionError(
                f"{self.folder} cannot be written: {error.strerror or error}. {cure}"
            ) from None

    def _write_if_missing(self, name: str, content: bytes) -> None:
        """Writes a file unless it exists; another process may write it first.

        Args:
            name: Name of the file in the folder.
            content: What the file is to hold.
        """
        if not (self.folder / name).exists():
            with suppress(FileExistsError, FileNotFoundError):
                self._write_file(self.folder / name, content)

    def _write_file(
        self, path: Path, content: bytes | PeriodSums, *, replaces: bool = False
    ) -> None:
        """Writes a file so that it is complete or does not exist, at any time.

        Args:
            path: The file.
            content: What it is to hold.
            replaces: Whether an existing file may be replaced.

        Raises:
            FileExistsError: if the file exists and may not be replaced.
            OSError: if it cannot be written.
        """
        # It has a temporary name until it is complete and on disk, see `_TEMPORARY`.
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        try:
            with open(
                temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)
            ) as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    arrays = {
                        name: value
                        for name, value in vars(content).items()
                        if value is not None
                    }
                    np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            if replaces:
                temporary.replace(path)
            elif not _rename_if_free(temporary, path):
                raise FileExistsError(path)
        finally:
            # After a hard link, and after an error, the temporary file is still there.
            # It may hold secrets.
            temporary.unlink(missing_ok=True)
        sync_folders(path.parent)


def _period_in_name(path: Path) -> int:
    """Returns the period in the name of a file: 3 in ``0003.pairs.npz``."""
    return int(path.name[:4])


def _read_sums(path: Path) -> PeriodSums | None:
    """Reads the sums of one query in one period from a file.

    Args:
        path: The file.

    Returns:
        The sums; None if there is no such file.

    Raises:
        ModelError: if the file is broken.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            seal = arrays.get("seal")
            return PeriodSums(
                noisy=arrays["noisy"],
                noise=arrays.get("noise"),
                seal=None if seal is None else str(seal),
            )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ModelError(
            f"{path} is broken ({type(error).__name__}); restore it from a backup."
        ) from None


def _rename_if_free(temporary: Path, path: Path) -> bool:
    """Gives a file its final name, unless the name is taken.

    Making a hard link fails in one step if the name is taken. So of two processes only
    one gets the name. The temporary name stays; the caller removes it.

    Args:
        temporary: The complete file, under its temporary name.
        path: The final name.

    Returns:
        Whether the file now has the final name.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if path.exists():
            return False
        temporary.rename(path)
    return True
