"""Decides whether any record keeps to all constraints of a schema.

It is decided before privacy is spent on a model that could draw no record. There are
two answers of different kind:

- `find_contradiction` proves that there is no such record, and names the constraints at
  fault. It counts real numbers as all float64 values within the bounds, so the proof is
  exact. The search gives up after `MAX_CHECKS`, and then nothing is refused.
- `satisfied_fraction` estimates by sampling how many records keep to the constraints.

The search: an impossible combination holds if one of its columns has another value than
it names, so each combination is a choice among its columns, as a clause in the
satisfiability problem is. What each column may still hold is its *domain*. All choices
are tried, those with the fewest alternatives first. Where choices remain or none do,
the comparisons are decided: each column starts at the smallest value of its domain, and
each rule x <= y or x < y raises y as far as it demands. If nothing is left to raise,
these smallest values keep to all rules; if a domain is exceeded, no values do::

    rule a < b, a in 3..9, b in 0..5   →   a = 3, b = 0 is raised to 4: satisfied
    rule a < b, a in 3..9, b in 0..3   →   a = 3, b would be 4: no record
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice

import numpy as np

from noisegate.records import Rows
from noisegate.schema.columns import Column
from noisegate.schema.constraints import Comparison, Constraint, Impossible, read_region
from noisegate.schema.layout import (
    Layout,
    Span,
    atoms_of,
    bounds_of,
    next_number,
    positions_of,
    previous_number,
)

MAX_CHECKS = 50_000
"""How often, in all, one constraint is held against one state of the search."""

# Chains of rules settle in as many rounds as there are rules. Columns whose values
# never meet, such as integers and halves in a <= b <= a, raise each other step by step
# up to their bounds, which may take for ever.
_MAX_ROUNDS = 1000

# Records of which fewer than this fraction keep to the constraints are warned of.
_RARE_FRACTION = 1e-4
# Records that are drawn to find out, in all and in one batch.
_SAMPLE_SIZE = 2**17
_BATCH_SIZE = 2**13
# Batches of records from which the fraction is estimated.
_ESTIMATE_BATCHES = 4
# Of values that are drawn, the fraction that is missing where allowed, and that is an
# atom where there are any.
_MISSING_FRACTION = 0.1
_ATOM_FRACTION = 0.5


@dataclass(frozen=True)
class _Domain:
    """The values that a column may still have at one state of the search.

    Attributes:
        spans: Closed intervals of numbers, or of codes, ascending and disjoint.
        missing: Whether the value may be missing.
    """

    spans: tuple[Span, ...]
    missing: bool

    @property
    def is_empty(self) -> bool:
        """Whether the column can hold nothing at all."""
        return not self.spans and not self.missing

    def is_disjoint_from(self, values: Span | None) -> bool:
        """Returns whether none of some values is in the domain.

        Args:
            values: A closed interval, or None for the missing value.
        """
        if values is None:
            return not self.missing
        first, last = values
        return all(high < first or low > last for low, high in self.spans)

    def without(self, values: Span | None, column: Column) -> _Domain:
        """Returns the domain without some values of its column.

        Args:
            values: A closed interval, or None for the missing value.
            column: The column, which says what the neighbouring values are.
        """
        if values is None:
            return replace(self, missing=False)
        first, last = values
        if column.numeric:
            before = previous_number(column, first)
            after = next_number(column, last, strict=True)
        else:
            before = first - 1
            after = last + 1
        parts = []
        for low, high in self.spans:
            parts += [(low, min(high, before)), (max(low, after), high)]
        return replace(self, spans=tuple(part for part in parts if part[0] <= part[1]))

    def smallest_from(self, minimum: float) -> float | None:
        """Returns the smallest value of at least `minimum`; None if there is none."""
        for low, high in self.spans:
            if high >= minimum:
                return max(low, minimum)
        return None


@dataclass(frozen=True)
class _Order:
    """A comparison as the search sees it: `smaller` is below `greater`.

    Attributes:
        smaller: Name of the column with the smaller value.
        greater: Name of the other column.
        strict: Whether the two are never equal.
    """

    smaller: str
    greater: str
    strict: bool


@dataclass(frozen=True)
class _Clause:
    """An impossible combination as the search sees it: one column must differ from it.

    Attributes:
        values: By column, a closed interval of numbers or codes, or None for missing.
    """

    values: Mapping[str, Span | None]


_Domains = dict[str, _Domain]


@dataclass(frozen=True)
class _State:
    """One state of the search.

    Attributes:
        domains: What each column may still hold, by name.
        clauses: The combinations for which no column was chosen yet.
    """

    domains: _Domains
    clauses: Sequence[_Clause]


class _Checks:
    """Counts the checks that a search may still make."""

    def __init__(self, count: int) -> None:
        self._remaining = count

    def take(self, count: int = 1) -> bool:
        """Takes some checks; returns False if there are fewer, and leaves none."""
        is_enough = self._remaining >= count
        self._remaining = max(self._remaining - count, 0)
        return is_enough


def find_contradiction(
    constraints: Sequence[Constraint], layout: Layout, missing_values: Collection[str]
) -> tuple[Constraint, ...]:
    """Finds constraints to which no record keeps.

    Comparisons must also leave a record in which all their columns have a value: a
    cycle such as a < b, b < a is a mistake even where a may be missing.

    Args:
        constraints: The constraints of a schema.
        layout: Its columns.
        missing_values: Texts that stand for a missing value.

    Returns:
        Such constraints, none of which can be spared for the contradiction; empty if
        some record keeps to all, or if the search gave up.
    """
    checks = _Checks(MAX_CHECKS)
    comparisons: list[Constraint] = [
        constraint for constraint in constraints if isinstance(constraint, Comparison)
    ]
    for candidates, all_present in ((comparisons, True), (list(constraints), False)):
        search = _Search(layout, missing_values, checks, all_present=all_present)
        if search.is_contradiction(candidates):
            return search.without_needless(candidates)
    return ()


@dataclass(frozen=True)
class _Search:
    """A search for a record that keeps to constraints.

    Attributes:
        layout: The columns of the schema.
        missing_values: Texts that stand for a missing value.
        checks: Checks that it may still make, counted over all searches together.
        all_present: Whether the record must have a number within the bounds in each
            column that is named: no missing value, and no atom outside the bounds.
    """

    layout: Layout
    missing_values: Collection[str]
    checks: _Checks
    all_present: bool

    def without_needless(
        self, contradiction: Sequence[Constraint]
    ) -> tuple[Constraint, ...]:
        """Drops constraints from a contradiction as long as it stays one."""
        needed = list(contradiction)
        for constraint in contradiction:
            fewer = [other for other in needed if other is not constraint]
            if self.is_contradiction(fewer):
                needed.remove(constraint)
        return tuple(needed)

    def is_contradiction(self, constraints: Sequence[Constraint]) -> bool:
        """Returns whether it is certain that no record keeps to the constraints."""
        columns = self._columns_of(constraints)
        orders = [
            _order_of(constraint)
            for constraint in constraints
            if isinstance(constraint, Comparison)
        ]
        clauses = [
            self._clause_of(constraint)
            for constraint in constraints
            if isinstance(constraint, Impossible)
        ]
        domains = {name: self._domain_of(column) for name, column in columns.items()}
        stack = [_State(domains, clauses)]
        while stack:
            state = stack.pop()
            open_clauses = []
            alternatives = []  # of each open clause, by column what it may hold then
            for clause in state.clauses:
                if not self.checks.take():
                    return False  # given up: what is left is held to be possible
                if not _is_satisfied(clause, state.domains):
                    open_clauses.append(clause)
                    alternatives.append(_alternatives(clause, state.domains, columns))

            # A clause with one alternative is no choice, and may narrow the others; so
            # it is taken before the comparisons are examined, which is more work.
            counts = [len(domains_of_clause) for domains_of_clause in alternatives]
            has_forced_choice = bool(counts) and min(counts) <= 1
            if not has_forced_choice:
                if not self.checks.take(1 + len(orders)):
                    return False
                if not _orders_hold(state.domains, orders, columns):
                    continue
                if not open_clauses:
                    return False  # a record keeps to everything
            chosen = counts.index(min(counts))
            other_clauses = open_clauses[:chosen] + open_clauses[chosen + 1 :]
            for name, domain in alternatives[chosen].items():
                narrowed = {**state.domains, name: domain}
                stack.append(_State(narrowed, other_clauses))
        return True

    def _columns_of(self, constraints: Sequence[Constraint]) -> dict[str, Column]:
        """Returns the columns that constraints name, by name."""
        columns = {}
        for constraint in constraints:
            for name in constraint.names:
                columns[name] = self.layout.column(name)
        return columns

    def _domain_of(self, column: Column) -> _Domain:
        """Returns everything that a column may hold at the start of the search."""
        if not column.numeric:
            # The code of a missing value is one of the codes.
            return _Domain(((0, column.size - 1),), missing=False)
        low, high = bounds_of(column)
        if self.all_present:
            return _Domain(((low, high),), missing=False)
        outer_atoms = [
            (atom, atom) for atom in atoms_of(column) if not low <= atom <= high
        ]
        spans = tuple(sorted([(low, high), *outer_atoms]))
        return _Domain(spans, missing=column.missing)

    def _clause_of(self, constraint: Impossible) -> _Clause:
        """Returns the combination with names of columns instead of their indices."""
        region = read_region(constraint.values, self.layout, self.missing_values)
        values: dict[str, Span | None] = {}
        for index, span in region.spans.items():
            values[self.layout.numeric[index].name] = span
        for index, code in region.codes.items():
            values[self.layout.coded[index].name] = (code, code)
        return _Clause(values)


def _order_of(comparison: Comparison) -> _Order:
    """Returns a comparison with the column of the smaller value first."""
    strict = "=" not in comparison.relation
    if comparison.relation in ("<=", "<"):
        return _Order(comparison.left, comparison.right, strict)
    return _Order(comparison.right, comparison.left, strict)


def _is_satisfied(clause: _Clause, domains: _Domains) -> bool:
    """Returns whether some column cannot have the value of a combination anyway."""
    return any(
        domains[name].is_disjoint_from(values) for name, values in clause.values.items()
    )


def _alternatives(
    clause: _Clause, domains: _Domains, columns: Mapping[str, Column]
) -> _Domains:
    """Returns the ways to avoid a combination.

    Args:
        clause: The combination.
        domains: What each column may hold.
        columns: The columns, by name.

    Returns:
        By column, what it may still hold if it is the one that differs. Columns that
        could hold nothing are left out.
    """
    alternatives = {}
    for name, values in clause.values.items():
        domain = domains[name].without(values, columns[name])
        if not domain.is_empty:
            alternatives[name] = domain
    return alternatives


def _orders_hold(
    domains: _Domains, orders: Sequence[_Order], columns: Mapping[str, Column]
) -> bool:
    """Returns whether some values of the domains keep to all comparisons.

    A column that may be missing, or an atom outside its bounds, keeps to all of its
    own.
    """
    binding = [
        order
        for order in orders
        if not _may_be_exempt(columns[order.smaller], domains[order.smaller])
        and not _may_be_exempt(columns[order.greater], domains[order.greater])
    ]
    if _has_strict_cycle(binding):
        return False
    # No domain is empty here, so that every column has a smallest value to begin with.
    smallest: dict[str, float] = {}
    for order in binding:
        for name in (order.smaller, order.greater):
            first, _ = domains[name].spans[0]
            smallest[name] = first
    for _ in range(len(binding) + _MAX_ROUNDS):
        has_changed = False
        for order in binding:
            greater_column = columns[order.greater]
            assert greater_column.numeric
            minimum = next_number(
                greater_column, smallest[order.smaller], strict=order.strict
            )
            raised = domains[order.greater].smallest_from(minimum)
            if raised is None:
                return False
            if raised > smallest[order.greater]:
                smallest[order.greater] = raised
                has_changed = True
        if not has_changed:
            return True
    return True  # given up: held to be possible


def _may_be_exempt(column: Column, domain: _Domain) -> bool:
    """Returns whether a column may hold what no comparison is about.

    That is a missing value, or an atom outside the bounds.
    """
    assert column.numeric
    lower, upper = bounds_of(column)
    has_outer_atom = any(high < lower or low > upper for low, high in domain.spans)
    return domain.missing or has_outer_atom


def _has_strict_cycle(orders: Sequence[_Order]) -> bool:
    """Returns whether comparisons lead from a column back to it by a strict one."""
    greater_than: dict[str, set[str]] = {}
    for order in orders:
        greater_than.setdefault(order.smaller, set()).add(order.greater)
    for order in orders:
        if not order.strict:
            continue
        reached = {order.greater}
        to_visit = [order.greater]
        while to_visit:
            new = greater_than.get(to_visit.pop(), set()) - reached
            reached |= new
            to_visit += new
        if order.smaller in reached:
            return True
    return False


# --- How many records keep to the constraints. ---


def is_rarely_satisfied(
    constraints: Sequence[Constraint], layout: Layout, missing_values: Collection[str]
) -> bool:
    """Returns whether fewer than 1 in 10,000 records keep to all constraints.

    Args:
        constraints: The constraints of a schema.
        layout: Its columns.
        missing_values: Texts that stand for a missing value.

    Returns:
        Whether it is so for records that are drawn evenly within the bounds.
    """
    if not constraints:
        return False
    fractions = _satisfied_fractions(constraints, layout, missing_values)
    running_counts = accumulate(round(fraction * _BATCH_SIZE) for fraction in fractions)
    # Ends with the first batch that has enough of them.
    return all(count < _RARE_FRACTION * _SAMPLE_SIZE for count in running_counts)


def satisfied_fraction(
    constraints: Sequence[Constraint], layout: Layout, missing_values: Collection[str]
) -> float:
    """Estimates the fraction of records that keep to all constraints.

    Args:
        constraints: The constraints of a schema.
        layout: Its columns.
        missing_values: Texts that stand for a missing value.

    Returns:
        The fraction among records that are drawn evenly within the bounds; 1.0 without
        constraints.
    """
    if not constraints:
        return 1.0
    fractions = _satisfied_fractions(constraints, layout, missing_values)
    return float(np.mean(list(islice(fractions, _ESTIMATE_BATCHES))))


def _satisfied_fractions(
    constraints: Sequence[Constraint], layout: Layout, missing_values: Collection[str]
) -> Iterator[float]:
    """Yields the fraction of records that keep to all constraints, batch by batch.

    Args:
        constraints: The constraints, at least one.
        layout: The columns of the schema.
        missing_values: Texts that stand for a missing value.
    """
    names = {name for constraint in constraints for name in constraint.names}
    involved = Layout(
        numeric=tuple(column for column in layout.numeric if column.name in names),
        coded=tuple(column for column in layout.coded if column.name in names),
    )
    random = np.random.default_rng(0)
    for _ in range(0, _SAMPLE_SIZE, _BATCH_SIZE):
        records = _draw_evenly(involved, random)
        is_broken = np.zeros(_BATCH_SIZE, dtype=np.bool_)
        for constraint in constraints:
            is_broken |= constraint.broken(records, involved, missing_values)
        yield float(1 - is_broken.mean())


def _draw_evenly(layout: Layout, random: np.random.Generator) -> Rows:
    """Draws a batch of records: numbers uniformly within the bounds, levels alike.

    Args:
        layout: The columns.
        random: The generator that draws them.

    Returns:
        Encoded records. Half of the values of a column with atoms are atoms, and a
        tenth is missing where that is allowed.
    """
    positions = random.random((_BATCH_SIZE, len(layout.numeric)))
    for index, column in enumerate(layout.numeric):
        if column.atoms:
            atom_positions = positions_of(column, np.asarray(atoms_of(column)))
            atoms = random.choice(atom_positions, _BATCH_SIZE)
            is_atom = random.random(_BATCH_SIZE) < _ATOM_FRACTION
            positions[:, index] = np.where(is_atom, atoms, positions[:, index])
    missing_fractions = [
        _MISSING_FRACTION * column.missing for column in layout.numeric
    ]
    positions[random.random(positions.shape) < missing_fractions] = np.nan
    code_counts = [column.size for column in layout.coded]
    codes = random.integers(
        0, code_counts, (_BATCH_SIZE, len(layout.coded)), dtype=np.int32
    )
    return Rows(positions, codes)
