"""One digest for a folder of files, such as a pipeline of many networks."""

from __future__ import annotations

import hashlib
from pathlib import Path

from noisegate.errors import ModelError


def folder_digest(folder: Path) -> str:
    """Returns the SHA-256 of the names and contents of all files in a folder and the folders in it.

    It is that of the lines ``DIGEST  NAME``, in order of the names, as ``sha256sum`` prints them.

    Raises:
        ModelError: if there is no such folder, it is empty, or a file cannot be read.
    """
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.as_posix())
    if not files:
        raise ModelError(f"{folder}: there is no such folder, or it is empty.")
    whole = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelError(f"{path} cannot be read ({error.strerror}).") from None
        whole.update(f"{found}  {path.relative_to(folder).as_posix()}\n".encode())
    return whole.hexdigest()
