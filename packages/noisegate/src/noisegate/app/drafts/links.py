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
from noisegate.app.drafts.identifiers import is_called_identifier, share_among
from noisegate.errors import SchemaError
from noisegate.schema import DEFAULT_MISSING_VALUES
from noisegate.schema.columns import Problem
from noisegate.schema.encode import join_names, normalized_names, strip_cells
from noisegate.schema.linked.table_schema import Key, key_parts

# A link needs this fraction of the child's references to be among the parent's keys.
# Not all: a sample may hold children whose parents it lacks. With a lower fraction,
# numbers that are not keys, such as ages, would link tables.
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

    @property
    def has_equal_names(self) -> bool:
        """Whether the child names parents in a column that is called like their key."""
        return self.parent_key == self.key

    @property
    def is_guess(self) -> bool:
        """Whether neither the key nor the parent's table is called like the column."""
        names_table = _singular(self.parent) in str(self.parent_key)
        return not self.has_equal_names and not names_table


@dataclass(frozen=True)
class _NamingColumn:
    """A column that may name records, or two that may do so together.

    It may name those of its own table, and then is an `identifier` below; or those of
    another table, and then is a `reference`.

    Attributes:
        table: Name of its table.
        key: The name of the column, or both names.
        names: Its cells in one spelling, (records,), null where missing. Text; of two
            columns, bytes as `join_names` makes them.
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

    Each table gets the best link to its nearest possible parent. Where two parents
    remain and at most one is named clearly, the table that was given first is taken.

    Args:
        tables: Public tables by name. Their order decides ties.

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
    patient and the number of a visit, and that are not unique by themselves: with one
    that is, the pair would say nothing more. Both orders are there, as the parent may
    have the columns in another order than the child.
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
    """Returns the best link of each table to each other one, where there is one.

    Raises:
        SchemaError: if two tables write one key with and without zeros in front.
    """
    order = list(columns_by_table)
    possible: dict[str, dict[str, DraftedLink]] = {name: {} for name in order}
    for child, parent in permutations(order, 2):
        parent_is_first = order.index(parent) < order.index(child)
        candidates = []
        for reference in columns_by_table[child]:
            for identifier in columns_by_table[parent]:
                if not identifier.is_unique:
                    continue
                if not _may_refer(
                    reference, identifier, parent_is_first=parent_is_first
                ):
                    continue
                link = _find_link(reference, identifier)
                if link is not None:
                    candidates.append(link)
        if candidates:
            # Of equally good links, the one whose columns stand first in the files.
            possible[child][parent] = max(candidates, key=_link_quality)
    return _without_refuted_guesses(possible)


def _without_refuted_guesses(possible: _PossibleLinks) -> _PossibleLinks:
    """Returns the links without guesses that links by equal names speak against.

    Small numbers are among the keys of any table that counts its records. Example:
    measurements name persons by `person_id`. Then the numbers of genders of persons
    name no measurements, although they are among their numbers; and `person_id` does
    not name drug exposures by `drug_exposure_id`.
    """

    def is_refuted(child: str, link: DraftedLink) -> bool:
        names_other_parent = any(
            other.has_equal_names for other in possible[child].values()
        )
        reverse = possible[link.parent].get(child)
        is_parent_itself = reverse is not None and reverse.has_equal_names
        return link.is_guess and (names_other_parent or is_parent_itself)

    return {
        child: {
            parent: link
            for parent, link in links.items()
            if not is_refuted(child, link)
        }
        for child, links in possible.items()
    }


def _link_quality(link: DraftedLink) -> tuple[bool, float]:
    """Returns what the best link is chosen by: equal names, then parents found.

    A column `id` of which 95 % are found goes before a column `code` of which all are:
    small integers are among the keys of any table by chance.
    """
    return link.has_equal_names, link.found_fraction


def _may_refer(
    reference: _NamingColumn, identifier: _NamingColumn, *, parent_is_first: bool
) -> bool:
    """Returns whether a column may name the records of another table by their key.

    Where the records of two tables name each other, one by one, each of the two could
    be the parent. The table that was given first is, so that there is no cycle of two.

    Args:
        reference: Of the child.
        identifier: Of the parent.
        parent_is_first: Whether the parent was given before the child.
    """
    if not reference.is_unique:
        return True
    names_parent = reference.key == identifier.key or _singular(
        identifier.table
    ) in str(reference.key)
    return parent_is_first and names_parent


def _singular(table_name: str) -> str:
    """Returns what one record of a table is called: "visit" for "visits"."""
    return table_name.rstrip("s")


def _find_link(
    reference: _NamingColumn, identifier: _NamingColumn
) -> DraftedLink | None:
    """Returns the link by two columns; None if their names or values speak against it.

    Names decide first: the numbers of a scale of pain are among the ids of patients
    too, and name none of them (`test_numbers_that_happen_to_be_keys_are_no_link`).
    Then `_MIN_PARENTS_FOUND` of the references must be there.

    Args:
        reference: Of the child: it names records of the parent.
        identifier: Of the parent, where each value stands once.

    Raises:
        SchemaError: if they would be linked but for zeros in front. Without a link the
            user would be told that tables are not connected, and not why.
    """
    # Codes of a vocabulary, as gender_concept_id, make no family with other records.
    if re.search(vocabulary("concepts"), reference.written.lower()):
        return None
    has_same_name = reference.key == identifier.key
    if not has_same_name and not _may_be_called_so(reference, identifier):
        return None
    # 0.0 where no record names a parent: such a column links nothing.
    found_fraction = share_among(reference.names.drop_null(), identifier.names)
    if found_fraction < _MIN_PARENTS_FOUND:
        _refuse_leading_zeros(reference, identifier)
        return None
    return DraftedLink(
        parent=identifier.table,
        # As in a schema file: `key` is of the parent, and the child's column that names
        # it is `parent_key`.
        key=identifier.key,
        parent_key=reference.key,
        found_fraction=found_fraction,
        reason=_link_reason(reference, identifier, found_fraction),
    )


def _link_reason(
    reference: _NamingColumn, identifier: _NamingColumn, found_fraction: float
) -> str:
    """Returns the comment of a link in the draft: what was seen, and what is in doubt.

    It is "sure" only if the columns have one name and each record names a parent that
    is there. Example, of `id` in both tables: "each of the 60 values of patients.id is
    there once, and 100.0% of the 240 of visits.id are among them (sure)".

    Args:
        reference: Of the child.
        identifier: Of the parent.
        found_fraction: Of the records that name a parent, those whose parent is there.
    """
    has_same_name = reference.key == identifier.key
    reference_count = len(reference.names) - reference.names.null_count
    empty_count = reference.names.null_count
    is_complete = found_fraction == 1 and not empty_count
    confidence = "sure" if has_same_name and is_complete else "a guess: please check it"
    if not has_same_name:
        confidence += ", the two columns have different names"
    if not is_complete:
        # Without it, a fit refuses records whose parent is missing.
        confidence += ', and set orphans = "drop" if the others may be left out'
    # Rounded down to a tenth of a percent, so that it is 100 % only if all are found:
    # 0.9996 is 99.9 %.
    percentage = math.floor(1000 * found_fraction) / 1000
    references_found = (
        f"{percentage:.1%} of the {reference_count:,} of {reference.table}."
        f"{reference.written} are among them"
    )
    if empty_count:
        references_found += f"; {empty_count:,} of the records name none"
    return (
        f"each of the {len(identifier.names):,} values of "
        f"{identifier.table}.{identifier.written} occurs once, and "
        f"{references_found} ({confidence})"
    )


def _may_be_called_so(reference: _NamingColumn, identifier: _NamingColumn) -> bool:
    """Returns whether a column of another name than the key may name it.

    Both are called like identifiers, as `patient_no` and `id`; or the column is called
    like the parent's table, as `patient` and `patients`. Pairs of columns must have the
    names of the key: of two numbers, too many pairs are found by chance.
    """
    are_single = isinstance(reference.key, str) and isinstance(identifier.key, str)
    are_identifiers = is_called_identifier(reference.written) and is_called_identifier(
        identifier.written
    )
    names_table = _singular(identifier.table) in reference.written
    return are_single and (are_identifiers or names_table)


def _refuse_leading_zeros(reference: _NamingColumn, identifier: _NamingColumn) -> None:
    """Raises if two columns would be linked if zeros in front did not count.

    Example: "000017" in one file, as text, and 17 in the other, as a spreadsheet leaves
    it. They are different keys, as everywhere in noisegate. The
    corpus of `tests/app/cli/expected-doors.toml` has such files.

    Raises:
        SchemaError: if so; nothing is returned else.
    """
    references = reference.names.drop_null()
    # Pairs are joined to bytes with lengths in front, and are not looked into. Both
    # sides are pairs or neither is, see `_may_be_called_so`.
    if not pt.is_string(references.type):
        return
    fraction_without_zeros = share_among(
        pc.utf8_ltrim(references, characters="0"),
        pc.utf8_ltrim(identifier.names, characters="0"),
    )
    if fraction_without_zeros >= _MIN_PARENTS_FOUND:
        raise SchemaError(
            f"{reference.table}.{reference.written} and "
            f"{identifier.table}.{identifier.written}: the keys differ only by "
            "leading zeros, and 000001 and 1 are two keys; write them in one form "
            "in both files"
        )


def _nearest_links(child: str, possible: _PossibleLinks) -> list[DraftedLink]:
    """Returns the possible links of a table, without those to parents of its parents.

    Example: a diagnosis names its visit, and the patient too. A visit may have the
    patient as parent, so the patient is left out, and the visit is the parent.
    """
    links = possible[child]
    return [
        link
        for parent, link in links.items()
        if not any(parent in possible[other] for other in links)
    ]


def _check_single_parent(child: str, nearest_links: Sequence[DraftedLink]) -> None:
    """Requires that a table names the records of no two tables that are not linked.

    Only clear names count, which are those of the key or of the parent's table: a link
    by other names is a guess, and a guess is no reason to refuse files.

    Raises:
        SchemaError: if there are two.
    """
    clear_links = [link for link in nearest_links if not link.is_guess]
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

    Each turn adds the tables of one more level below the root.

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
