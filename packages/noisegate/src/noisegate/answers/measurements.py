"""All that a release states about one table of records, and the best estimates of it.

::

    tables of counts ──┐
    histograms ────────┼──► Measurements.best(columns) ──► NoisyTable
    second moments ────┘                .total         ──► number of records

Whoever asks for counts of some columns asks `best`: it projects every table that holds
the columns, and combines the projections by inverse variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations

from noisegate.answers.domain import Domain, Level
from noisegate.answers.noisy_moments import NoisyMoments
from noisegate.answers.noisy_table import NoisyNumber, NoisyTable


@dataclass(frozen=True, eq=False)
class Measurements:
    """What a release states of one table of records.

    Attributes:
        domain: The columns, and the cells that answers are about.
        tables: Noisy tables with independent noise. Those of a column on other cells
            than the domain's, such as fine histograms, are found by `histograms`.
        moments: Second moments, where they were measured.
        known_total: The number of records where it is public; else None.

    Examples:
        >>> import numpy as np
        >>> from noisegate.answers.domain import Domain, Level
        >>> from noisegate.answers.measurements import Measurements
        >>> from noisegate.answers.noisy_table import NoisyTable
        >>> domain = Domain.of({"sex": ("f", "m"), "ill": (False, True)})
        >>> pair = NoisyTable.of(domain, np.array([[6.0, 2], [7, 5]]), noise_std=1)
        >>> single = NoisyTable.of(
        ...     domain.project(["ill"]), np.array([16.0, 7.0]), noise_std=1
        ... )
        >>> best = Measurements(domain, (pair, single)).best(["ill"])
        >>> best.counts.round(2), best.variance.round(2)
        (array([15.,  7.]), array([0.67, 0.67]))
    """

    domain: Domain
    tables: tuple[NoisyTable, ...]
    moments: NoisyMoments | None = None
    known_total: float | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that some table holds, in the order of the domain."""
        measured = {name for table in self._all_tables for name in table.domain.names}
        return tuple(name for name in self.domain.names if name in measured)

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of columns that some table holds together, each in domain order."""
        names = self.domain.names
        index_of = {name: index for index, name in enumerate(names)}
        measured = {
            pair
            for table in self._all_tables
            for pair in combinations(
                sorted(index_of[name] for name in table.domain.names), 2
            )
        }
        return tuple(
            (names[first], names[second]) for first, second in sorted(measured)
        )

    def best(self, columns: Sequence[str]) -> NoisyTable:
        """Returns the counts of some columns by everything that holds them.

        A single numeric column that no table holds is counted by its finest histogram.

        Args:
            columns: The columns, in the order of the axes to be; none for the number of
                records.

        Raises:
            LookupError: if no table holds all of them.
        """
        key = tuple(columns)
        if key not in self._best_tables:
            estimates = [table.project(key) for table in self.tables_of(key)]
            if not estimates and len(key) == 1:
                cells = self.domain.by_name[key[0]]
                finest = self.histograms(key[0])[:1]
                estimates = [table.group(key[0], cells) for table in finest]
            if not estimates:
                raise LookupError(f"{' and '.join(key)} were not measured together.")
            self._best_tables[key] = reduce(NoisyTable.combine, estimates)
        return self._best_tables[key]

    def of_group(self, column: str, level: Level) -> Measurements:
        """Returns what is stated of the records with one level of a column.

        Args:
            column: A column of the domain.
            level: One of its cells.

        Returns:
            The tables that hold the column, each at this level.
        """
        return Measurements(
            self.domain,
            tuple(
                table.condition(**{column: level})
                for table in self._tables_by_column.get(column, [])
            ),
        )

    def least_noisy(self, columns: Sequence[str]) -> NoisyTable:
        """Returns the counts of some columns by the one table that says them best.

        It has more noise than `best`. Verdicts on a fit rest on it, as their words were
        chosen with its noise.

        Raises:
            LookupError: if no table holds all of the columns.
        """
        projections = [table.project(columns) for table in self.tables_of(columns)]
        if not projections:
            raise LookupError(f"{' and '.join(columns)} were not measured together.")
        return min(projections, key=lambda table: float(table.variance.max()))

    @cached_property
    def total(self) -> NoisyNumber:
        """The number of records by everything that was released, or as it is known."""
        if self.known_total is not None:
            return NoisyNumber(self.known_total, 0.0)
        return self.best(()).total

    def histograms(self, column: str) -> list[NoisyTable]:
        """Returns the tables of a single column on other cells than the domain's.

        Returns:
            The finest first.
        """
        cells = self.domain.by_name[column]
        tables = [
            table
            for table in self.tables
            if table.domain.names == (column,) and table.domain.cells[0] != cells
        ]
        return sorted(tables, key=lambda table: -table.domain.size)

    def tables_of(self, columns: Sequence[str]) -> list[NoisyTable]:
        """Returns the tables that hold some columns, on the cells of the domain."""
        wanted = self.domain.project(columns)
        holders = [self._tables_by_column.get(name, []) for name in columns]
        # Only those that hold the rarest column can hold all.
        candidates = min(holders, key=len, default=self._all_tables)
        return [table for table in candidates if table.domain.contains(wanted)]

    @cached_property
    def _all_tables(self) -> list[NoisyTable]:
        """All tables on the cells of the domain, with those that are second moments.

        Fine histograms are left out: cells are cut from them, so what they say of a
        cell is a little more than there is.
        """
        tables = [table for table in self.tables if self.domain.contains(table.domain)]
        if self.moments is not None:
            tables.extend(self.moments.tables(self.domain))
        return tables

    @cached_property
    def _tables_by_column(self) -> dict[str, list[NoisyTable]]:
        """The tables that hold each column."""
        by_column: dict[str, list[NoisyTable]] = {}
        for table in self._all_tables:
            for name in table.domain.names:
                by_column.setdefault(name, []).append(table)
        return by_column

    @cached_property
    def _best_tables(self) -> dict[tuple[str, ...], NoisyTable]:
        """The best tables that were asked for, by their columns."""
        return {}
