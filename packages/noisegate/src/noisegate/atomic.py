"""Files and folders that appear whole or not at all, and locks and permissions beside.

`new_file` and `new_folder` write into a hidden folder beside the target and rename what
is whole, so that neither an error nor a killed process leaves half of it::

    .model.3f9a1c07/     hidden, locked by the process that writes into it
          │ rename, when the block ends well
          ▼
    model/

What a killed process left is removed by the next one that makes the same target: a
process holds a lock on its hidden folder while it lives. The other functions look after
files that hold secrets, or that are appended to by several processes.
"""

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
# Up to the last "@", so that a password is hidden too that should have been encoded. A
# path has lost one of the slashes.
_PASSWORD_OF_USER = re.compile(r"(:/{1,2}[^:/@?#]*):.*@")
_PASSWORD_OPTION = re.compile(r"(password=)[^&]*", re.IGNORECASE)
# How /proc/self/mountinfo writes characters that would end a field or a line. The
# backslash comes first, as the others are written with it.
_MOUNTINFO_ESCAPES = (
    ("\\", r"\134"),
    (" ", r"\040"),
    ("\t", r"\011"),
    ("\n", r"\012"),
)
# The field of a line of mountinfo that says where something is mounted.
_MOUNT_POINT_FIELD = 4
_OWNER_ONLY = 0o700
_OF_OTHERS = 0o077
"""The permission bits of group and world."""


# What a new file or folder may be called.


def address(path: Path) -> str | None:
    """Returns the address that a path was made of, such as ``https://host/file``.

    Paths lose one of the slashes of an address, which is put back. Passwords are left
    out, since addresses stand in messages.

    Returns:
        The address; None for a place on a disk, as which a folder called ``a:`` counts
        where it exists.

    Examples:
        >>> from pathlib import Path
        >>> from noisegate.atomic import address
        >>> address(Path("ftp://me:secret@host/file"))
        'ftp://me@host/file'
    """
    if len(path.parts) < 2:
        return None
    scheme = path.parts[0]
    if not _SCHEME.fullmatch(scheme) or Path(scheme).exists():
        return None
    return without_password(f"{scheme}//{'/'.join(path.parts[1:])}")


def without_password(text: str) -> str:
    """Returns a text without the password of an address in it."""
    return _PASSWORD_OPTION.sub(r"\1***", _PASSWORD_OF_USER.sub(r"\1@", text))


def shown_path(path: Path) -> str:
    """Returns a path as its user wrote it, for messages, without a password."""
    return without_password(address(path) or str(path))


def check_on_disk(path: Path, description: str) -> None:
    """Requires a path on a disk, and not an address.

    Args:
        path: The path.
        description: What it is, at the start of the message.

    Raises:
        OptionError: if it is an address.
    """
    given_address = address(path)
    if given_address is not None:
        raise OptionError(
            f"{description} {given_address}: is an address, and this must be a path on a "
            "disk of this machine."
        )


def check_named(out: Path, name: str = "out") -> None:
    """Requires a path on a disk that ends in a name for something new.

    Args:
        out: The path.
        name: The option that it was given by, for messages.

    Raises:
        OptionError: if it is an address, has a control character, or ends in no name.
    """
    check_on_disk(out, said(name))
    if any(unicodedata.category(character) == "Cc" for character in str(out)):
        raise OptionError(
            f"{said(name)} {str(out)!r} holds a control character, such as a line end; "
            "leave it out."
        )
    if out.name in ("", "..") or not out.name.strip():
        raise OptionError(
            f"{said(name)} {str(out)!r} ends in no name that a new file or folder could "
            "have; add one."
        )


def check_outside(out: Path, data: str | Path, name: str = "out") -> None:
    """Requires that a new file does not lie among the records.

    The next run would read it with them.

    Args:
        out: The new file or folder.
        data: The records; of these only a folder can contain others.
        name: The option that `out` was given by, for messages.

    Raises:
        OptionError: if it would.
    """
    data_folder = os.path.realpath(data)
    target = os.path.realpath(out)
    if not os.path.isdir(data_folder):
        return
    if os.path.commonpath([data_folder, target]) == data_folder:
        raise OptionError(
            f"{said(name, out)}: lies in {data}, among the records, and would be read "
            "with them; choose another place."
        )


# New files and folders.


@contextmanager
def new_file(
    out: Path,
    name: str = "out",
    *,
    force: bool = False,
    room: int = 0,
    owner_only: bool = False,
) -> Iterator[Path]:
    """Yields a path to write to; the file appears at `out` when the block ends well.

    If the block fails, nothing is left.

    Args:
        out: The file. There must be none, unless `force`.
        name: The option that it was given by, for messages.
        force: Whether it may take the place of a file.
        room: How many bytes the disk must have for it when the block is entered: for
            what is paid for inside, and must not be lost.
        owner_only: Whether only the owner may read the file, instead of those whom the
            umask lets.

    Raises:
        OptionError: if the file exists, or cannot be written.
    """
    check_named(out, name)
    is_replaceable = force and out.is_file()
    if out.exists() and not is_replaceable:
        raise OptionError(
            f"{said(name, out)} exists; choose another name, or remove it first."
        )
    try:
        # Nobody else can open what may become private.
        with hidden_beside(out, _OWNER_ONLY) as folder:
            hidden_file = folder / out.name
            with hidden_file.open("wb") as file:
                file.write(bytes(room))
                file.flush()
                os.fsync(file.fileno())
            yield hidden_file
            if owner_only:
                close_to_others(hidden_file)
            hidden_file.rename(out)
    except OSError as error:
        raise unwritable(out, name, error) from None


@contextmanager
def new_folder(out: Path, name: str = "out") -> Iterator[Path]:
    """Yields an empty folder to fill; it appears at `out` when the block ends well.

    If the block fails, nothing is left.

    Args:
        out: The folder, which must not exist.
        name: The option that it was given by, for messages.

    Raises:
        OptionError: if it exists, or cannot be written.
    """
    check_named(out, name)
    if out.exists() or out.is_symlink():
        raise OptionError(
            f"{said(name, out)} exists; choose another name, or remove it first."
        )
    try:
        with hidden_beside(out) as hidden_folder:
            yield hidden_folder
            hidden_folder.rename(out)
    except OSError as error:
        raise unwritable(out, name, error) from None


@contextmanager
def hidden_beside(out: Path, mode: int = 0o777) -> Iterator[Path]:
    """Yields a new hidden folder beside a target; removes it unless it was renamed.

    What killed processes left for the same target is removed first. Where there are no
    locks on folders, as on Windows, that is kept, since nothing tells whether a process
    still writes to it.

    Args:
        out: The target.
        mode: Permissions of the hidden folder, of which the umask takes its part.
    """
    _remove_abandoned(out)
    while True:
        hidden_folder = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
        hidden_folder.mkdir(mode)
        lock = _lock(hidden_folder, wait=True)
        # Another process may have taken it for abandoned before it was locked.
        if hidden_folder.exists():
            break
        _unlock(lock)
    try:
        yield hidden_folder
    finally:
        shutil.rmtree(hidden_folder, ignore_errors=True)
        _unlock(lock)


def _remove_abandoned(out: Path) -> None:
    """Removes hidden folders for a target that no living process has locked."""
    hidden_name = re.compile(rf"\.{re.escape(out.name)}\.[0-9a-f]{{8}}")
    with suppress(OSError):
        for path in out.parent.iterdir():
            if not hidden_name.fullmatch(path.name) or path.is_symlink():
                continue
            lock = _lock(path)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                _unlock(lock)


def unwritable(out: Path, name: str, error: OSError) -> OptionError:
    """Returns the error that says why a path cannot be written.

    Args:
        out: The path.
        name: The option that it was given by.
        error: What the system said.
    """
    reason = error.strerror or str(error)
    return OptionError(
        f"{said(name, out)} cannot be written: {reason}; choose another place."
    )


def sync_folders(*folders: Path) -> None:
    """Writes to disk which files are in some folders.

    Some systems, such as Windows, cannot be asked to; they do it by themselves.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Locks on folders. They end with the process that holds them.


def hold_folder(folder: Path) -> int | None:
    """Locks a folder for this process.

    Returns:
        The lock; None where there are no locks on folders.

    Raises:
        BlockingIOError: if another process holds it.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _unlock(descriptor)
        raise
    except OSError:
        _unlock(descriptor)
        return None
    return descriptor


def _lock(folder: Path, *, wait: bool = False) -> int | None:
    """Locks a folder, if that can be done.

    Args:
        folder: The folder.
        wait: Whether to wait for another process that holds it.

    Returns:
        The lock; None where another process has it, the folder cannot be opened, or
        there are no locks on folders.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    mode = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    descriptor = None
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, mode)
        return descriptor
    _unlock(descriptor)
    return None


def _unlock(lock: int | None) -> None:
    """Gives a lock back, if there is one."""
    if lock is not None:
        os.close(lock)


# Files that are their owner's alone, or must have one name.


def close_to_others(path: Path) -> None:
    """Takes group and world their permissions on a file or folder that holds secrets.

    Raises:
        OSError: if it belongs to another user, who could give them back.
    """
    if sys.platform == "win32":
        return
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
    if status.st_mode & _OF_OTHERS:
        path.chmod(status.st_mode & _OWNER_ONLY)


def check_private(path: Path, name: str) -> None:
    """Requires that only its owner can read or write a file with a secret.

    Nothing is checked on Windows; nor of a file that cannot be found, about which
    whoever opens it will tell.

    Args:
        path: The file.
        name: The option that it was given by, for messages.

    Raises:
        OptionError: if others can: they may have the secret.
    """
    if sys.platform == "win32":
        return
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & _OF_OTHERS:
        raise OptionError(
            f"{said(name, path)} is open to other users of this machine (mode "
            f"{mode & 0o777:o}), who may have read it. Make a new one; or, if nobody "
            f"else had access to its folder: chmod 600 {path}"
        )


def second_name(path: Path) -> str | None:
    """Tells how a file can be reached by another name that is no symbolic link.

    A ledger's lock files lie beside the name that it is opened by, so two names of one
    ledger would not see each other's locks.

    Returns:
        The other name, and what to do about it; None if there is none.
    """
    try:
        link_count = path.stat().st_nlink
    except OSError:
        # There is no such file.
        return None
    if link_count > 1:
        return (
            f"has {link_count} names (hard links); keep one of them and remove the "
            f"others: find / -samefile {path}"
        )
    if _is_mount_point(path.resolve()):
        return "is mounted by itself, from elsewhere; mount the folder that it lies in"
    return None


def _is_mount_point(path: Path) -> bool:
    """Tells whether something is mounted at a path; on Linux, also a single file."""
    if os.path.ismount(path):
        return True
    escaped_path = str(path)
    for character, escape in _MOUNTINFO_ESCAPES:
        escaped_path = escaped_path.replace(character, escape)
    try:
        with open(
            "/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape"
        ) as mounts:
            mount_points = {line.split()[_MOUNT_POINT_FIELD] for line in mounts}
    except OSError:
        # Only Linux lists mounts.
        return False
    return escaped_path in mount_points
