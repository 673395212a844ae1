"""How public tables hang together: which column names the records of another table.

::

    patients                 visits                     codes
      id       ◄───────────    id, visit   ◄──────────    visit
      key: each value          parent_key: values that
      stands once              are among those of the key

A link is found by values and names. Each table but the root has one parent, so that all
of them make a tree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.app.drafts.drafted import vocabulary
from noisegate.app.drafts.texts import is_called_identifier, share_among
from noisegate.errors import SchemaError
from noisegate.schema import DEFAULT_MISSING_VALUES
from noisegate.schema.columns import Problem
from noisegate.schema.encode import join_names, normalized_names, strip_cells
from noisegate.schema.linked.table_schema import Key, key_parts

# A sample may hold children whose parents it lacks.
_MIN_PARENTS_FOUND = 0.9


@dataclass(frozen=True, kw_only=True)
class DraftedLink:
    """A link of a child table to the table of its parents.

    Attributes:
        parent: Name of the table of the parents.
        key: The column there in which each value stands once, or the columns in which
            together they do.
        parent_key: The column, or columns, of the child that have these values.
        found_fraction: Of the child's records that name a parent, those whose parent is
            there.
        reason: What was seen, and whether it leaves doubts.
    """

    parent: str
    key: Key
    parent_key: Key
    found_fraction: float
    reason: str


@dataclass(frozen=True)
class _NamingColumn:
    """A column that may name records, or two that may do so together.

    Attributes:
        table: Name of its table.
        key: The column, or both.
        names: Its cells in one spelling, (records,), null where missing.
    """

    table: str
    key: Key
    names: pa.Array

    @property
    def written(self) -> str:
        """The column in messages, such as "patient" or "patient + visit"."""
        return written_key(self.key)

    @cached_property
    def is_unique(self) -> bool:
        """Whether each record has a name of its own."""
        has_nulls = self.names.null_count > 0
        if not len(self.names) or has_nulls:
            return False
        return bool(pc.count_distinct(self.names).as_py() == len(self.names))


_PossibleLinks: TypeAlias = Mapping[str, Mapping[str, DraftedLink]]
"""The possible links of each child, by its name and that of the parent."""


def written_key(key: Key) -> str:
    """Writes a key for messages: its columns, joined by plus signs."""
    return " + ".join(key_parts(key))


def find_links(tables: Mapping[str, pa.Table]) -> dict[str, DraftedLink]:
    """Finds how tables are linked.

    Args:
        tables: Public tables by name.

    Returns:
        The link of each table but the root to its parents, by the child's name, parents
        before children.

    Raises:
        SchemaError: if the tables do not make one tree, or two tables write one key in
            different ways.
    """
    columns_by_table = {
        name: _naming_columns(name, table) for name, table in tables.items()
    }
    possible = _possible_links(columns_by_table)
    links = {}
    for child in tables:
        nearest_links = _nearest_links(child, possible)
        _check_single_parent(child, nearest_links)
        if nearest_links:
            links[child] = nearest_links[0]

    roots = [name for name in tables if name not in links]
    if len(roots) != 1:
        raise SchemaError(
            f"{' and '.join(roots) or 'no table'}: expected one root table, and each "
            "other table with a column that names parents by their key; give the "
            "columns one name, such as patient_id, or leave one out"
        )
    return _parents_first(links, roots[0])


def _naming_columns(table_name: str, table: pa.Table) -> list[_NamingColumn]:
    """Returns the columns, and pairs of columns, of a table that may name records.

    Pairs are of columns that are called like identifiers or numbers of parts, such as a
    patient and the number of a visit, and that are not unique by themselves.
    """
    columns: dict[str, _NamingColumn] = {}
    for name in table.column_names:
        cells, is_present = strip_cells(
            table[name].combine_chunks(), pa.array(DEFAULT_MISSING_VALUES)
        )
        # Values of some types, such as floats, name nothing.
        with suppress(Problem):
            names = normalized_names(cells, name)
            if pt.is_string(names.type):
                null = pa.scalar(None, pa.string())
                names = pc.if_else(pa.array(is_present), names, null)
                columns[name] = _NamingColumn(table_name, name, names)

    parts = [
        column
        for name, column in columns.items()
        if re.search(vocabulary("key_parts"), name.lower())
        or is_called_identifier(name)
    ]
    shared_parts = [column for column in parts if not column.is_unique]
    pairs = [
        _NamingColumn(
            table_name,
            (str(first.key), str(second.key)),
            join_names([first.names, second.names]),
        )
        for first, second in permutations(shared_parts, 2)
    ]
    return [*columns.values(), *pairs]


def _possible_links(
    columns_by_table: Mapping[str, Sequence[_NamingColumn]],
) -> _PossibleLinks:
    """Returns the best link of each table to each other one, where there is one."""
    order = list(columns_by_table)
    possible: dict[str, dict[str, DraftedLink]] = {name: {} for name in order}
    for child, parent in permutations(order, 2):
        parent_is_first = order.index(parent) < order.index(child)
        candidates = []
        for column in columns_by_table[child]:
            for key in columns_by_table[parent]:
                if not key.is_unique:
                    continue
                if not _may_refer(column, key, parent_is_first=parent_is_first):
                    continue
                link = _link(column, key)
                if link is not None:
                    candidates.append(link)
        if candidates:
            possible[child][parent] = max(candidates, key=_link_quality)
    return possible


def _link_quality(link: DraftedLink) -> tuple[bool, float]:
    """Returns what the best link is chosen by: equal names, then parents found."""
    return link.parent_key == link.key, link.found_fraction


def _may_refer(
    column: _NamingColumn, key: _NamingColumn, *, parent_is_first: bool
) -> bool:
    """Returns whether a column may name the records of another table by their key.

    Where the records of two tables name each other, one by one, the table that was
    given first has the parents.

    Args:
        column: Of the child.
        key: Of the parent.
        parent_is_first: Whether the parent was given before the child.
    """
    if not column.is_unique:
        return True
    names_parent = column.key == key.key or _singular(key.table) in str(column.key)
    return parent_is_first and names_parent


def _singular(table_name: str) -> str:
    """Returns what one record of a table is called: "visit" for "visits"."""
    return table_name.rstrip("s")


def _link(column: _NamingColumn, key: _NamingColumn) -> DraftedLink | None:
    """Returns the link of a child's column to a parent's key, if there is one.

    Args:
        column: Of the child.
        key: Of the parent, where each value stands once.

    Raises:
        SchemaError: if both are the same but for zeros in front.
    """
    has_same_name = column.key == key.key
    if not has_same_name and not _may_be_called_so(column, key):
        return None
    references = column.names.drop_null()
    found_fraction = share_among(references, key.names)
    if found_fraction < _MIN_PARENTS_FOUND:
        _check_leading_zeros(column, key)
        return None

    empty_count = column.names.null_count
    is_complete = found_fraction == 1 and not empty_count
    confidence = "sure" if has_same_name and is_complete else "a guess: look at it"
    if not has_same_name:
        confidence += ", the two columns have different names"
    if not is_complete:
        confidence += ', and set orphans = "drop" if the others may be left out'
    # Rounded down, so that it is 100 % only if all are found.
    percentage = math.floor(1000 * found_fraction) / 1000
    references_found = (
        f"{percentage:.1%} of the {len(references):,} of {column.table}."
        f"{column.written} are among them"
    )
    if empty_count:
        references_found += f"; {empty_count:,} of the records name none"
    return DraftedLink(
        parent=key.table,
        key=key.key,
        parent_key=column.key,
        found_fraction=found_fraction,
        reason=(
            f"each of the {len(key.names):,} values of {key.table}.{key.written} is "
            f"there once, and {references_found} ({confidence})"
        ),
    )


def _may_be_called_so(column: _NamingColumn, key: _NamingColumn) -> bool:
    """Returns whether a column of another name than the key may name it.

    Both are called like identifiers, or the column is called like the parent's table.
    """
    are_single = isinstance(column.key, str) and isinstance(key.key, str)
    are_identifiers = is_called_identifier(column.written) and is_called_identifier(
        key.written
    )
    names_table = _singular(key.table) in column.written
    return are_single and (are_identifiers or names_table)


def _check_leading_zeros(column: _NamingColumn, key: _NamingColumn) -> None:
    """Requires that two columns do not differ by zeros in front alone."""
    references = column.names.drop_null()
    if not pt.is_string(references.type):
        return
    bare_fraction = share_among(
        pc.utf8_ltrim(references, characters="0"),
        pc.utf8_ltrim(key.names, characters="0"),
    )
    if bare_fraction >= _MIN_PARENTS_FOUND:
        raise SchemaError(
            f"{column.table}.{column.written} and {key.table}.{key.written}: the keys "
            "are the same but for leading zeros, and 000001 is another one than 1; "
            "write them alike in both files"
        )


def _nearest_links(child: str, possible: _PossibleLinks) -> list[DraftedLink]:
    """Returns the possible links of a table, without those to parents of its parents.

    A diagnosis may name its visit and the patient too: its parent is the visit, whose
    parent is the patient.
    """
    links = possible[child]
    return [
        link
        for parent, link in links.items()
        if not any(parent in possible[other] for other in links)
    ]


def _check_single_parent(child: str, nearest_links: Sequence[DraftedLink]) -> None:
    """Requires that a table names the records of no two tables that are not linked."""
    clear_links = [
        link
        for link in nearest_links
        if link.parent_key == link.key or _singular(link.parent) in str(link.parent_key)
    ]
    if len(clear_links) > 1:
        parents = ", and of ".join(
            f"{link.parent}, by {written_key(link.parent_key)}"
            for link in clear_links[:2]
        )
        other_parent = clear_links[1].parent
        raise SchemaError(
            f"{child}: its records name those of {parents}; a table has one parent: "
            f"join the columns of {other_parent} to {child} in the data, and leave out "
            f"the file of {other_parent}"
        )


def _parents_first(
    links: Mapping[str, DraftedLink], root: str
) -> dict[str, DraftedLink]:
    """Orders links so that each parent stands before its children.

    Raises:
        SchemaError: if some tables are not below the root, but in a cycle.
    """
    ordered: dict[str, DraftedLink] = {}
    while len(ordered) < len(links):
        next_links = {
            child: link
            for child, link in links.items()
            if child not in ordered and (link.parent == root or link.parent in ordered)
        }
        if not next_links:
            raise SchemaError(
                f"{', '.join(links)}: the links form a cycle; omit one of these tables"
            )
        ordered.update(next_links)
    return ordered


def keys_of_ancestors(
    table: pa.Table, links: Mapping[str, DraftedLink], name: str
) -> tuple[str, ...]:
    """Returns the columns of a table that name records above its parents.

    Args:
        table: The table.
        links: The link of each table, by the child's name.
        name: Name of the table.

    Returns:
        Columns that its ancestors use as keys, which a child repeats: each once.
    """
    keys: list[str] = []
    link = links.get(name)
    while link is not None:
        link_of_parent = links.get(link.parent)
        if link_of_parent is not None:
            keys += key_parts(link_of_parent.parent_key)
            keys += key_parts(link_of_parent.key)
        link = link_of_parent
    return tuple(key for key in dict.fromkeys(keys) if key in table.column_names)
