"""Files and folders that appear when they are whole, and leave nothing behind if something stops the writing."""

import errno
import os
import re
import secrets
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from noisegate.errors import OptionError, said

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def address(path: Path) -> str | None:
    """Returns a path as the address that it is, as in https://...; None for a place on a disk."""
    if (
        path.parts
        and _SCHEME.fullmatch(path.parts[0])
        and (len(path.parts) > 1 and not Path(path.parts[0]).exists())
    ):
        return "//".join([path.parts[0], "/".join(path.parts[1:])])
    return None


def check_on_disk(path: Path, what: str) -> None:
    """Requires a path to be no address."""
    shown = address(path)
    if shown is not None:
        raise OptionError(
            f"{what} {shown}: is an address, and this must be a path on a disk of this machine."
        )


@contextmanager
def new_file(
    out: Path, name: str = "out", *, force: bool = False, room: int = 0
) -> Iterator[Path]:
    """Yields a path to write to; the file appears at `out` when the block ends well, and leaves nothing if it fails.

    With `force`, it takes the place of a file that is there. With `room`, the disk is known to have so many bytes for
    it when the block is entered: for what is paid for inside and must not be lost.
    """
    check_named(out, name)
    if out.exists() and not (force and out.is_file()):
        raise OptionError(
            f"{said(name, out)} exists; choose another name, or remove it first."
        )
    try:
        with hidden_beside(
            out, 0o700
        ) as folder:  # nobody else opens what may become private
            beside = folder / out.name
            with beside.open("wb") as file:
                file.write(bytes(room))
                file.flush()
                os.fsync(file.fileno())
            yield beside
            beside.rename(out)
    except OSError as error:
        raise unwritable(out, name, error) from None


@contextmanager
def new_folder(out: Path, name: str = "out") -> Iterator[Path]:
    """Yields an empty folder to fill; it appears at `out` when the block ends well, and leaves nothing if it fails."""
    check_named(out, name)
    if out.exists() or out.is_symlink():
        raise OptionError(
            f"{said(name, out)} exists; choose another name, or remove it first."
        )
    try:
        with hidden_beside(out) as beside:
            yield beside
            beside.rename(out)
    except OSError as error:
        raise unwritable(out, name, error) from None


def check_named(out: Path, name: str = "out") -> None:
    """Requires a path on a disk to end in a name, under which something new can be made."""
    check_on_disk(out, said(name))
    if any(unicodedata.category(one) == "Cc" for one in str(out)):
        raise OptionError(
            f"{said(name)} {str(out)!r} holds a control character, such as a line end; leave it out."
        )
    if out.name in ("", "..") or not out.name.strip():
        raise OptionError(
            f"{said(name)} {str(out)!r} ends in no name that a new file or folder could have; add one."
        )


def second_name(path: Path) -> str | None:
    """Returns how a file can be reached by another name that is no symbolic link, and what to do; None if it cannot."""
    try:
        links, real = path.stat().st_nlink, str(path.resolve())
        if links > 1:
            return f"has {links} names (hard links); keep one of them and remove the others: find / -samefile {path}"
        mounted = os.path.ismount(real)
        with open(
            "/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape"
        ) as mounts:
            for code, letter in (
                (r"\134", "\\"),
                (r"\040", " "),
                (r"\011", "\t"),
                (r"\012", "\n"),
            ):
                real = real.replace(letter, code)
            mounted = mounted or any(line.split()[4] == real for line in mounts)
    except OSError:  # no such file, or not Linux
        mounted = path.exists() and os.path.ismount(path)
    return (
        "is mounted by itself, from elsewhere; mount the folder that it lies in"
        if mounted
        else None
    )


def sync_folders(*folders: Path) -> None:
    """Writes to disk which files are in some folders, where the system has that; else it does so by itself."""
    for folder in folders if hasattr(os, "O_DIRECTORY") else ():
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_outside(out: Path, data: str | Path, name: str = "out") -> None:
    """Checks that what is made does not come to lie among the records, where the next run would meet it."""
    folder, made = os.path.realpath(data), os.path.realpath(out)
    if os.path.isdir(folder) and os.path.commonpath([folder, made]) == folder:
        cure = "choose another place."
        raise OptionError(
            f"{said(name, out)}: lies in {data}, among the records, and would be read with them; {cure}"
        )


@contextmanager
def hidden_beside(out: Path, mode: int = 0o777) -> Iterator[Path]:
    """Yields a new hidden folder beside `out`; at the end of the block it is removed, unless it was renamed.

    A process that is killed leaves it behind, and the next one that makes `out` removes it: while a process lives, it
    holds a lock on its folder. Where there are no such locks, nothing is removed.
    """
    hidden = re.compile(rf"\.{re.escape(out.name)}\.[0-9a-f]{{8}}")
    with suppress(OSError):
        for path in out.parent.iterdir():
            if (
                hidden.fullmatch(path.name)
                and not path.is_symlink()
                and (left := _locked(path)) is not None
            ):
                shutil.rmtree(path, ignore_errors=True)
                _let_go(left)
    while True:
        beside = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
        beside.mkdir(mode)
        lock = _locked(beside, wait=True)
        if (
            beside.exists()
        ):  # else another process took it for abandoned before it was locked
            break
        _let_go(lock)
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        _let_go(lock)


def _locked(folder: Path, *, wait: bool = False) -> int | None:
    """Returns a lock on a folder, which ends with this process; None where another has it, or there are no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    lock = None
    with suppress(OSError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    _let_go(lock)
    return None


def close_to_others(path: Path) -> None:
    """Takes from others what they may do with a file or folder that is to be private, and lay there before.

    Raises:
        OSError: if it belongs to somebody else, who may do with it what he likes.
    """
    if sys.platform == "win32":
        return
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
    if found.st_mode & 0o077:
        path.chmod(found.st_mode & 0o700)


def check_private(path: Path, name: str) -> None:
    """Requires a file with a secret to be its owner's alone, where the system tells users apart.

    Raises:
        OptionError: if others may read or write it: they may have the secret.
    """
    if sys.platform == "win32":
        return
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # whoever opens it says what is wrong
    if mode & 0o077:
        raise OptionError(
            f"{said(name, path)} is open to other users of this machine (mode {mode & 0o777:o}), who may have read it. "
            f"Make a new one; or, if nobody else had access to its folder: chmod 600 {path}"
        )


def hold_folder(folder: Path) -> int | None:
    """Returns a lock on a folder, which ends with this process; None where there are no locks.

    Raises:
        BlockingIOError: if another process holds it.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _let_go(handle)
        raise
    except OSError:
        _let_go(handle)
        return None
    return handle


def _let_go(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def unwritable(out: Path, name: str, error: OSError) -> OptionError:
    """Returns the error that says why `out` cannot be written."""
    reason = error.strerror or str(error)
    return OptionError(
        f"{said(name, out)} cannot be written: {reason}; choose another place."
    )
