"""The Adult table as integer codes, for the α-way marginals of DP-MERF (supplement M.2) and DP-HP (Table 1).

    from discretised import SCHEMA, discretise, domain
    codes = discretise(read_table("train.csv", Schema.from_toml(SCHEMA)), "bounded")
    distances = code_distances(discretise(synthetic, "bounded"), codes, domain("bounded"))

The papers use two versions of the table. ``bounded`` (D) has one code per level and per age, and equal steps of the
other numbers; ``simple`` (D*, at most 16 codes a column) merges further. Table 1 of DP-HP repeats DP-MERF's figures for
D, so it is about ``bounded``. The constants below are those of the papers' public code; nothing is read off the
records, and what is beyond a bound falls in the last step.

Known, from the code that discretises generated rows in the same way: the order of the columns, the number of codes of
each (:func:`domain`), every bound and every step. Checked against the authors' two arrays (`authors_codes.py`): their
22,561 rows are all records of the training file by this rule, four of them up to the number of a rare country that no
other record tells, and the 15 columns of the simple array follow from those of the other without an exception.
Different: the authors' levels of categorical columns have numbers of their own, here those of adult_discretised.toml;
the first ones of race and country, the only ones that are told from the others in D*, are the same. That moves no
distance between full marginals, and :func:`published_distance` only a little. They have the 22,561 training records of
SDGym, a draw of the 32,561 of the training file (`table_1.py --codes` takes the same); education-num is coded 0 to 15
and not 1 to 16, ages from 17 and not from 0; "unknown" is a level of native-country as well as its 41 countries, 42
codes here and 41 there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from noisegate import Schema
from noisegate.errors import DataError, OptionError
from noisegate.schema import CodedColumn, Integer
from noisegate_evaluate.reading import read_levels

SCHEMA = Path(__file__).with_name("adult_discretised.toml")

Version = Literal["bounded", "simple"]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """A number in equal steps: min(value, upper) // width, with 0 where the value is lowest."""

    upper: int
    width: int
    lower: int = 0

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The code of each value."""
        steps: np.ndarray = (
            np.clip(values, self.lower, self.upper) // self.width
            - self.lower // self.width
        )
        return steps

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.upper // self.width - self.lower // self.width + 1


# Age by years, weights by 50,000, gains by 1,500, losses by 250, hours by 10.
BOUNDED: Mapping[str, Steps] = {
    "age": Steps(lower=17, upper=90, width=1),
    "fnlwgt": Steps(upper=500_000, width=50_000),
    "education-num": Steps(lower=1, upper=16, width=1),
    "capital-gain": Steps(upper=15_000, width=1_500),
    "capital-loss": Steps(upper=2_500, width=250),
    "hours-per-week": Steps(upper=99, width=10),
}
# On the codes of BOUNDED, but for the age, which starts from the years.
SIMPLE: Mapping[str, Steps] = {
    "age": Steps(lower=17, upper=70, width=10),
    "race": Steps(upper=1, width=1),
    "capital-gain": Steps(upper=1, width=1),
    "capital-loss": Steps(upper=1, width=1),
    "hours-per-week": Steps(upper=6, width=2),
    "native-country": Steps(upper=1, width=1),
}


def discretise(table: pa.Table, version: Version) -> np.ndarray:
    """Codes of the Adult table, real or synthetic.

    Args:
        table: with the columns of adult_discretised.toml, as :func:`noisegate.sources.frames.read_table` reads them.
        version: "bounded" or "simple".

    Returns:
        int64 of shape (records, 15), in the order of :func:`domain`.

    Raises:
        OptionError: there is no such version.
        DataError: a column is missing, or a value has no code.
    """
    schema = _schema(version)
    columns = []
    for column in schema.columns:
        if isinstance(column, Integer):
            values = table.column(column.name).to_numpy().astype(np.float64)
            if not np.isfinite(values).all():
                raise DataError(
                    f"column {column.name!r} has a value that is no number; expected whole numbers"
                )
            coarse = version == "simple" and column.name == "age"
            codes = (SIMPLE if coarse else BOUNDED)[column.name].codes(
                np.rint(values).astype(np.int64)
            )
        else:
            assert isinstance(column, CodedColumn)
            levels = read_levels(table, column, schema)
            if (levels.codes >= levels.count + column.missing).any():
                raise DataError(
                    f"column {column.name!r} has a value that is none of its levels"
                )
            codes, coarse = levels.codes, False
        if version == "simple" and not coarse and column.name in SIMPLE:
            codes = SIMPLE[column.name].codes(codes)
        columns.append(codes)
    return np.column_stack(columns)


def domain(version: Version) -> dict[str, int]:
    """The columns and how many codes each has.

    Args:
        version: "bounded" or "simple".

    Returns:
        15 entries, in the order of the table.

    Raises:
        OptionError: there is no such version.
    """
    schema = _schema(version)
    sizes = {
        column.name: BOUNDED[column.name].size
        if isinstance(column, Integer)
        else len(column.levels) + column.missing  # type: ignore[union-attr]
        for column in schema.columns
    }
    return (
        sizes
        if version == "bounded"
        else sizes | {name: steps.size for name, steps in SIMPLE.items()}
    )


def published_distance(
    synthetic: np.ndarray,
    real: np.ndarray,
    alpha: int,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """The figure that the papers' public evaluation code gives for "α-way marginals", for comparison with their tables.

    It differs from the mean total variation over the α-way marginals in two ways, both read in that code:
    its list of column sets grows once more than α says, so each holds α + 1 columns; and a column with K codes gets
    K - 1 equal bins between the lowest and the highest code of the array at hand, so its two highest codes count as one
    and a column with two codes (sex, income, and in D* four more) does not count at all. The first raises the figure,
    the second lowers it. Compare published figures with this one only, and nothing else with it.

    Args:
        synthetic: codes, one row per record.
        real: codes of the real table, which also say the range of each column, as in that code.
        alpha: as the papers' tables name it.
        progress: told how many column sets are done, and how many there are.

    Returns:
        The mean over all sets of α + 1 columns.

    Raises:
        OptionError: alpha is below 1 or there are fewer than α + 1 columns.
    """
    columns = real.shape[1]
    if not 1 <= alpha < columns:
        raise OptionError(
            f"alpha is {alpha}; expected 1 to {columns - 1} for {columns} columns"
        )
    bins = real.max(axis=0) - real.min(axis=0)
    clipped = np.clip(synthetic, real.min(axis=0), real.max(axis=0))
    binned = [_binned(codes, bins) for codes in (clipped, real)]
    total = math.comb(columns, alpha + 1)
    distances = []
    for subset in itertools.combinations(range(columns), alpha + 1):
        distances.append(_distance(binned, bins, subset))
        progress(len(distances), total)
    return float(np.mean(distances))


def _schema(version: str) -> Schema:
    if version not in get_args(Version):
        raise OptionError(
            f"version is {version!r}; expected one of {', '.join(map(repr, get_args(Version)))}"
        )
    return Schema.from_toml(SCHEMA)


def _binned(codes: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Each column in its equal bins between its own lowest and highest code, as numpy.histogramdd does."""
    columns = []
    for values, count in zip(codes.T, np.maximum(bins, 1), strict=True):
        edges = np.histogram_bin_edges(values, bins=int(count))
        # The highest code belongs to the last bin.
        columns.append(
            np.minimum(np.searchsorted(edges, values, side="right") - 1, count - 1)
        )
    return np.column_stack(columns)


def _distance(
    binned: Sequence[np.ndarray], bins: np.ndarray, subset: Sequence[int]
) -> float:
    sizes = np.maximum(bins[list(subset)], 1)
    flat = [
        np.ravel_multi_index(tuple(codes[:, list(subset)].T), tuple(sizes))
        for codes in binned
    ]
    shares = [
        np.bincount(places, minlength=int(np.prod(sizes))) / len(places)
        for places in flat
    ]
    return float(0.5 * np.abs(shares[0] - shares[1]).sum())
