"""Whether any record keeps to all constraints, found before anything is spent on a model that could draw none.

An impossible combination is a choice: one of its columns must say something else. The
choices are searched, those of the fewest columns first, and wherever there is one the
comparisons are decided: x <= y and x < y hold for the least values of all domains once
these have been raised as far as the rules demand, or for none.

"No record" is exact: real numbers count as all float64 values within the bounds. The
search gives up after `MOST_LOOKS`, and then refuses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Any, TypeAlias

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
from noisegate.schema.numeric import NumericColumn

MAX_CHECKS = (
    50_000  # how often one constraint is held against one state of the search, in all
)

# Chains of rules settle in as many rounds as there are rules. Columns whose values never meet, as whole numbers and
# halves in a <= b <= a, raise each other step by step up to their bounds, which may take for ever.
_MAX_ROUNDS = 1000

RARE, _TRIED, _BATCH = 1e-4, 2**17, 2**13


@dataclass(frozen=True)
class _Domain:
    """What a column may still say: values in closed intervals, in ascending order, or nothing."""

    spans: tuple[Span, ...]
    missing: bool

    @property
    def empty(self) -> bool:
        return not self.spans and not self.missing

    def has_none_of(self, region: Span | None) -> bool:
        """Returns whether no value of a closed interval is left; of None, whether missing is not."""
        if region is None:
            return not self.missing
        return all(high < region[0] or low > region[1] for low, high in self.spans)

    def without(self, region: Span | None, column: Column) -> _Domain:
        if region is None:
            return replace(self, missing=False)
        below, above = region[0] - 1, region[1] + 1
        if column.numeric:
            below, above = (
                previous_number(column, region[0]),
                next_number(column, region[1], strict=True),
            )
        parts = []
        for low, high in self.spans:
            parts += [(low, min(high, below)), (max(low, above), high)]
        return replace(self, spans=tuple(part for part in parts if part[0] <= part[1]))

    def least(self, at_least: float) -> float | None:
        """Returns the least value that is no smaller than ``at_least``; None if there is none."""
        return next(
            (max(low, at_least) for low, high in self.spans if high >= at_least), None
        )


_State: TypeAlias = dict[str, _Domain]
_Clause: TypeAlias = Mapping[str, "Span | None"]
_Rule: TypeAlias = tuple[
    str, str, bool
]  # the lesser column, the greater one, and whether they are never equal


def find_contradiction(
    constraints: Sequence[Constraint], layout: Layout, missing_values: Collection[str]
) -> tuple[Constraint, ...]:
    """Returns constraints to which no record keeps, none of which can be spared; nothing if there are such records."""
    # Comparisons must leave some record in which all their columns have a value, too: a cycle such as a < b, b < a is a
    # mistake even where a may be missing.
    looks = iter(range(MAX_CHECKS))
    compared: list[Constraint] = [
        constraint for constraint in constraints if isinstance(constraint, Comparison)
    ]
    for core, present in ((compared, True), (list(constraints), False)):
        if not _contradicts(core, layout, missing_values, looks, present=present):
            continue
        for spared in tuple(core):
            fewer = [constraint for constraint in core if constraint is not spared]
            if _contradicts(fewer, layout, missing_values, looks, present=present):
                core.remove(spared)
        return tuple(core)
    return ()


def is_rarely_satisfied(
    constraints: Sequence[Constraint], layout: Layout, missing_values: Collection[str]
) -> bool:
    """Returns whether fewer than 1 in 10,000 records, drawn evenly within the bounds, keep to all constraints."""
    kept = accumulate(
        round(share * _BATCH)
        for share in _kept_shares(constraints, layout, missing_values)
    )
    return bool(constraints) and all(records < RARE * _TRIED for records in kept)


def satisfied_fraction(
    constraints: Sequence[Constraint], layout: Layout, missing_values: Collection[str]
) -> float:
    """Returns about which share of records drawn evenly within the bounds keeps to all constraints; 1 without any."""
    return float(
        np.mean(
            list(islice(_kept_shares(constraints, layout, missing_values), 4)) or [1.0]
        )
    )


def _kept_shares(
    constraints: Sequence[Constraint], layout: Layout, missing_values: Collection[str]
) -> Iterator[float]:
    """Yields the share of each of several batches of records, drawn evenly within the bounds, that keeps to all."""
    names = {name for constraint in constraints for name in constraint.names}
    numeric = tuple(column for column in layout.numeric if column.name in names)
    coded = tuple(column for column in layout.coded if column.name in names)
    involved, random = Layout(numeric=numeric, coded=coded), np.random.default_rng(0)
    for _ in range(0, _TRIED if constraints else 0, _BATCH):
        positions = random.random((_BATCH, len(numeric)))
        for values, column in zip(positions.T, numeric, strict=True):
            if column.atoms:  # about half of its values are such
                atoms = random.choice(
                    positions_of(column, np.asarray(atoms_of(column))), _BATCH
                )
                values[:] = np.where(random.random(_BATCH) < 0.5, atoms, values)
        positions[
            random.random(positions.shape)
            < [0.1 * column.missing for column in numeric]
        ] = np.nan
        codes = random.integers(
            0, [column.size for column in coded], (_BATCH, len(coded)), dtype=np.int32
        )
        records, broken = Rows(positions, codes), np.zeros(_BATCH, dtype=np.bool_)
        for constraint in constraints:
            broken |= constraint.broken(records, involved, missing_values)
        yield float(1 - broken.mean())


def _contradicts(
    constraints: Sequence[Constraint],
    layout: Layout,
    missing_values: Collection[str],
    looks: Iterator[int],
    *,
    present: bool,
) -> bool:
    """Returns whether it is certain that no record keeps to the constraints, if ``present`` with no value missing."""
    columns = {
        name: layout.column(name)
        for constraint in constraints
        for name in constraint.names
    }
    rules = [_rule(one) for one in constraints if isinstance(one, Comparison)]
    clauses = [
        _clause(one, layout, missing_values)
        for one in constraints
        if isinstance(one, Impossible)
    ]
    stack = [
        (
            {
                name: _domain(column, free=not present)
                for name, column in columns.items()
            },
            clauses,
        )
    ]
    while stack:
        state, clauses = stack.pop()
        # What each clause leaves to choose from: columns, and what they may still say if they do not say what it names.
        choices, still = [], []
        for clause in clauses:
            if next(looks, None) is None:
                return False  # given up: what is left is held to be possible
            if not any(
                state[name].has_none_of(region) for name, region in clause.items()
            ):
                left = {
                    name: state[name].without(region, columns[name])
                    for name, region in clause.items()
                }
                choices.append(
                    {name: domain for name, domain in left.items() if not domain.empty}
                )
                still.append(clause)
        first = min(
            range(len(choices)), key=lambda place: len(choices[place]), default=None
        )
        if first is None or len(choices[first]) > 1:
            if sum(1 for _ in islice(looks, 1 + len(rules))) <= len(rules):
                return False
            if not _ordered(state, rules, columns):
                continue
        if first is None:
            return False
        open_clauses = still[:first] + still[first + 1 :]
        stack += [
            ({**state, name: domain}, open_clauses)
            for name, domain in choices[first].items()
        ]
    return True


def _ordered(state: _State, rules: Sequence[_Rule], columns: Mapping[str, Any]) -> bool:
    """Returns whether values of the domains keep to the rules; a column that may be missing keeps to all of its own."""
    rules = [
        rule
        for rule in rules
        if not any(_free(columns[name], state[name]) for name in rule[:2])
    ]
    if _strict_cycle(rules):
        return False
    # No domain is empty here, so every column has a least value to begin with.
    least = {name: state[name].spans[0][0] for rule in rules for name in rule[:2]}
    for _ in range(len(rules) + _MAX_ROUNDS):
        changed = False
        for lesser, greater, strict in rules:
            raised = state[greater].least(
                next_number(columns[greater], least[lesser], strict=strict)
            )
            if raised is None:
                return False
            if raised > least[greater]:
                least[greater], changed = raised, True
        if not changed:
            return True
    return True  # given up: held to be possible


def _strict_cycle(rules: Sequence[_Rule]) -> bool:
    """Returns whether the rules lead from a column back to it by way of one that allows no equality."""
    greater_than: dict[str, set[str]] = {}
    for lesser, greater, _ in rules:
        greater_than.setdefault(lesser, set()).add(greater)
    for lesser, greater, strict in rules:
        seen, left = {greater}, [greater] if strict else []
        while left:
            more = greater_than.get(left.pop(), set()) - seen
            seen |= more
            left += more
        if strict and lesser in seen:
            return True
    return False


def _rule(comparison: Comparison) -> _Rule:
    ends = (comparison.left, comparison.right)
    lesser, greater = ends if comparison.relation[0] == "<" else reversed(ends)
    return lesser, greater, "=" not in comparison.relation


def _clause(
    constraint: Impossible, layout: Layout, missing_values: Collection[str]
) -> _Clause:
    region = read_region(constraint.values, layout, missing_values)
    spans: dict[str, Span | None] = {
        layout.numeric[place].name: span for place, span in region.spans.items()
    }
    return spans | {
        layout.coded[place].name: (code, code) for place, code in region.codes.items()
    }


def _domain(column: Column, *, free: bool) -> _Domain:
    if not column.numeric:
        return _Domain(((0, column.size - 1),), missing=False)
    low, high = bounds_of(column)
    outside = [
        (atom, atom) for atom in atoms_of(column) if free and not low <= atom <= high
    ]
    return _Domain(
        tuple(sorted([(low, high), *outside])), missing=free and column.missing
    )


def _free(column: NumericColumn, domain: _Domain) -> bool:
    """Returns whether the column may say what no comparison speaks of: missing, or an atom outside the bounds."""
    lower, upper = bounds_of(column)
    return domain.missing or any(
        high < lower or low > upper for low, high in domain.spans
    )
