"""Sizes that make sense, and files of weights with their SHA-256: a certificate names those that were used."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

from noisegate.errors import ModelError, OptionError


def check_sizes(network: str, **sizes: int) -> None:
    """Refuses a size of a network, by the name of its argument, that is no positive whole number."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"{name}={value!r} of {network} must be a positive whole number.")


def file_digest(path: Path, what: str) -> str:
    """Returns the digest of a file; one that cannot be read is a `ModelError` about `what`."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{what}: the file cannot be read ({error.strerror}).") from None


def check_digest(found: str, sha256: str | None, what: str, *, required: bool = True) -> str:
    """Returns the digest that was found of `what`, which must be the one that was given, if any or where required."""
    if sha256 is None and required:
        raise OptionError(
            f"{what} need sha256=DIGEST, so that a certificate says which ones they were; that of this file is {found}."
        )
    if sha256 not in (None, found):
        raise ModelError(
            f"{what}: SHA-256 {found} is not {sha256}, the one that was given; take the file that it belongs to, or "
            "correct the digest."
        )
    return found


def read_weights(path: Path | None, shipped: str, kind: str, sha256: str | None) -> tuple[bytes, str]:
    """Returns the content of a file, `shipped` in the package by default, and its digest."""
    what = f"{kind} {path or shipped}"
    try:
        content = (path or resources.files(__package__).joinpath(shipped)).read_bytes()
    except OSError as error:
        raise ModelError(f"{what}: the file cannot be read ({error.strerror}).") from None
    return content, check_digest(hashlib.sha256(content).hexdigest(), sha256, what, required=False)
