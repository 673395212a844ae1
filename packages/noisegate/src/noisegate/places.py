"""Addresses where a path is expected: only records are read from elsewhere than a disk, from a store that speaks S3."""

from __future__ import annotations

import re
from pathlib import Path

from noisegate.errors import OptionError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def address(path: Path) -> str | None:
    """Returns a path as the address that it is, as in https://...; None for a place on a disk."""
    if path.parts and _SCHEME.fullmatch(path.parts[0]) and (len(path.parts) > 1 and not Path(path.parts[0]).exists()):
        return "//".join([path.parts[0], "/".join(path.parts[1:])])
    return None


def check_on_disk(path: Path, what: str) -> None:
    """Requires a path to be no address."""
    shown = address(path)
    if shown is not None:
        raise OptionError(f"{what} {shown}: is an address, and this must be a path on a disk of this machine.")
