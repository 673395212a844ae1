"""How far records of a pairwise plan will be from the real ones, from public facts: before anything is spent.

The noise on the share that half the cells of a one-way table hold together (`expected_error`) says it best: over
tables, ε and numbers of records, the odds of a record to be out of place grew with a power of it. A fit denoises, so
the power is below 1. The constants are those of `benchmarks/tables/verdict.py`, which says how well they do on tables
that they were not chosen on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from noisegate.privacy.plan import CalibratedPlan
from noisegate.tables.design import PAIRS, SINGLES, Columns, Design
from noisegate.tables.released import Answered
from noisegate.verdict import MISPLACED, Word, word_of_misplaced


@dataclass(frozen=True, kw_only=True)
class TableError:
    """What the noise does to tables of one kind; shares are of all records.

    Attributes:
        tables: How many are asked, at most.
        cells: Cells of one, in the mean.
        cell: Standard deviation of the noise on the share of one cell.
        half: On the share that half of a table's cells hold together: what a question of yes or no is off by.
        variation: Expected total variation of a table from the true one, before anything is denoised; above 1 a table
            is more noise than records.
    """

    tables: int
    cells: float
    cell: float
    half: float
    variation: float


def expected_error(plan: CalibratedPlan, records: int) -> dict[str, TableError]:
    """Returns what noise does to one-way tables and to pairs, by the names of their queries; pairs only if asked.

    Args:
        plan: Made by the pairwise method.
        records: Their number, as far as the public knows; at least 1.

    Examples:
        >>> from noisegate import Budget, Pairwise, Schema
        >>> from noisegate.schema import Boolean
        >>> plan = Pairwise().plan(Schema([Boolean(name=name) for name in "abcd"]), Budget(epsilon=1.0))
        >>> {name: (error.tables, round(error.half, 3)) for name, error in expected_error(plan, 1000).items()}
        {'one-way': (4, 0.016), 'pairs': (6, 0.015)}
    """
    noise = {release.query.name: (release.noise_std_natural, release.query.tables) for release in plan.releases}
    return table_errors(plan.design, noise, records)


def table_errors(
    design: Design, noise: Mapping[str, tuple[float, int | None]], records: float
) -> dict[str, TableError]:
    """Returns the same for a design whose queries have this noise, by their names.

    Each has a standard deviation, and how many tables share it; None for as many as the design has.
    """
    label = () if design.label is None else (design.label,)
    sizes = design.about_sizes
    kinds: dict[str, tuple[Columns, ...]] = {SINGLES: tuple((column,) for column in design.alone)}
    if PAIRS in noise:
        # While pairs are not chosen yet, any of them may be.
        kinds[PAIRS] = design.screened_pairs if design.pairs is None else (*design.pairs, *design.triples)
    return {
        name: _error(
            [math.prod(sizes[column] for column in (*table, *label)) for table in tables],
            noise[name][1] or len(tables),
            noise[name][0],
            records,
        )
        for name, tables in kinds.items()
    }


def _error(cells: list[int], tables: int, noise_std: float, records: float) -> TableError:
    # A query's norm of 1 is shared by its tables, each record being in one cell of each.
    cell = noise_std * math.sqrt(tables) / records
    return TableError(
        tables=tables,
        cells=sum(cells) / len(cells),
        cell=cell,
        half=cell * sum(math.sqrt(size / 2) for size in cells) / len(cells),
        # The mean of |z| is √(2/π) of its standard deviation.
        variation=cell * sum(cells) / len(cells) * math.sqrt(2 / math.pi) / 2,
    )


# The noise at which half the records are out of place, and the power.
_PAIRS, _SINGLES = (0.75, 0.775), (3.0, 0.725)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What the noise of a plan will do to the records that are made under it.

    Attributes:
        records: How many real ones there are.
        noise: Standard deviation of the noise on the share of half of a column's cells, before anything is denoised.
        columns: How many columns there are, without a label whose classes are told apart.
        paired: Whether pairs of columns are measured; where not, columns come out independent of each other.
    """

    records: float
    noise: float
    columns: int
    paired: bool

    @property
    def singles(self) -> float:
        """Expected share of records that are out of place in a single column."""
        return _misplaced(self.noise, *_SINGLES)

    @property
    def pairs(self) -> float:
        """Expected share of records that are out of place in a pair of columns."""
        return _misplaced(self.noise, *_PAIRS)

    @property
    def word(self) -> Word:
        """What that is called; where columns come out independent of each other, "rough" at best."""
        if self.paired or self.columns == 1:
            return word_of_misplaced(self.pairs if self.paired else self.singles)
        return "noise" if self.singles > MISPLACED["rough"] else "rough"

    def takes(self) -> dict[Word, float]:
        """Returns how many records each word takes that can be had."""
        law = _PAIRS if self.paired else _SINGLES
        possible = MISPLACED if self.paired or self.columns == 1 else ("rough",)
        needed = {word: self.records * self.noise / _noise_for(most, *law) for word, most in MISPLACED.items()}
        return {word: records for word, records in needed.items() if word in possible}


def forecast(plan: CalibratedPlan, records: float) -> Forecast:
    """Returns what to expect of a plan of the pairwise method for a number of records.

    Examples:
        >>> from noisegate import Budget, Pairwise, Schema
        >>> from noisegate.schema import Boolean
        >>> plan = Pairwise().plan(Schema([Boolean(name=name) for name in "abcd"]), Budget(epsilon=1.0))
        >>> forecast(plan, 10).word, forecast(plan, 100_000).word
        ('noise', 'good')
        >>> few = forecast(plan, 10)
        >>> round(forecast(plan, few.takes()["good"]).pairs, 6)
        0.04
    """
    return _forecast(expected_error(plan, 1), plan.design, records)


def forecast_of(design: Design, release: Answered, records: float) -> Forecast:
    """Returns what to expect of a release of a design, for a number of records that the release says or is public."""
    noise = {name: (std, None) for name, std in release.noise_std.items()}
    return _forecast(table_errors(design, noise, 1), design, records)


def _forecast(errors: Mapping[str, TableError], design: Design, records: float) -> Forecast:
    noise = errors[SINGLES].half / records
    return Forecast(records=records, noise=noise, columns=len(design.columns), paired=PAIRS in errors)


def _misplaced(noise: float, half: float, power: float) -> float:
    grown: float = (noise / half) ** power
    return grown / (1 + grown)


def _noise_for(misplaced: float, half: float, power: float) -> float:
    noise: float = half * (misplaced / (1 - misplaced)) ** (1 / power)
    return noise
