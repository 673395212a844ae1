"""Which column of a public table names the records of another: its key there, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.data.draft_texts import called_id
from noisegate.errors import SchemaError
from noisegate.schema import DEFAULT_MISSING_VALUES
from noisegate.schema.encode import is_text, plain_cells

_LEAST_FOUND = 0.9
"""Of the records of a child, at least so many name one of the parents: a sample may hold some without theirs."""


@dataclass(frozen=True, kw_only=True)
class DraftedLink:
    """A table whose records name those of another one.

    Attributes:
        parent: name of the table of the parents.
        key: the column there in which each value stands once.
        parent_key: the column of the child that has these values.
        found: share of the child's records whose parent is there.
        why: what was seen, and whether it leaves doubts.
    """

    parent: str
    key: str
    parent_key: str
    found: float
    why: str


def draft_links(tables: Mapping[str, pa.Table]) -> dict[str, DraftedLink]:
    """Return the link of each table but the root to the table of its parents, parents first.

    Raises:
        SchemaError: if the tables do not hang together as a tree.
    """
    named = {name: _names(table) for name, table in tables.items()}
    keys = {name: [column for column, cells in found.items() if _is_key(cells)] for name, found in named.items()}
    possible: dict[str, dict[str, DraftedLink]] = {name: {} for name in tables}
    for place, child in enumerate(tables):
        for other, parent in enumerate(tables):
            # Where the records of two tables name each other, one by one, the first file has the parents.
            found = [
                link
                for column in named[child]
                if parent != child and (other < place or column not in keys[child])
                for key in keys[parent]
                if (link := _link(child, column, named[child][column], parent, key, named[parent][key])) is not None
            ]
            if found:
                possible[child][parent] = max(found, key=lambda link: (link.parent_key == link.key, link.found))
    # A diagnosis may name its visit and the patient too: it hangs on the visit, which hangs on the patient.
    links = {
        child: next(link for parent, link in found.items() if not any(parent in possible[other] for other in found))
        for child, found in possible.items()
        if found and not all(any(parent in possible[other] for other in found) for parent in found)
    }
    roots = [name for name in tables if name not in links]
    if len(roots) != 1:
        raise SchemaError(
            f"{' and '.join(roots) or 'no table'}: expected one table that the others hang on, and each other with a "
            "column that names records of its parents by their key; give the columns one name, such as patient_id, or "
            "leave out a table"
        )
    ordered: dict[str, DraftedLink] = {}
    while len(ordered) < len(links):
        ready = {
            name: link for name, link in links.items() if link.parent in (*roots, *ordered) and name not in ordered
        }
        if not ready:
            raise SchemaError(f"{', '.join(links)}: the tables hang on each other in a circle; leave one of them out")
        ordered |= ready
    return ordered


def ancestors_keys(table: pa.Table, links: Mapping[str, DraftedLink], name: str) -> tuple[str, ...]:
    """Return the columns of a table that are called as a key of those above its parents."""
    above, keys = links.get(links[name].parent) if name in links else None, []
    while above is not None:
        keys.append(above.parent_key)
        keys.append(above.key)
        above = links.get(above.parent)
    return tuple(key for key in dict.fromkeys(keys) if key in table.column_names)


def _names(table: pa.Table) -> dict[str, pa.Array]:
    """Return the columns that may name records, as text; null where missing."""
    found = {}
    for name in table.column_names:
        cells, present = plain_cells(table[name].combine_chunks(), pa.array(DEFAULT_MISSING_VALUES))
        if is_text(cells.type) or pt.is_integer(cells.type):
            text = cells.cast(pa.string())
            found[name] = pc.if_else(pa.array(present), text, pa.scalar(None, pa.string()))
    return found


def _is_key(cells: pa.Array) -> bool:
    return len(cells) > 0 and not cells.null_count and pc.count_distinct(cells).as_py() == len(cells)


def _link(child: str, column: str, cells: pa.Array, parent: str, key: str, values: pa.Array) -> DraftedLink | None:
    """Return the link by a column of the child and a key of the parent, or None where it is hardly one."""
    if not (column == key or (called_id(column) and called_id(key)) or parent.rstrip("s") in column):
        return None
    found = float(pc.mean(pc.is_in(cells.drop_null(), value_set=values).cast(pa.float64())).as_py() or 0.0)
    if found < _LEAST_FOUND:
        return None
    sure = "sure" if column == key and found == 1 else "a guess: look at it"
    if column != key:
        sure += ", the two columns have different names"
    if found < 1:
        sure += ', and set orphans = "drop" if the others may be left out'
    why = (
        f"each of the {len(values):,} values of {parent}.{key} is there once, and {found:.1%} of the {len(cells):,} of "
        f"{child}.{column} are among them ({sure})"
    )
    return DraftedLink(parent=parent, key=key, parent_key=column, found=found, why=why)
