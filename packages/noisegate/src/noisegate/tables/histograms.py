"""Histograms of numeric columns, which are bought first: on fine cells and on coarse ones, and what they say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisegate.features.binning import Coarse, Histogram, NumericBins, atom_cells, denoise
from noisegate.schema import NumericColumn
from noisegate.tables.released import Table

HISTOGRAMS, COARSE = "fine", "coarse"
Floats = npt.NDArray[np.float64]
Tables = Mapping[int, Table]

# About how many cells a coarse histogram has, beside the fine one.
_GROUPS = 32


@dataclass(frozen=True, kw_only=True)
class Histograms:
    """The cells of the histograms of a table.

    Attributes:
        columns: All numeric columns.
        fine: The fine cells of each.
        bought: Columns of which histograms are bought.
    """

    columns: Sequence[NumericColumn]
    fine: tuple[NumericBins, ...]
    bought: tuple[int, ...]

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """How many fine cells a coarse one holds in each column, a power of two; 1 where the fine ones are few."""
        return tuple(_group(len(bins.cuts) + 1) for bins in self.fine)

    @cached_property
    def coarse(self) -> tuple[NumericBins, ...]:
        """The coarse cells of each numeric column."""
        return tuple(
            NumericBins(bins.cuts[group - 1 :: group], bins.nullable)
            for bins, group in zip(self.fine, self.groups, strict=True)
        )

    def asked(self) -> dict[str, tuple[NumericBins, ...]]:
        """Returns the cells of each query, by its name."""
        if not self.bought:
            return {}
        return {HISTOGRAMS: self.fine} | ({COARSE: self.coarse} if self.long else {})

    @cached_property
    def long(self) -> tuple[int, ...]:
        """Columns with a coarse histogram too."""
        return tuple(place for place in self.bought if self.groups[place] > 1)

    def denoised(
        self, tables: Mapping[str, Tables], *, scaled: bool, again: Tables | None = None
    ) -> dict[int, Histogram]:
        """Returns the denoised histogram of each bought column, missing left out.

        Args:
            tables: The histograms of each query, by column.
            scaled: Whether to look at how many records there are.
            again: Further counts on the coarse cells.
        """
        found, records = {}, records_of(tables) if scaled and tables else None
        for place, table in tables.get(HISTOGRAMS, {}).items():
            few, more = tables.get(COARSE, {}).get(place), (again or {}).get(place)
            present = slice(None, -1 if self.fine[place].nullable else None)
            if few is None:
                table = _together(table, more)
                coarse = None
            else:
                few = _together(few, more)
                coarse = Coarse(noisy=few.counts[present], group=self.groups[place], noise_std=few.noise_std)
            atoms = atom_cells(self.columns[place], self.fine[place])
            found[place] = denoise(table.counts[present], table.noise_std, coarse, atoms, records=records)
        return found

    def shares(self, found: Mapping[int, Histogram], bins: Sequence[NumericBins], missing: float) -> dict[int, Floats]:
        """Returns the shares of `bins` in each bought column; missing values, in no histogram, have `missing`."""
        shares = {}
        for place, histogram in found.items():
            fine, few = self.fine[place], bins[place]
            begins = [0, *(np.searchsorted(fine.cuts, few.cuts) + 1)]
            masses = histogram.masses if histogram.masses.any() else np.diff((0.0, *fine.cuts, 1.0))
            shares[place] = np.add.reduceat(masses, begins) / masses.sum()
            if few.nullable:
                shares[place] = np.append(shares[place] * (1 - missing), missing)
        return shares


def records_of(tables: Mapping[str, Tables]) -> float:
    """Returns how many records histograms say there are, at least one standard deviation of the noise on that."""
    # A sum over few cells has less noise.
    best = {**tables.get(HISTOGRAMS, {}), **tables.get(COARSE, {})}.values()
    precision = [1 / (table.counts.size * table.noise_std**2) for table in best]
    total = sum(float(table.counts.sum()) * weight for table, weight in zip(best, precision, strict=True))
    return max(total / sum(precision), 1 / math.sqrt(sum(precision)))


def _group(cells: int) -> int:
    return 1 if cells <= 2 * _GROUPS else 1 << math.ceil(math.log2(cells / _GROUPS))


def _together(one: Table, other: Table | None) -> Table:
    """Returns two measurements of the same counts as one, weighted by inverse variance."""
    if other is None:
        return one
    weight = one.noise_std**-2 / (one.noise_std**-2 + other.noise_std**-2)
    noise_std = (one.noise_std**-2 + other.noise_std**-2) ** -0.5
    return replace(one, counts=weight * one.counts + (1 - weight) * other.counts, noise_std=noise_std)
