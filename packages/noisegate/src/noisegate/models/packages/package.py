"""A folder to hand out: synthetic records, two machine-readable descriptions of them, and the certificate.

::

    DIR/
      synthetic.csv        or .parquet, under the name that was asked for
      datapackage.json     Frictionless Data Package: types, levels and bounds of columns, from the public schema
      croissant.json       the same for machine learning: MLCommons Croissant 1.0, JSON-LD
      certificate.json     what was asked of the private records, with what noise, and (ε, δ)
      certificate.md       the same in plain words
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noisegate.atomic import new_folder
from noisegate.errors import OptionError, said
from noisegate.models.folder import PAGE_FILE
from noisegate.models.packages.croissant import croissant
from noisegate.models.packages.frictionless import data_package
from noisegate.privacy.certificate_page import render
from noisegate.privacy.release import CERTIFICATE_FILE, Release
from noisegate.schema import Schema

DATA_PACKAGE, CROISSANT = "datapackage.json", "croissant.json"


@contextmanager
def new_package(folder: Path, name: str, release: Release, *, licence: str | None = None) -> Iterator[Path]:
    """Yields the file to write records to; the folder appears, described, when the block ends well, or not at all.

    Args:
        folder: New.
        name: Of the file of records within it; see `file_name`.
        release: What the model was fitted to.
            Croissant cannot say how CSV spells missing cells, where the schema wants them other than empty: take
            .parquet then.
        licence: Under which the records are handed out: an SPDX name such as CC-BY-4.0, or an address.

    Raises:
        OptionError: if the folder exists or cannot be written, or the licence is blank.
    """
    if licence is not None and not licence.strip():
        raise OptionError(
            f"licence {licence!r} is empty; name one, such as CC-BY-4.0, give its address, or leave it out."
        )
    with new_folder(folder, "package") as beside:
        yield beside / name
        certificate = release.certificate
        _write_json(beside / CERTIFICATE_FILE, certificate.to_json())
        (beside / PAGE_FILE).write_text(render(certificate), encoding="utf-8")
        files = {name: _sha256(beside / name) for name in (name, CERTIFICATE_FILE, PAGE_FILE)}
        size = (beside / name).stat().st_size
        described = data_package(name, release, sha256=files[name], size=size, licence=licence)
        _write_json(beside / DATA_PACKAGE, described)
        _write_json(beside / CROISSANT, croissant(name, release, files=files, licence=licence))


def file_name(schema: Schema, asked: Path | None) -> str:
    """Returns the name of the file of records in a package; an OptionError if what is asked for is none."""
    if asked is None:
        return "synthetic.csv" if schema.images is None else "synthetic.parquet"
    if asked.name != str(asked) or asked.suffix not in (".csv", ".parquet"):
        raise OptionError(
            f"{said('out', asked)}: with {said('package')}, it must be the name of a file in there, "
            "which ends in .csv or .parquet."
        )
    return asked.name


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
