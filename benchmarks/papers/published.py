"""What is publicly known about a data set of the papers, and what its loader gives back."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from noisegate import Schema
from noisegate.errors import DataError


class Loaded(NamedTuple):
    """A data set, ready for the gate.

    Attributes:
        train: the private records.
        test: real records that the evaluation may use and no method sees.
        schema: public knowledge about both; no bound and no level was read off the records.
    """

    train: pa.Table
    test: pa.Table
    schema: Schema


@dataclass(frozen=True, kw_only=True)
class Published:
    """A data set as it is published.

    Attributes:
        name: as the command line says it.
        page: where the data set is described; nothing is downloaded.
        files: names that the file of records may have.
        train_records: how many training records the published set makes after the split, a public number.
        train_share: share of the records that are for training; None where the publisher split them.
    """

    name: str
    page: str
    files: tuple[str, ...]
    train_records: int
    train_share: float | None = None

    def find(self, folder: Path, *names: str) -> Path:
        """Returns the first of the files that is in the folder.

        Args:
            folder: as the user gave it.
            names: the forms in which the file may be there.

        Raises:
            DataError: if none of them is there.
        """
        found = next(
            (folder / name for name in names if (folder / name).is_file()), None
        )
        if found is None:
            raise DataError(
                f"{self.name}: there is no file {' or '.join(names)} in {folder}; the data set is described at "
                f"{self.page}. Get it from its publisher, unpack it there, and give the folder with --data"
            )
        return found

    def split(self, records: pa.Table, schema: Schema, *, seed: int) -> Loaded:
        """Returns the records in two parts, drawn by public randomness as the papers' code does.

        Args:
            records: all of them.
            schema: public knowledge about them.
            seed: public; the papers' repetition number.

        Raises:
            DataError: if a part would be empty.
        """
        assert self.train_share is not None  # sets that come split are not split again
        order = np.random.Generator(np.random.Philox(seed)).permutation(
            records.num_rows
        )
        cut = round(self.train_share * len(order))
        if not 0 < cut < len(order):
            raise DataError(
                f"{self.name}: {len(order)} record(s) cannot be split into training and test records"
            )
        return Loaded(
            train=records.take(order[:cut]),
            test=records.take(order[cut:]),
            schema=schema,
        )


SETS = {
    name: Published(name=name, **entry | {"files": tuple(entry["files"])})
    for name, entry in tomllib.loads(
        Path(__file__).with_name("sets.toml").read_text(encoding="utf-8")
    ).items()
}
"""The data sets of the papers by name."""
