"""Estimates a schema from private records: bounds of numbers, and levels of texts.

Like `Gate`, a `SchemaGate` reserves the whole cost before the first record is read,
counts in integers and adds noise once (G-15)::

    numeric columns  first look: bins between powers of two, or decades
                         ──► counts ──► noise ──► which bins hold records
                     second look: cells of even width within these bins
                         ──► counts ──► noise ──► bounds
    columns of text  counts of levels (distinct texts)
                         ──► noise ──► levels above a threshold

How to read it: `plan_discovery` chooses the noise, `SchemaGate.discover` is the main
line, `_find_bounds` and `_find_levels` are its two halves.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import CalibrationError, OptionError
from noisegate.gate.discovery import findings
from noisegate.gate.discovery.exact_counts import (
    FINE,
    BinEdges,
    ExactCounts,
    HashPartition,
    bin_edges,
    read_counts,
)
from noisegate.gate.discovery.findings import Counts, Finding, OccupiedBins
from noisegate.gate.discovery.partial import Gap, read_file_form
from noisegate.gate.discovery.raw import RawTable
from noisegate.gate.sums import Progress
from noisegate.gate.transaction import (
    Access,
    Answering,
    Reservation,
    Transaction,
    check_public_record_count,
    resolve_ledger,
)
from noisegate.gate.unbooked import UnbookedRun
from noisegate.ledger.ledger import Ledger
from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import (
    Adjacency,
    Gaussian,
    Sampler,
    Thresholded,
    gaussian_of,
)
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.schema_certificate import (
    RECORD,
    SCHEMA_HASH,
    discovery_sensitivity,
    schema_hash,
)
from noisegate.schema import Schema
from noisegate.schema.files import DISCOVERED_PREFIX

METHOD = "schema discovery"
"""Name of the method in the ledger and in the certificate."""
ASSUMED_RECORDS = 1000
"""Number of records that a table is assumed to have, if no public number is given."""

# A plan is refused if a bin, or a level, needs more than this part of all records to be
# seen above the noise. Measured in benchmarks/discovery.
_MAX_BIN_FRACTION = 1 / 6
_MAX_LEVEL_FRACTION = 1 / 4
# Part of δ that the threshold of levels may use. It is small, as the Gaussian noise
# hardly gains by δ, and what is used of the δ in a ledger is gone.
_THRESHOLD_FRACTION = 0.1
# Probability, whatever δ is, that any level of a single record is released. It is
# small, as there may be many such levels, if every record has one of its own, such as a
# name.
_MAX_THRESHOLD_ODDS = 1e-9
# More levels than a column can have, which is one for each record. Certificates state
# it, so it must never change.
_MAX_LEVELS = 2**41 - 1


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """An estimated schema, and what it cost."""

    toml: str
    """The schema file, with a note on each column that was discovered. It may be
    published."""
    certificate: Certificate
    """The queries and their noise; it holds the hash of `toml`."""
    doubts: Mapping[str, str] = field(default_factory=dict)
    """By column, what should be checked before it is used. The file has it too."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """By discovered column, the comment in the file: which levels were merged, and how
    many records lack a value."""

    @property
    def schema(self) -> Schema:
        """The schema in the file.

        Raises:
            SchemaError: if no column could be described, which the file explains.
        """
        return Schema.loads(self.toml, origin="the discovered schema")


@dataclass(frozen=True, kw_only=True)
class NoisyCounts:
    """Counts of a discovery with their noise.

    In each query, a record adds 1 to at most one count of each column. So it changes
    the counts of k columns by at most √k in L2 norm (G-13, G-15).

    Attributes:
        event: The counts with their noise, and the threshold of those of levels.
    """

    event: Gaussian | Thresholded

    @property
    def coordinates(self) -> int:
        """How many counts are released, at most."""
        return gaussian_of(self.event).coordinates

    def check(self, plan: Plan) -> None:
        """Checks nothing: `check_events` compares a certificate with its columns."""

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns nothing more than the plan states of its budget."""
        return {}


# Names of the queries of a discovery.
_MAGNITUDES = "magnitudes"
_CELLS = "cells"
_LEVELS = "levels"


def plan_discovery(
    budget: Budget, *, magnitudes: Sequence[int], cells: int, texts: int
) -> Plan:
    """Plans a discovery: chooses the least noise that keeps a budget; reads no data.

    The budget is shared between the queries so that every count gets about the same
    noise. The queries are: a first and a second count of the numeric columns, and the
    levels of the columns of text.

    Args:
        budget: The privacy guarantee that all counts together must meet.
        magnitudes: For each numeric column, the number of counts in the first look.
        cells: Number of counts in the second look, the same for each numeric column.
        texts: Number of columns of text.

    Returns:
        The plan: first and second count of the numeric columns, if there are any, and
        levels, if there are columns of text.

    Raises:
        OptionError: if there is no column to discover.
        CalibrationError: if ε is too large or too small for the noise.
    """
    # How many counts a record adds to: two looks at a number, one level of a text.
    counts_per_record = 2 * len(magnitudes) + texts
    if not counts_per_record:
        raise OptionError(
            "there is nothing to discover: bounds and levels of all columns are given."
        )
    # Probability that any level of a single record reaches the threshold. It is
    # subtracted from ε and δ, and the rest is for the Gaussian noise.
    if texts:
        odds = min(_THRESHOLD_FRACTION * budget.delta, _MAX_THRESHOLD_ODDS)
    else:
        odds = 0.0
    noise_epsilon = budget.epsilon + math.log1p(-odds)
    # μ of the Gaussian guarantee (GDP), a little smaller as a margin for rounding.
    mu = accounting.mu_for(noise_epsilon, budget.delta - odds) * (1 - 1e-9)

    counts: list[NoisyCounts] = []
    if magnitudes:
        sensitivity, std = _noise_of_query(
            budget, mu, columns=len(magnitudes), counts_per_record=counts_per_record
        )
        sizes = {_MAGNITUDES: sum(magnitudes), _CELLS: cells * len(magnitudes)}
        for name, size in sizes.items():
            look = Gaussian(
                name=name,
                sensitivity=sensitivity,
                coordinates=size,
                noise_std=std,
                sampler=Sampler.DISCRETE_GAUSSIAN,
            )
            counts.append(NoisyCounts(event=look))
    if texts:
        sensitivity, std = _noise_of_query(
            budget, mu, columns=texts, counts_per_record=counts_per_record
        )
        # A level of one record reaches the threshold if its noise is at least threshold
        # − RECORD. Discrete noise is at least m at most as often as continuous noise is
        # at least m − 1 (`accounting.threshold_probability`). That is 1 of the 2; the
        # other 1, and the slightly smaller odds, are a margin for rounding.
        quantile = -NormalDist().inv_cdf(odds / texts * (1 - 1e-6))
        levels = Gaussian(
            name=_LEVELS,
            sensitivity=sensitivity,
            noise_std=std,
            coordinates=texts * _MAX_LEVELS,
            sampler=Sampler.DISCRETE_GAUSSIAN,
        )
        above_threshold = Thresholded(
            event=levels,
            threshold=RECORD + 2 + math.ceil(quantile * std),
            weight=RECORD,
            keys=texts,
        )
        counts.append(NoisyCounts(event=above_threshold))
    return Plan(budget=budget, mechanisms=tuple(counts))


def _noise_of_query(
    budget: Budget, mu: float, *, columns: int, counts_per_record: int
) -> tuple[int, float]:
    """Computes sensitivity and noise of one query of a discovery.

    Args:
        budget: The budget, for its adjacency.
        mu: μ of the Gaussian guarantee (GDP) that all queries together may spend.
        columns: Number of columns of the query. A record adds to one count of each.
        counts_per_record: How many counts a record adds to, over all queries.

    Returns:
        Sensitivity, and standard deviation of the noise, in grid units.

    Raises:
        CalibrationError: if the noise is outside what is proved.
    """
    sensitivity = discovery_sensitivity(columns, budget.adjacency)
    # Each query gets a part of μ², in proportion to the counts a record adds to in it.
    ideal_std = sensitivity / (mu * math.sqrt(columns / counts_per_record))
    std = math.sqrt(ideal_std**2 + accounting.SMOOTHING_VARIANCE) * (1 + 1e-12)
    if not accounting.MINIMUM_STD <= std <= accounting.MAXIMUM_STD:
        raise CalibrationError(
            f"discovery would need noise of {std:g} grid units, outside [16, 2^50]; "
            "change epsilon."
        )
    return sensitivity, std


class SchemaGate(Answering):
    """Private records with a privacy budget, before there is a schema.

    It estimates the schema: bounds of numeric columns and levels of columns of text.

    Args:
        data: Path of a file or folder, or a table in memory, as for `Gate`.
        epsilon: ε of the guarantee.
        delta: δ of the guarantee.
        kinds: Kinds of columns by name, such as "integer"; public knowledge, never
            taken from types of the data.
        columns: File of public facts, TOML: a schema in which bounds or levels may be
            left out.
        label: Name of the label. Every record has it, unless `columns` states ``missing
            = true``.
        adjacency: "add-remove" or "replace-one".
        records: Number of records, if it is public. "replace-one" requires it, and it
            is checked. With "add-remove" it is an estimate: a plan with too much noise
            for it is refused.
        unit: Name of the privacy unit (what one record stands for), for the
            certificate.
        ledger: Ledger, its path or its URL; None for no ledger.
        dataset: Name of the data set in the ledger.
        show_values: Whether errors may quote private values.
        progress: Called with the number of records read so far, for the operator only,
            until the first noise is drawn. If it raises an error, the run stops and has
            cost nothing.

    Attributes:
        plan: The queries with their noise.

    Raises:
        UserError: if an argument is unusable, or a column has no kind.
    """

    def __init__(
        self,
        data: Any,
        *,
        epsilon: float,
        delta: float = 1e-5,
        kinds: Mapping[str, str] | None = None,
        columns: str | Path | None = None,
        label: str | None = None,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        records: int | None = None,
        unit: str = "record",
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
        show_values: bool = False,
        progress: Progress | None = None,
    ) -> None:
        budget = Budget(
            epsilon=epsilon,
            delta=delta,
            adjacency=Adjacency.parse(adjacency),
            unit=unit,
        )
        check_public_record_count(records, budget.adjacency)
        columns_file = None if columns is None else Path(columns)
        self._table = RawTable(
            data, show_values=show_values, layout=read_file_form(columns_file)
        )
        self._partial_schema = self._table.describe_columns(
            kinds or {}, columns_file, label
        )
        gaps = self._partial_schema.gaps
        # The columns to discover, by name: numeric ones, and those of text.
        self._numeric = {gap.name: gap for gap in gaps if gap.numeric}
        self._texts = {gap.name: gap for gap in gaps if not gap.numeric}
        # Bins of the first look at each numeric column.
        self._edges = {name: bin_edges(gap.kind) for name, gap in self._numeric.items()}
        self._records = records
        self.dataset = dataset
        plan = plan_discovery(
            budget,
            # One more count is of the records without a value.
            magnitudes=[edges.size + 1 for edges in self._edges.values()],
            cells=FINE,
            texts=len(self._texts),
        )
        unbooked_run = (
            UnbookedRun(plan, self._partial_schema.columns) if dataset is None else None
        )
        access = Access(
            plan=plan,
            source=self._table,
            public_record_count=records,
            method=METHOD,
            public={**self._partial_schema.to_json(), "records": records},
            reservation=Reservation(resolve_ledger(ledger, dataset), dataset),
            single_use_lock=threading.Lock(),
            progress=progress,
            unbooked_run=unbooked_run,
        )
        super().__init__(Transaction(access))
        events = {event.name: event for event in plan.events}
        # The looks at the numeric columns, and the levels of the columns of text; None
        # where there are no such columns.
        self._magnitudes: Any = events.get(_MAGNITUDES)
        self._cells: Any = events.get(_CELLS)
        self._levels: Any = events.get(_LEVELS)
        self._check_noise(epsilon)

    @property
    def noise_records(self) -> float:
        """Largest standard deviation of the noise on a count, in records.

        It is about the same for all counts.
        """
        events = (self._magnitudes, self._cells, self._levels)
        return max(gaussian_of(event).noise_std for event in events if event) / RECORD

    @property
    def threshold_records(self) -> float | None:
        """Noisy number of records from which on a level is released.

        None if there are no columns of text.
        """
        if self._levels is None:
            return None
        return float(self._levels.threshold / RECORD)

    def _check_noise(self, epsilon: float) -> None:
        """Refuses a plan whose noise would hide too much, by public facts alone.

        A bin or a level is seen only if its count is above the noise. If that takes
        more than a sixth (bins) or a quarter (levels) of all records, the plan is
        refused.

        Args:
            epsilon: ε of the guarantee, for the message.

        Raises:
            OptionError: naming the number of records, or the ε, that would do.
        """
        records = self._records or ASSUMED_RECORDS
        # Of levels and bins, that which is further beyond its limit.
        subject = "a level"
        needed_records = self.threshold_records or 0.0
        max_fraction = _MAX_LEVEL_FRACTION
        if self._magnitudes is not None:
            bins = max(edges.size for edges in self._edges.values())
            std = self._magnitudes.noise_std / RECORD
            bin_records = findings.noise_threshold(std, bins)
            if bin_records / _MAX_BIN_FRACTION > needed_records / max_fraction:
                subject = "a part of the values of one magnitude"
                needed_records = bin_records
                max_fraction = _MAX_BIN_FRACTION
        if needed_records <= max_fraction * records:
            return

        if self._records:
            assumption = f"records={self._records}"
        else:
            assumption = f"without records=, {ASSUMED_RECORDS:,} are assumed"
        enough_epsilon = epsilon * needed_records / max_fraction / records
        # The message rounds it upwards to two significant digits.
        unit = 10.0 ** (math.floor(math.log10(enough_epsilon)) - 1)
        column_count = len(self._numeric) + len(self._texts)
        raise OptionError(
            f"epsilon={epsilon:g}: every count gets noise of about "
            f"±{2 * self.noise_records:,.0f} records, so {subject} is seen only "
            f"where some {needed_records:,.0f} records have it; that should be 1 in "
            f"{1 / max_fraction:.0f} of them, and {assumption}. Nothing was spent. It "
            f"takes about {needed_records / max_fraction:,.0f} records; or a larger "
            f"epsilon, of about {math.ceil(enough_epsilon / unit) * unit:.3g}; or "
            f"fewer columns than these {column_count} (kind 'ignore', or bounds and "
            "levels that are publicly known); or a public estimate of the number of "
            "records, if there are more."
        )

    def discover(self) -> Discovery:
        """Estimates all bounds and levels, once.

        The cost is reserved first. The records are read in two or more passes, and each
        query gets its noise. The reservation is confirmed after the first pass: an
        error before costs nothing; after it the cost stays spent, since what later
        passes count follows from noisy counts.

        Returns:
            The estimated schema with its certificate.

        Raises:
            DataError: if the data cannot be read, has no records, or a cell is not of
                its kind; nothing is spent then.
            BudgetRefusedError: if the ledger refuses.
        """
        with self._transaction.reading_records():
            first_counts = self._count_records(
                self._edges,
                dict.fromkeys(self._texts, HashPartition()),
                self._transaction.access.progress,
            )
            self._transaction.confirm()
            found_columns = self._find_bounds(first_counts) | self._find_levels(
                first_counts
            )
            text = findings.schema_text(
                self._partial_schema, found_columns, self._headline()
            )
        doubts = {name: finding.doubt for name, finding in found_columns.items()}
        certificate = self._transaction.certify(
            {SCHEMA_HASH: schema_hash(text.encode())}
        )
        return Discovery(
            toml=text,
            certificate=certificate,
            doubts={name: doubt for name, doubt in doubts.items() if doubt},
            notes={name: finding.note for name, finding in found_columns.items()},
        )

    def _headline(self) -> str:
        """Returns the first lines of the schema file: the guarantee and the noise."""
        budget = self.plan.budget
        return (
            f"{DISCOVERED_PREFIX}({budget.epsilon:g}, {budget.delta:g})-differential privacy, "
            f"{budget.adjacency.value}, unit: {budget.unit}.\n"
            "Names and kinds of the columns were assumed public. Bounds and levels "
            f"have noise of ±{2 * self.noise_records:.0f} records on each count.\n"
            "What is publicly known may be corrected here. Never correct it by looking "
            "at the private records."
        )

    def _find_bounds(self, first_counts: ExactCounts) -> dict[str, Finding]:
        """Estimates the bounds of all numeric columns, in two looks.

        The first look counts records in bins between powers of two, or decades. Its
        noisy counts decide which bins are divided into cells; the second look counts
        records in these.

        What a change must keep: everything after the first look is computed from noisy
        counts, and both queries have the planned number of counts, whatever was found.

        Args:
            first_counts: Exact counts of the first look; private.

        Returns:
            What was found of each numeric column, by name.
        """
        if self._magnitudes is None or self._cells is None:
            return {}
        # Standard deviation of the noise in both looks, in records.
        std = self._magnitudes.noise_std / RECORD
        # The counts of a column are those of its bins, and last its missing values.
        exact_counts = {
            name: np.append(first_counts.bins[name], first_counts.missing[name])
            for name in self._numeric
        }
        noisy_counts = self._add_noise_to_counts(exact_counts, self._magnitudes)

        occupied: dict[str, OccupiedBins] = {}
        for name, edges in self._edges.items():
            bins = findings.find_occupied_bins(
                noisy_counts[name][:-1], std, edges.zero_bin
            )
            if bins is not None:
                occupied[name] = bins
        cell_edges = {
            name: findings.choose_cells(
                self._edges[name], bins, noisy_counts[name][:-1], std
            )
            for name, bins in occupied.items()
        }

        second_counts = self._count_records(cell_edges, {}).bins if cell_edges else {}
        # All columns get the planned number of counts, also those that have fewer cells
        # or no second look: the size of the query must not depend on records.
        exact_cells = {name: np.zeros(FINE, dtype=np.int64) for name in self._numeric}
        for name, counts in second_counts.items():
            exact_cells[name][: len(counts)] = counts
        noisy_cells = self._add_noise_to_counts(exact_cells, self._cells)

        return {
            name: self._finding_of_column(
                gap,
                occupied.get(name),
                noisy_counts[name],
                cell_edges.get(name),
                noisy_cells[name],
                std,
            )
            for name, gap in self._numeric.items()
        }

    def _finding_of_column(
        self,
        gap: Gap,
        occupied: OccupiedBins | None,
        noisy_counts: Counts,
        cell_edges: BinEdges | None,
        noisy_cells: Counts,
        std: float,
    ) -> Finding:
        """Computes the bounds of one numeric column from the counts of both looks.

        Args:
            gap: The column.
            occupied: The range of bins of the first look that holds records; None if no
                bin exceed the noise.
            noisy_counts: Noisy counts of the first look, and last of records without a
                value, (bins + 1,), in records.
            cell_edges: Cells of the second look; None if there was none.
            noisy_cells: Noisy counts of the second look, (`FINE`,), in records; those
                behind the cells are of nothing.
            std: Standard deviation of the noise on each count, in records.

        Returns:
            The column with its bounds; no column if nothing exceed the noise.
        """
        if occupied is None or cell_edges is None:
            return Finding(
                column=None,
                note=(
                    "ignored: no value could be distinguished from the noise; "
                    "state bounds, if you know them"
                ),
            )
        edges = self._edges[gap.name]
        bin_counts = noisy_counts[:-1]
        missing = float(noisy_counts[-1])
        cells = noisy_cells[: cell_edges.size]
        bounds = findings.find_bounds(
            edges, occupied, bin_counts, cell_edges, cells, std
        )
        doubt = findings.describe_records_beyond(
            edges, occupied, bin_counts, cells, std
        )
        if not doubt:
            doubt = findings.describe_wide_gap(gap.kind, edges, occupied)
        return findings.column_from_bounds(gap, bounds, missing, std, doubt=doubt)

    def _find_levels(self, first_counts: ExactCounts) -> dict[str, Finding]:
        """Estimates the levels, which are distinct texts, of all columns of text.

        A level is released if its count with noise is above the threshold. A pass
        counts only as many levels as fit into memory and defers the others, by
        partitions of their hash. So the records are read again, one partition of each
        column in a pass, until all levels are counted.

        What a change must keep: each level is counted in one pass only, so that it gets
        noise once; and nothing is used of a level below the threshold.

        Args:
            first_counts: Exact counts of the first pass; private.

        Returns:
            What was found of each column of text, by name.
        """
        event = self._levels
        if event is None:
            return {}
        missing = self._missing_above_threshold(first_counts, event)
        levels: dict[str, dict[str, float]] = {name: {} for name in self._texts}
        deferred: dict[str, list[HashPartition]] = {name: [] for name in self._texts}
        pass_counts = first_counts
        while True:
            for name, counter in pass_counts.levels.items():
                names, exact_counts = counter.counted_levels()
                indices, noisy_counts = self._counts_above_threshold(
                    exact_counts, event
                )
                for index, count in zip(indices, noisy_counts, strict=True):
                    levels[name][names[index]] = float(count)
                deferred[name] += counter.deferred
            partitions = {
                name: remaining.pop()
                for name, remaining in deferred.items()
                if remaining
            }
            if not partitions:
                break
            pass_counts = self._count_records({}, partitions)

        threshold = event.threshold / RECORD
        missing_markers = self._partial_schema.missing_values
        return {
            name: findings.column_from_levels(
                gap,
                levels[name],
                missing.get(name),
                threshold,
                missing_markers,
                self._records,
            )
            for name, gap in self._texts.items()
        }

    def _missing_above_threshold(
        self, first_counts: ExactCounts, event: Thresholded
    ) -> dict[str, float]:
        """Counts the records without a text, where that is above the noisy threshold.

        A record without a value in a column has no level there. So "missing" is treated
        as one more level of the column, at no further cost.

        Args:
            first_counts: Exact counts of the first pass; private.
            event: The noise and the threshold.

        Returns:
            Noisy number of records without a value, by column; only columns where it is
            above the threshold.
        """
        missing: dict[str, float] = {}
        for name in self._texts:
            exact_count = first_counts.missing[name]
            # A level that no record has is not counted, and neither is this one.
            exact_counts = [exact_count] if exact_count else []
            _, noisy_counts = self._counts_above_threshold(
                np.array(exact_counts, dtype=np.int64), event
            )
            for noisy_count in noisy_counts:
                missing[name] = float(noisy_count)
        return missing

    def _count_records(
        self,
        edges: Mapping[str, BinEdges],
        partitions: Mapping[str, HashPartition],
        progress: Progress | None = None,
    ) -> ExactCounts:
        """Counts records by bin and level in one pass, and checks their number.

        Args:
            edges: Bins of each numeric column that is counted in this pass.
            partitions: Levels to count of each column of text in this pass.
            progress: Called with the number of records read so far.

        Returns:
            Exact counts; private.
        """
        counts = read_counts(
            self._table, self._partial_schema, edges, partitions, progress
        )
        self._transaction.check_record_count(counts.records)
        return counts

    def _add_noise_to_counts(
        self, exact_counts: Mapping[str, npt.NDArray[np.int64]], event: Gaussian
    ) -> dict[str, Counts]:
        """Adds the noise of a query to the counts of all columns together.

        Args:
            exact_counts: Counts of each column, in records; private.
            event: The query with its noise and the planned number of counts.

        Returns:
            Noisy counts of each column, in records.

        Raises:
            OptionError: if there are more or fewer counts than planned.
        """
        vector = np.concatenate(list(exact_counts.values()))
        if vector.size != event.coordinates:
            raise OptionError(
                f"event {event.name!r}: {vector.size} counts were planned as "
                f"{event.coordinates}."
            )
        noisy_vector = self._transaction.add_noise(vector * RECORD, event) / RECORD
        sizes = [len(counts) for counts in exact_counts.values()]
        columns = np.split(noisy_vector, np.cumsum(sizes)[:-1])
        return dict(zip(exact_counts, columns, strict=True))

    def _counts_above_threshold(
        self, counts: npt.NDArray[np.int64], event: Thresholded
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Selects the counts that, with their noise, are at least the threshold.

        Args:
            counts: Exact counts, in records; private.
            event: The query with its noise and threshold.

        Returns:
            Indices of these counts, and the noisy counts in records; both (reached,).
        """
        indices, noisy_counts = self._transaction.noisy_counts_above(
            counts * RECORD, event
        )
        return indices, noisy_counts / RECORD


def discover_schema(data: Any, *, epsilon: float, **options: Any) -> Discovery:
    """Estimates the schema of a private table with part of its privacy budget.

    Args:
        data: A path, or a table in memory, as for `synthesize`.
        epsilon: ε of the guarantee; 0.1 is enough for about ten thousand records.
        options: Options of `SchemaGate`, in particular ``kinds={"age": "integer",
            ...}``, ``ledger`` and ``dataset``.

    Returns:
        The schema with its certificate.

    Raises:
        UserError: if an argument or the data is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses the cost.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import discover_schema
        >>> table = pa.table({"age": list(range(20, 70)) * 40})
        >>> discovery = discover_schema(table, epsilon=5.0, kinds={"age": "integer"})
        >>> names = [column.name for column in discovery.schema.columns]
        >>> names, discovery.certificate.epsilon
        (['age'], 5.0)
    """
    return SchemaGate(data, epsilon=epsilon, **options).discover()
