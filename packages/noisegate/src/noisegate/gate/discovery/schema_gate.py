"""The door for questions that come before there is a schema: what bounds and levels do the columns have (G-15)?

Like `Gate`, it reserves the whole cost before the first record is read, counts in
integers and adds noise once. Numeric columns are looked at twice; levels of text leave
only if their noisy count reaches a threshold (G-15).
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
from noisegate.gate.discovery.findings import Counts, Finding, Occupied
from noisegate.gate.discovery.raw import RawTable
from noisegate.gate.session import (
    Access,
    Reservation,
    Session,
    check_public_records,
    ledger_of,
)
from noisegate.gate.sums import Progress
from noisegate.gate.unbooked import Unbooked
from noisegate.ledger.ledger import Ledger
from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import (
    Adjacency,
    Event,
    GaussianEvent,
    Sampler,
    ThresholdedGaussianEvent,
)
from noisegate.privacy.plan import Budget, PricedPlan
from noisegate.privacy.schema_certificate import (
    RECORD,
    SCHEMA_HASH,
    schema_hash,
    sensitivity_of,
)
from noisegate.schema import Schema
from noisegate.schema.files import DISCOVERED_PREFIX

METHOD = "schema discovery"
ASSUMED_RECORDS = (
    1000  # how many records a table is taken to have at least where nobody says
)

# What one bin, or one level, needs to be seen may be this part of all records: see benchmarks/discovery.
_PART_OF_BIN, _PART_OF_LEVEL = 1 / 6, 1 / 4
# Part of δ that the threshold may use; the noise needs little, and what the threshold uses of a ledger's δ is gone.
_THRESHOLD_PART = 0.1
# Where every record has a level of its own, as names, each is seen with this probability at most, whatever δ is.
_LARGEST_ODDS = 1e-9
# More levels than a column can have, one for each record. Certificates hold it, so it stays as it is.
_MOST_LEVELS = 2**41 - 1


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """A schema that was bought, and what it cost."""

    toml: str
    """The schema file, with a note on each column that was discovered. It may be published."""
    certificate: Certificate
    """What was asked, with what noise; its hash is of `toml`."""
    doubts: Mapping[str, str] = field(default_factory=dict)
    """By column, what is to be looked at before it is used; the file says it too."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """By column that was discovered, what the file says of it: what was merged, and how many records lack a value."""

    @property
    def schema(self) -> Schema:
        """The schema in the file; a `SchemaError` if no column could be described, which the file explains."""
        return Schema.loads(self.toml, origin="the discovered schema")


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscoveryPlan(PricedPlan):
    """Questions with noise that together cost at most `budget`, calibrated before a record is read.

    A record touches at most one cell of each column, so that k columns have norm √k: *magnitudes* and then *cells* of
    the numeric columns (G-13); and *levels* of the columns of text, of which those above a threshold leave (G-15).
    """

    magnitudes: GaussianEvent | None  # first look at the numeric columns, or None
    cells: (
        GaussianEvent | None
    )  # second look, inside the bounds that the first one found, or None
    levels: (
        ThresholdedGaussianEvent | None
    )  # counts of levels above a threshold, or None

    @property
    def events(self) -> tuple[Event, ...]:
        """What will be run, for the ledger and the certificate."""
        return tuple(
            event
            for event in (self.magnitudes, self.cells, self.levels)
            if event is not None
        )

    @property
    def noise_records(self) -> float:
        """Standard deviation of the noise on each count, in records; about the same for all questions."""
        return (
            max(
                event.noise_std
                for event in (self.magnitudes, self.cells, self.levels)
                if event
            )
            / RECORD
        )

    @property
    def threshold_records(self) -> float | None:
        """Noisy number of records that a level needs to be seen; None if no levels are asked for."""
        return None if self.levels is None else self.levels.threshold / RECORD


def plan_discovery(
    budget: Budget, *, magnitudes: Sequence[int], cells: int, texts: int
) -> DiscoveryPlan:
    """Returns the plan with the least noise that keeps `budget`; every count gets about the same noise."""
    # Of each numeric column, `magnitudes` are the cells of the first look and `cells` those of the second; `texts`
    # columns have levels to discover.
    touched = 2 * len(magnitudes) + texts
    if not touched:
        raise OptionError(
            "there is nothing to discover: bounds and levels of all columns are given."
        )
    odds = min(_THRESHOLD_PART * budget.delta, _LARGEST_ODDS) if texts else 0.0
    mu = accounting.mu_for(budget.epsilon + math.log1p(-odds), budget.delta - odds) * (
        1 - 1e-9
    )
    first = second = levels = None
    if magnitudes:
        sensitivity, std = _noise(budget, mu, columns=len(magnitudes), touched=touched)
        noise: dict[str, Any] = {
            "sensitivity": sensitivity,
            "noise_std": std,
            "sampler": Sampler.DISCRETE_GAUSSIAN,
        }
        first = GaussianEvent(name="magnitudes", coordinates=sum(magnitudes), **noise)
        second = GaussianEvent(
            name="cells", coordinates=cells * len(magnitudes), **noise
        )
    if texts:
        sensitivity, std = _noise(budget, mu, columns=texts, touched=touched)
        levels = ThresholdedGaussianEvent(
            name="levels",
            sensitivity=sensitivity,
            noise_std=std,
            # Reached by a level of one record when its noise reaches threshold − RECORD; see accounting.threshold_odds.
            threshold=RECORD
            + 2
            + math.ceil(-NormalDist().inv_cdf(odds / texts * (1 - 1e-6)) * std),
            weight=RECORD,
            keys=texts,
            coordinates=texts * _MOST_LEVELS,
            sampler=Sampler.DISCRETE_GAUSSIAN,
        )
    return DiscoveryPlan(budget=budget, magnitudes=first, cells=second, levels=levels)


def _noise(
    budget: Budget, mu: float, *, columns: int, touched: int
) -> tuple[int, float]:
    """Returns sensitivity and noise, in grid units, of counts in which a record touches one cell of each column."""
    sensitivity = sensitivity_of(columns, budget.adjacency)
    ideal = sensitivity / (mu * math.sqrt(columns / touched))
    std = math.sqrt(ideal**2 + accounting.SMOOTHING_VARIANCE) * (1 + 1e-12)
    if not accounting.MINIMUM_STD <= std <= accounting.MAXIMUM_STD:
        raise CalibrationError(
            f"discovery would need noise of {std:g} grid units, outside [16, 2^50]; change epsilon."
        )
    return sensitivity, std


class SchemaGate(Session):
    """Private records behind, a budget in front, and no schema yet; all that is not named here is as for `Gate`.

    ``kinds`` of columns by name are public knowledge, never taken from types of the data. The file ``columns`` of
    public facts, TOML, is a schema in which bounds or levels may be left out. Every record has the ``label``, unless
    ``columns`` says ``missing = true``. ``records``, their number where it is public, is required for "replace-one",
    and checked; for "add-remove" it is an estimate, which tells whether the noise would leave anything to be seen.
    ``progress`` is called with the number of records read so far, for the operator only, until the first noise is
    drawn: by raising it stops a run that has cost nothing yet. A UserError if any of these is unusable, or a column has
    no kind. `plan` says what will be asked, with its noise.
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
        check_public_records(records, budget.adjacency)
        self._table = RawTable(data, show_values=show_values)
        self._partial = self._table.described(
            kinds or {}, None if columns is None else Path(columns), label
        )
        self._numeric = {gap.name: gap for gap in self._partial.gaps if gap.numeric}
        self._texts = {gap.name: gap for gap in self._partial.gaps if not gap.numeric}
        self._edges = {name: bin_edges(gap.kind) for name, gap in self._numeric.items()}
        self._records = records
        self.dataset = dataset
        plan = plan_discovery(
            budget,
            # One more bin counts the records without a value.
            magnitudes=[edges.size + 1 for edges in self._edges.values()],
            cells=FINE,
            texts=len(self._texts),
        )
        access = Access(
            plan=plan,
            source=self._table,
            records=records,
            method=METHOD,
            public={**self._partial.to_json(), "records": records},
            reservation=Reservation(ledger_of(ledger, dataset), dataset),
            single_use_lock=threading.Lock(),
            progress=progress,
            unbooked=Unbooked(plan, self._partial.columns) if dataset is None else None,
        )
        super().__init__(access)
        self._check_noise(epsilon)

    def _check_noise(self, epsilon: float) -> None:
        """Refuses a plan whose noise would hide too much, from public facts alone."""
        records, least, part = (
            self._records or ASSUMED_RECORDS,
            self.plan.threshold_records or 0.0,
            _PART_OF_LEVEL,
        )
        if self.plan.magnitudes is not None:
            bins = max(edges.size for edges in self._edges.values())
            seen = findings.threshold(self.plan.magnitudes.noise_std / RECORD, bins)
            least, part = max(
                (least, part), (seen, _PART_OF_BIN), key=lambda one: one[0] / one[1]
            )
        if least <= part * records:
            return
        what = (
            "a level"
            if part == _PART_OF_LEVEL
            else "a part of the values of one magnitude"
        )
        there_are = (
            f"records={self._records}"
            if self._records
            else f"without records=, {ASSUMED_RECORDS:,} are assumed"
        )
        enough = epsilon * least / part / records
        unit = 10.0 ** (math.floor(math.log10(enough)) - 1)
        raise OptionError(
            f"epsilon={epsilon:g}: every count gets noise of about ±{2 * self.plan.noise_records:,.0f} records, so "
            f"{what} is seen only where some {least:,.0f} records have it; that should be 1 in {1 / part:.0f} of them, "
            f"and {there_are}. Nothing was spent. It takes about {least / part:,.0f} records; or a larger epsilon, of "
            f"about {math.ceil(enough / unit) * unit:.3g}; or fewer columns than these "
            f"{len(self._numeric) + len(self._texts)} (kind 'ignore', or bounds and levels that are publicly known); "
            "or a public estimate of the number of records, if there are more."
        )

    def discover(self) -> Discovery:
        """Asks everything, once: reserves the cost, reads the records in two passes or more, and adds the noise.

        Raises:
            DataError: if the data cannot be read, has no records, or a cell is not of its kind; nothing is spent then.
            BudgetRefusedError: if the ledger refuses.
        """
        with self._asking():
            first = self._read(
                self._edges,
                dict.fromkeys(self._texts, HashPartition()),
                self._access.progress,
            )
            self._confirm()
            found = self._bounds(first) | self._levels(first)
            budget = self.plan.budget
            headline = (
                f"{DISCOVERED_PREFIX}({budget.epsilon:g}, {budget.delta:g})-differential "
                f"privacy, {budget.adjacency.value}, unit: {budget.unit}.\nNames and kinds "
                "of the columns were assumed public. Bounds and levels have noise of "
                f"±{2 * self.plan.noise_records:.0f} records on each count.\nWhat is publicly "
                "known may be corrected here. Never correct it by looking at the private records."
            )
            text = findings.schema_text(self._partial, found, headline)
        doubts = {name: one.doubt for name, one in found.items() if one.doubt}
        notes = {name: one.note for name, one in found.items()}
        certificate = self._certify({SCHEMA_HASH: schema_hash(text.encode())})
        return Discovery(toml=text, certificate=certificate, doubts=doubts, notes=notes)

    def _bounds(self, first: ExactCounts) -> dict[str, Finding]:
        if self.plan.magnitudes is None or self.plan.cells is None:
            return {}
        std = self.plan.magnitudes.noise_std / RECORD
        exact = {
            name: np.append(first.bins[name], first.missing[name])
            for name in self._numeric
        }
        noisy = self._counts(exact, self.plan.magnitudes)
        seen: dict[str, Occupied] = {}
        for name, coarse in self._edges.items():
            found = findings.occupied(noisy[name][:-1], std, coarse.zero)
            if found is not None:
                seen[name] = found
        finer = {
            name: findings.second_look(self._edges[name], found, noisy[name][:-1], std)
            for name, found in seen.items()
        }
        second = self._read(finer, {}).bins if finer else {}
        exact = {name: np.zeros(FINE, dtype=np.int64) for name in self._numeric}
        for name, counts in second.items():
            exact[name][: len(counts)] = counts
        cells, told = self._counts(exact, self.plan.cells), dict[str, Finding]()
        for name, gap in self._numeric.items():
            first_counts, missing = noisy[name][:-1], float(noisy[name][-1])
            if name not in seen:
                unseen = "ignored: no value stood out of the noise; if you know bounds, write them"
                told[name] = Finding(column=None, note=unseen)
                continue
            coarse, fine = self._edges[name], finer[name]
            inside = cells[name][: fine.size]
            ends = findings.bounds(coarse, seen[name], first_counts, fine, inside, std)
            doubt = findings.beyond(
                coarse, seen[name], first_counts, inside, std
            ) or findings.between(gap.kind, coarse, seen[name])
            told[name] = findings.from_bounds(gap, ends, missing, std, doubt=doubt)
        return told

    def _levels(self, first: ExactCounts) -> dict[str, Finding]:
        """Returns what the columns of text hold; reads on while there are levels that no pass has counted."""
        event = self.plan.levels
        if event is None:
            return {}
        found: dict[str, dict[str, float]] = {name: {} for name in self._texts}
        missing: dict[str, float] = {}
        # A record without a value has no level, so to lack one is a key like others, and costs no more.
        for name in self._texts:
            absent = np.array(
                [first.missing[name]] if first.missing[name] else [], dtype=np.int64
            )
            for _, count in zip(*self._above(absent, event), strict=True):
                missing[name] = float(count)
        counted = first
        waiting: dict[str, list[HashPartition]] = {name: [] for name in self._texts}
        while True:
            for name, counter in counted.levels.items():
                names, counts = counter.counts()
                for place, count in zip(*self._above(counts, event), strict=True):
                    found[name][names[place]] = float(count)
                waiting[name] += counter.deferred
            partitions = {name: left.pop() for name, left in waiting.items() if left}
            if not partitions:
                break
            counted = self._read({}, partitions)
        least, tokens = event.threshold / RECORD, self._partial.missing_values
        return {
            name: findings.from_levels(
                gap, found[name], missing.get(name), least, tokens, self._records
            )
            for name, gap in self._texts.items()
        }

    def _read(
        self,
        edges: Mapping[str, BinEdges],
        partitions: Mapping[str, HashPartition],
        progress: Progress | None = None,
    ) -> ExactCounts:
        counted = read_counts(self._table, self._partial, edges, partitions, progress)
        self._check_records(counted.records)
        return counted

    def _counts(
        self, exact: Mapping[str, npt.NDArray[np.int64]], event: GaussianEvent
    ) -> dict[str, Counts]:
        """Returns the counts with noise, in records; all columns are one vector."""
        together = np.concatenate(list(exact.values()))
        if together.size != event.coordinates:
            raise OptionError(
                f"event {event.name!r}: {together.size} counts were planned as {event.coordinates}."
            )
        noisy = self._noisy(together * RECORD, event) / RECORD
        return dict(
            zip(
                exact,
                np.split(noisy, np.cumsum([len(part) for part in exact.values()])[:-1]),
                strict=True,
            )
        )

    def _above(
        self, counts: npt.NDArray[np.int64], event: ThresholdedGaussianEvent
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Returns the places of the counts that pass, and these counts with their noise, in records."""
        places, noisy = self._noisy_above(counts * RECORD, event)
        return places, noisy / RECORD


def discover_schema(data: Any, *, epsilon: float, **options: Any) -> Discovery:
    """Returns a schema of a private table, estimated with part of its privacy budget.

    The data is a path, or a table in memory, as for `synthesize`; an ``epsilon`` of 0.1 suits some ten thousand
    records. Options are those of `SchemaGate`, most of all ``kinds={"age": "integer", ...}``, ``ledger`` and
    ``dataset``.

    Raises:
        UserError: if anything given is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import discover_schema
        >>> table = pa.table({"age": list(range(20, 70)) * 40})
        >>> found = discover_schema(table, epsilon=5.0, kinds={"age": "integer"})
        >>> [column.name for column in found.schema.columns], found.certificate.epsilon
        (['age'], 5.0)
    """
    return SchemaGate(data, epsilon=epsilon, **options).discover()
