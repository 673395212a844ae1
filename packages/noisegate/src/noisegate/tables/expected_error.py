"""What noise alone will do to the tables of a pairwise plan, from public facts: before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from noisegate.privacy.plan import CalibratedPlan
from noisegate.tables.design import PAIRS, SINGLES, Columns, Design


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
