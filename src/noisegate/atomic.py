"""Files and folders that appear when they are whole, and leave nothing behind if something stops the writing.

And files of which something else lies beside their name, so that they may have one name only.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisegate.errors import OptionError


@contextmanager
def new_file(out: Path, option: str = "--out", *, force: bool = False, room: int = 0) -> Iterator[Path]:
    """Yields a path to write to; the file appears at `out` when the block ends well, and leaves nothing if it fails.

    With `force`, it takes the place of a file that is there. With `room`, the disk is known to have so many bytes for
    it when the block is entered: for what is paid for inside and must not be lost.
    """
    check_named(out, option)
    if out.exists() and not (force and out.is_file()):
        raise OptionError(f"{option} {out} exists; choose another name, or remove it first.")
    beside = _beside(out)
    try:
        with beside.open("wb") as file:
            file.write(bytes(room))
            file.flush()
            os.fsync(file.fileno())
        yield beside
        beside.rename(out)
    except OSError as error:
        raise unwritable(out, option, error) from None
    finally:
        if beside.exists():
            beside.unlink()


@contextmanager
def new_folder(out: Path, option: str = "--out") -> Iterator[Path]:
    """Yields an empty folder to fill; it appears at `out` when the block ends well, and leaves nothing if it fails."""
    check_named(out, option)
    if out.exists() or out.is_symlink():
        raise OptionError(f"{option} {out} exists; choose another name, or remove it first.")
    beside = _beside(out)
    try:
        beside.mkdir()
        yield beside
        beside.rename(out)
    except OSError as error:
        raise unwritable(out, option, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def check_named(out: Path, option: str = "--out") -> None:
    """Requires a path to end in a name, under which something new can be made."""
    if out.name in ("", "..") or not out.name.strip():
        raise OptionError(f"{option} {str(out)!r} ends in no name that a new file or folder could have; add one.")


def second_name(path: Path) -> str | None:
    """Returns how a file can be reached by another name that is no symbolic link, and what to do; None if it cannot."""
    try:
        links, real = path.stat().st_nlink, str(path.resolve())
        if links > 1:
            return f"has {links} names (hard links); keep one of them and remove the others: find / -samefile {path}"
        mounted = os.path.ismount(real)
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            for code, letter in ((r"\134", "\\"), (r"\040", " "), (r"\011", "\t"), (r"\012", "\n")):
                real = real.replace(letter, code)
            mounted = mounted or any(line.split()[4] == real for line in mounts)
    except OSError:  # no such file, or not Linux
        mounted = path.exists() and os.path.ismount(path)
    return "is mounted by itself, from elsewhere; mount the folder that it lies in" if mounted else None


def sync_folders(*folders: Path) -> None:
    """Writes to disk which files are in some folders, where the system has that; else it does so by itself."""
    for folder in folders if hasattr(os, "O_DIRECTORY") else ():
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_outside(out: Path, data: str | Path, option: str = "--out") -> None:
    """Checks that what is made does not come to lie among the records, where the next run would meet it."""
    folder, made = os.path.realpath(data), os.path.realpath(out)
    if os.path.isdir(folder) and os.path.commonpath([folder, made]) == folder:
        raise OptionError(
            f"{option} {out}: lies in {data}, among the records, and would be read with them; choose another place."
        )


def _beside(out: Path) -> Path:
    return out.with_name(f".{out.name}.{secrets.token_hex(4)}")


def unwritable(out: Path, option: str, error: OSError) -> OptionError:
    """Returns the error that says why `out` cannot be written."""
    reason = error.strerror or str(error)
    return OptionError(f"{option} {out} cannot be written: {reason}; choose another place.")
