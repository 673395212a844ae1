"""A first draft of the schema of linked tables, from files that their owner has declared public."""

import math
import re
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.app.drafts.draft import Draft, draft
from noisegate.app.drafts.drafted import called_id, vocabulary
from noisegate.errors import DataError, OptionError, SchemaError
from noisegate.schema import DEFAULT_MISSING_VALUES, Comparison, Date, Datetime
from noisegate.schema.columns import Problem
from noisegate.schema.encode import (
    encode,
    join_names,
    normalized_names,
    strip_cells,
)
from noisegate.schema.files import write_toml
from noisegate.schema.linked.links import Link
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate.schema.linked.table_schema import (
    Key,
    check_origin,
    key_parts,
    origin_ticks,
    ticks_at,
    ticks_per_unit,
)
from noisegate.schema.numeric import rounded_bounds
from noisegate.sources.families import Families
from noisegate.sources.frames import read_table
from noisegate.sources.linked import LinkedSource

_LEAST_PARENTS = 30  # what is the same in all children is remarked where so many parents have two or more
_LEAST_FOUND = 0.9
"""Of the records of a child, at least so many name one of the parents: a sample may hold some without theirs."""


@dataclass(frozen=True, kw_only=True)
class DraftedLink:
    """A table whose records name those of another one."""

    parent: str  # name of the table of the parents
    key: Key  # the column there in which each value stands once, or the columns in which together they do
    parent_key: Key  # the column, or columns, of the child that have these values
    found: float  # share of the child's records whose parent is there
    why: str  # what was seen, and whether it leaves doubts


@dataclass(frozen=True, kw_only=True)
class LinkedDraft:
    """A schema of linked tables drafted from public files, and why it says what it says."""

    schema: LinkedSchema  # what was drafted
    drafts: Mapping[str, Draft]  # each table's own draft, by name
    links: Mapping[
        str, DraftedLink
    ]  # how each table is linked to that of its parents, by the child's name
    remarks: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # of each table by name, what else was seen
    rules: tuple[str, ...] = ()  # the reasons of the schema's constraints, in order

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that were left out, such as ``visits.note``, with the reason."""
        return {
            f"{name}.{key}": why
            for name, one in self.drafts.items()
            for key, why in one.ignored.items()
        }

    def toml(self) -> str:
        """Returns the schema file, with the reasons as comments."""
        blocks = []
        for table in self.schema.tables:
            said = [self.links[table.name].why] if table.name in self.links else []
            said += self.remarks.get(table.name, ())
            above = "".join(
                f"# {line}\n" for text in said for line in textwrap.wrap(text, 118)
            )
            more = {
                name: value for name, value in table.form().items() if name != "orphans"
            }
            more |= {"orphans": table.orphans} if table.child else {}
            drafted = self.drafts[table.name]
            more["ignore"] = [
                column
                for column in table.schema.ignore
                if column not in drafted.schema.ignore
            ]
            blocks.append(
                above + drafted.toml(prefix=("tables", table.name), more=more)
            )
        rules = [rule.form() for rule in self.schema.constraints]
        if rules:
            blocks.append(
                write_toml(
                    {"constraints": rules},
                    constraint_comments=[[why] for why in self.rules],
                )
            )
        return "\n".join(blocks)


def draft_linked(paths: Mapping[str, Any]) -> LinkedDraft:
    """Returns a draft of the schema of *public* tables, by name; for their columns, and what is raised, see `draft`."""
    # What names records of another table is found by values and names, the order of children by a date or a name like
    # one. How many children a parent has at most, and the longest gap between two, come from the records, rounded up. A
    # SchemaError if the tables do not hang together as a tree.
    tables = {name: read_table(path) for name, path in paths.items()}
    links = _links(tables)
    drafts, linked = {}, []
    for name in (next(name for name in tables if name not in links), *links):
        link = links.get(name)
        named = {
            below.key: child for child, below in links.items() if below.parent == name
        }
        if len(named) > 1:
            told = " and ".join(
                f"{_written(key)} in {child}" for key, child in named.items()
            )
            cure = "name them by one key in both, or leave one out"
            raise SchemaError(f"{name}: its records are named by {told}; {cure}")
        key = next(iter(named), None)
        keys = [*key_parts(key), *([] if link is None else key_parts(link.parent_key))]
        above = _ancestors_keys(tables[name], links, name)
        try:
            own = drafts[name] = draft(paths[name], without={*keys, *above})
        except (DataError, SchemaError) as error:
            raise type(error)(f"{name}: {error}") from None
        schema = replace(
            own.schema,
            ignore=(*own.schema.ignore, *(each for each in above if each not in keys)),
        )
        child: dict[str, Any] = {}
        if link is not None:
            order = _order(tables[name], own, link)
            child = {
                "parent": link.parent,
                "parent_key": link.parent_key,
                "order": order,
                "most": 1,
            }
        linked.append(LinkedTable(name=name, schema=schema, key=key, **child))
    return _measured(
        LinkedDraft(schema=LinkedSchema(linked), drafts=drafts, links=links), tables
    )


def _links(tables: Mapping[str, pa.Table]) -> dict[str, DraftedLink]:
    """Returns the link of each table but the root to the table of its parents, parents first; they make a tree."""
    named = {name: _text_columns(table) for name, table in tables.items()}
    keys = {
        name: [column for column, cells in found.items() if _is_key(cells)]
        for name, found in named.items()
    }
    possible: dict[str, dict[str, DraftedLink]] = {name: {} for name in tables}
    for place, child in enumerate(tables):
        for other, parent in enumerate(tables):
            # Where the records of two tables name each other, one by one, the first file has the parents.
            found = [
                link
                for column in named[child]
                if parent != child and (other < place or column not in keys[child])
                for key in keys[parent]
                if (
                    column == key
                    or column not in keys[child]
                    or parent.rstrip("s") in str(column)
                )
                and (
                    link := _link(
                        child,
                        column,
                        named[child][column],
                        parent,
                        key,
                        named[parent][key],
                    )
                )
                is not None
            ]
            if found:
                possible[child][parent] = max(
                    found, key=lambda link: (link.parent_key == link.key, link.found)
                )
    # A diagnosis may name its visit and the patient too: its parent is the visit, whose parent is the patient.
    links = {
        child: next(
            link
            for parent, link in found.items()
            if not any(parent in possible[other] for other in found)
        )
        for child, found in possible.items()
        if found
        and not all(
            any(parent in possible[other] for other in found) for parent in found
        )
    }
    # A table whose records name those of two others, of which neither is linked to the other, is refused.
    for child, above in possible.items():
        parents = [
            link
            for one, link in above.items()
            if not any(one in possible[upper] for upper in above)
        ]
        meant = [
            one
            for one in parents
            if one.parent_key == one.key
            or one.parent.rstrip("s") in str(one.parent_key)
        ]
        if len(meant) > 1:
            told = ", and of ".join(
                f"{link.parent}, by {_written(link.parent_key)}" for link in meant[:2]
            )
            raise SchemaError(
                f"{child}: its records name those of {told}; a table has one parent: join the columns of "
                f"{meant[1].parent} to {child} in the data, and leave out the file of {meant[1].parent}"
            )
    roots = [name for name in tables if name not in links]
    if len(roots) != 1:
        raise SchemaError(
            f"{' and '.join(roots) or 'no table'}: expected one root table, and each other table with a "
            "column that names parents by their key; give the columns one name, such as patient_id, or leave one out"
        )
    ordered: dict[str, DraftedLink] = {}
    while len(ordered) < len(links):
        ready = {
            name: link
            for name, link in links.items()
            if link.parent in (*roots, *ordered) and name not in ordered
        }
        if not ready:
            raise SchemaError(
                f"{', '.join(links)}: the links form a cycle; omit one of these tables"
            )
        ordered |= ready
    return ordered


def _ancestors_keys(
    table: pa.Table, links: Mapping[str, DraftedLink], name: str
) -> tuple[str, ...]:
    above = links.get(links[name].parent) if name in links else None
    keys: list[str] = []
    while above is not None:
        keys += (*key_parts(above.parent_key), *key_parts(above.key))
        above = links.get(above.parent)
    return tuple(key for key in dict.fromkeys(keys) if key in table.column_names)


def _text_columns(table: pa.Table) -> dict[Key, pa.Array]:
    found: dict[Key, pa.Array] = {}
    for name in table.column_names:
        cells, present = strip_cells(
            table[name].combine_chunks(), pa.array(DEFAULT_MISSING_VALUES)
        )
        with suppress(Problem):  # of a type that names nothing
            if pt.is_string((names := normalized_names(cells, name)).type):
                found[name] = pc.if_else(
                    pa.array(present), names, pa.scalar(None, pa.string())
                )
    parts = [
        name
        for name in found
        if re.search(vocabulary("parts"), str(name).lower()) or called_id(str(name))
    ]
    single = {name for name in parts if _is_key(found[name])}
    several = [pair for pair in permutations(parts, 2) if single.isdisjoint(pair)]
    found.update({pair: join_names([found[name] for name in pair]) for pair in several})
    return found


def _is_key(cells: pa.Array) -> bool:
    return (
        len(cells) > 0
        and not cells.null_count
        and pc.count_distinct(cells).as_py() == len(cells)
    )


def _link(
    child: str, column: Key, cells: pa.Array, parent: str, key: Key, values: pa.Array
) -> DraftedLink | None:
    one, other = _written(column), _written(key)
    alike = called_id(one) and called_id(other)
    if column != key and not (
        isinstance(column, str)
        and isinstance(key, str)
        and (alike or parent.rstrip("s") in one)
    ):
        return None
    named, empty = cells.drop_null(), cells.null_count
    found = _share_in(named, values)
    if found < _LEAST_FOUND:
        bare = (
            [pc.utf8_ltrim(texts, characters="0") for texts in (named, values)]
            if pt.is_string(named.type)
            else []
        )
        if bare and _share_in(*bare) >= _LEAST_FOUND:
            raise SchemaError(
                f"{child}.{one} and {parent}.{other}: the keys are the same but for leading zeros, and 000001 is "
                "another one than 1; write them alike in both files"
            )
        return None
    sure = (
        "sure" if column == key and found == 1 and not empty else "a guess: look at it"
    )
    if column != key:
        sure += ", the two columns have different names"
    if found < 1 or empty:
        sure += ', and set orphans = "drop" if the others may be left out'
    among = f"{math.floor(1000 * found) / 1000:.1%} of the {len(named):,} of {child}.{one} are among them"
    among += f"; {empty:,} of the records name none" if empty else ""
    why = f"each of the {len(values):,} values of {parent}.{other} is there once, and {among} ({sure})"
    return DraftedLink(parent=parent, key=key, parent_key=column, found=found, why=why)


def _written(key: Key) -> str:
    return " + ".join(key_parts(key))


def _share_in(cells: pa.Array, values: pa.Array) -> float:
    return float(
        pc.mean(pc.is_in(cells, value_set=values).cast(pa.float64())).as_py() or 0.0
    )


def table_names(paths: list[Path]) -> dict[str, Path]:
    """Returns files and folders by the names of the tables that they hold: their own, without the ending."""
    found: dict[str, Path] = {}
    for path in paths:
        name = re.sub(r"[^\w-]+", "_", path.stem).lstrip("-_") or "table"
        if name in found:
            raise OptionError(
                f"{path} and {found[name]} would both be the table {name!r}; rename one"
            )
        found[name] = path
    return found


def _order(table: pa.Table, drafted: Draft, link: DraftedLink) -> str | None:
    """Returns the column that puts children in order: a date, else what is called like a time; few have two alike."""
    names = join_names(
        [
            normalized_names(table[name].combine_chunks(), name)
            for name in key_parts(link.parent_key)
        ]
    )
    parents = (
        names.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    )
    dated, named = [], []
    for column in drafted.schema.columns:
        if column.numeric and not column.missing and not any(column.outer_atoms):
            if isinstance(column, Date | Datetime):
                dated.append(column.name)
            elif re.search(vocabulary("times"), column.name.lower()):
                named.append(column.name)
    rows = encode(
        {name: table[name].combine_chunks() for name in drafted.schema.names},
        drafted.schema,
    )
    for name in (*dated, *named):
        values = rows.numeric[:, drafted.schema.layout.place(name)]
        if len(np.unique(np.column_stack([parents, values]), axis=0)) > len(values) / 2:
            return name
    return None


def _measured(found: LinkedDraft, tables: Mapping[str, pa.Table]) -> LinkedDraft:
    remarks: dict[str, tuple[str, ...]] = {}
    measured, rules, reasons = (
        {table.name: table for table in found.schema.tables},
        [],
        [],
    )
    loose = [
        replace(table, orphans="drop") if table.child else table
        for table in found.schema.tables
    ]
    with LinkedSource(tables, LinkedSchema(loose), held_bytes=2**62) as source:
        for link in source.linked.links:
            [family] = source.families(link)
            most = int(
                rounded_bounds(0.0, float(max(family.counts.max(), 1)), smallest=1.0)[1]
            )
            since, why = _since(family, link)
            if since is not None:
                rules.append(
                    Comparison(
                        left=f"{link.name}.{link.child.order}",
                        relation=">=",
                        right=since,
                    )
                )
                reasons.append(why)
            measured[link.name] = replace(
                measured[link.name],
                most=most,
                since=None if since is None else since.partition(".")[2],
                longest_gap=_longest_gap(family, link),
            )
            remarks[link.name] = _constant(family, link)
    schema = LinkedSchema(
        [measured[table.name] for table in found.schema.tables], tuple(rules)
    ).usable()
    return replace(found, schema=schema, remarks=remarks, rules=tuple(reasons))


def _longest_gap(family: Families, link: Link) -> float | None:
    order, later = link.order, family.is_later
    if order is None or not later.any():
        return None
    ticks = ticks_at(
        order, family.children["numeric"][:, link.child.schema.layout.place(order.name)]
    )
    longest = float(np.diff(ticks, prepend=ticks[:1])[later].max()) / ticks_per_unit(
        order
    )
    return rounded_bounds(0.0, longest)[1] if longest > 0 else None


def _since(family: Families, link: Link) -> tuple[str | None, str]:
    """Returns the parent's date that is nearest to those of its children, and never after one, and why; or None."""
    order = link.order
    if not isinstance(order, Date | Datetime) or not len(family.parent_index):
        return None, ""
    ticks = ticks_at(
        order, family.children["numeric"][:, link.child.schema.layout.place(order.name)]
    )
    nearest: tuple[float, str] | None = None
    for column in link.parent.schema.columns:
        if not isinstance(column, type(order)):
            continue
        try:
            check_origin(order, column, "")
        except SchemaError:
            continue
        positions = family.parents["numeric"][
            family.parent_index, link.parent.schema.layout.place(column.name)
        ]
        gaps = ticks - origin_ticks(order, column, positions)
        if (gaps >= 0).all() and (nearest is None or np.median(gaps) < nearest[0]):
            nearest = float(np.median(gaps)), f"{link.parent.name}.{column.name}"
    return (
        (None, "")
        if nearest is None
        else (nearest[1], f"holds in all {len(ticks):,} records of {link.name}")
    )


def _constant(family: Families, link: Link) -> tuple[str, ...]:
    later = family.is_later
    several = len(np.unique(family.parent_index[later]))
    if several < _LEAST_PARENTS:
        return ()
    layout, same = link.child.schema.layout, []
    for field_name, columns in (("numeric", layout.numeric), ("codes", layout.coded)):
        values = family.children[field_name]
        for place, column in enumerate(columns):
            one = values[:, place]
            alike = (one[1:] == one[:-1]) | (np.isnan(one[1:]) & np.isnan(one[:-1]))
            if (
                column.name != link.child.order
                and alike[later[1:]].all()
                and not alike.all()
            ):
                same.append(column.name)
    return tuple(
        f"{name}: the same in all records of each of {several:,} {link.parent.name}; move it to {link.parent.name}, "
        "here and in the data, so that it is learnt once and stays the same"
        for name in same
    )
