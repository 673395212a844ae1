"""A first draft of the schema of linked tables, from files that are declared public.

Each table is drafted by itself, without its keys. What the records of children show
beside that: the column that puts them in order, how many one parent has, the longest
gap between two, and the parent's date that none of them is before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.app.drafts.draft import Draft, draft, read_public
from noisegate.app.drafts.drafted import comment_lines, vocabulary
from noisegate.app.drafts.links import (
    DraftedLink,
    find_links,
    keys_of_ancestors,
    written_key,
)
from noisegate.atomic import shown_path
from noisegate.errors import DataError, OptionError, SchemaError
from noisegate.schema import Comparison
from noisegate.schema.bounds import rounded_bounds
from noisegate.schema.encode import encode, join_names, normalized_names
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
from noisegate.schema.relations.ordered import are_near
from noisegate.sources.families import Families
from noisegate.sources.linked import LinkedSource
from noisegate.sources.tables.tables import table_name

# A column that is the same in all children of each parent is remarked where so many
# parents have two or more.
_MIN_PARENTS_WITH_SEVERAL = 30

# Public tables are read at once.
_ALL_IN_MEMORY = 2**62  # bytes


@dataclass(frozen=True, kw_only=True)
class LinkedDraft:
    """A schema of linked tables drafted from public files, and why it states that.

    Attributes:
        schema: What was drafted.
        drafts: Each table's own draft, by name.
        links: How each table is linked to that of its parents, by the child's name.
        remarks: What else was seen, by table.
        constraint_reasons: Why each constraint of the schema is proposed, in order.
    """

    schema: LinkedSchema
    drafts: Mapping[str, Draft]
    links: Mapping[str, DraftedLink]
    remarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constraint_reasons: tuple[str, ...] = ()

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that were left out, such as `visits.note`, with the reason."""
        return {
            f"{table}.{column}": reason
            for table, drafted in self.drafts.items()
            for column, reason in drafted.ignored.items()
        }

    def toml(self) -> str:
        """Writes the schema file, with the reasons as comments."""
        blocks = [self._table_text(table) for table in self.schema.tables]
        if self.schema.constraints:
            constraints = [rule.form() for rule in self.schema.constraints]
            constraint_text = write_toml(
                {"constraints": constraints},
                constraint_comments=[[reason] for reason in self.constraint_reasons],
            )
            blocks.append(constraint_text)
        return "\n".join(blocks)

    def _table_text(self, table: LinkedTable) -> str:
        """Writes one table, below the comments on its link and what else was seen.

        Its own draft knows nothing of links: their keys are added at its top.
        """
        comments = [*self.remarks.get(table.name, ())]
        if table.name in self.links:
            comments.insert(0, self.links[table.name].reason)

        drafted = self.drafts[table.name]
        keys = {key: value for key, value in table.form().items() if key != "orphans"}
        if table.child:
            # Stated at its default too, since a reader should decide it.
            keys["orphans"] = table.orphans
        keys["ignore"] = [
            column
            for column in table.schema.ignore
            if column not in drafted.schema.ignore
        ]
        text = drafted.toml(table_path=("tables", table.name), extra_keys=keys)
        return comment_lines(comments) + text


def table_names(paths: list[Path]) -> dict[str, Path]:
    """Returns files and folders by the names of the tables that they hold.

    Args:
        paths: The files and folders, or addresses of tables in databases; a table is
            called like its file, without the ending.

    Raises:
        OptionError: if two tables would have one name.

    Examples:
        >>> from pathlib import Path
        >>> from noisegate.app.drafts.linked import table_names
        >>> list(table_names([Path("clinic/visits.csv"), Path("lab results.csv")]))
        ['visits', 'lab_results']
    """
    paths_by_name: dict[str, Path] = {}
    for path in paths:
        name = re.sub(r"[^\w-]+", "_", table_name(path)).lstrip("-_") or "table"
        if name in paths_by_name:
            raise OptionError(
                f"{shown_path(path)} and {shown_path(paths_by_name[name])} would both be "
                f"the table {name!r}; rename one"
            )
        paths_by_name[name] = path
    return paths_by_name


def draft_linked(paths: Mapping[str, Any]) -> LinkedDraft:
    """Drafts the schema of *public* linked tables.

    What names records of another table is found by values and names, the order of
    children by a date or a name like one. How many children a parent has at most, and
    the longest gap between two, come from the records, rounded up.

    Args:
        paths: Paths, or tables in memory, by the name of the table.

    Raises:
        DataError: if a table cannot be read, or has no records.
        SchemaError: if the tables do not make one tree, or no column of a table can be
            used.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.app.drafts.linked import draft_linked
        >>> patients = pa.table({"id": ["a", "b"], "age": [40, 61]})
        >>> visits = pa.table({"id": ["a", "a", "b"], "pain": [3, 5, 9]})
        >>> drafted = draft_linked({"patients": patients, "visits": visits})
        >>> drafted.links["visits"].parent, drafted.schema.table("visits").parent_key
        ('patients', 'id')
    """
    tables = {name: read_public(path).table for name, path in paths.items()}
    links = find_links(tables)
    root = next(name for name in tables if name not in links)
    drafts = {}
    linked_tables = []
    for name in (root, *links):
        link = links.get(name)
        key = _key_named_by_children(name, links)
        own_keys = list(key_parts(key))
        if link is not None:
            own_keys += key_parts(link.parent_key)
        ancestor_keys = keys_of_ancestors(tables[name], links, name)
        try:
            drafted = draft(paths[name], keys={*own_keys, *ancestor_keys})
        except (DataError, SchemaError) as error:
            raise type(error)(f"{name}: {error}") from None
        drafts[name] = drafted

        ignored_keys = [column for column in ancestor_keys if column not in own_keys]
        schema = replace(drafted.schema, ignore=(*drafted.schema.ignore, *ignored_keys))
        linked_table = LinkedTable(name=name, schema=schema, key=key)
        if link is not None:
            linked_table = replace(
                linked_table,
                parent=link.parent,
                parent_key=link.parent_key,
                order=_order_column(tables[name], drafted, link),
                most=1,  # until the children are counted
            )
        linked_tables.append(linked_table)
    unmeasured = LinkedDraft(
        schema=LinkedSchema(linked_tables), drafts=drafts, links=links
    )
    return _with_measurements(unmeasured, tables)


def _key_named_by_children(name: str, links: Mapping[str, DraftedLink]) -> Key:
    """Returns the key by which children name the records of a table; None if none do.

    Raises:
        SchemaError: if two tables name them by different keys.
    """
    children_by_key = {
        link.key: child for child, link in links.items() if link.parent == name
    }
    if len(children_by_key) > 1:
        uses = " and ".join(
            f"{written_key(key)} in {child}" for key, child in children_by_key.items()
        )
        raise SchemaError(
            f"{name}: its records are named by {uses}; name them by one key in both, "
            "or leave one out"
        )
    return next(iter(children_by_key), None)


def _order_column(table: pa.Table, drafted: Draft, link: DraftedLink) -> str | None:
    """Returns the column that puts the children of a parent in order.

    Args:
        table: The table of the children.
        drafted: Its draft.
        link: Its link to the parents.

    Returns:
        The first date or timestamp, else the first number that is called like a time,
        of which few children of one parent have the same value; None for no such
        column.
    """
    time_names = []
    number_names = []
    for column in drafted.schema.columns:
        if not column.numeric or column.missing or any(column.outer_atoms):
            continue
        if column.name in drafted.schema.computed_names:
            continue
        if column.is_temporal:
            time_names.append(column.name)
        elif re.search(vocabulary("order_words"), column.name.lower()):
            number_names.append(column.name)

    arrays = {name: table[name].combine_chunks() for name in drafted.schema.names}
    records = encode(arrays, drafted.schema)
    parent_codes = _parent_codes(table, link)
    for name in (*time_names, *number_names):
        positions = records.numeric[:, drafted.schema.layout.place(name)]
        pairs = np.unique(np.column_stack([parent_codes, positions]), axis=0)
        if len(pairs) > len(positions) / 2:
            return name
    return None


def _parent_codes(table: pa.Table, link: DraftedLink) -> npt.NDArray[np.int32]:
    """Returns an integer for each record, the same for all of one parent, (records,).

    Records without a parent have -1.
    """
    names = join_names(
        [
            normalized_names(table[column].combine_chunks(), column)
            for column in key_parts(link.parent_key)
        ]
    )
    codes = names.dictionary_encode().indices.fill_null(-1)
    return np.asarray(codes.to_numpy(zero_copy_only=False))


def _with_measurements(
    drafted: LinkedDraft, tables: Mapping[str, pa.Table]
) -> LinkedDraft:
    """Adds to a draft what the children of each parent show.

    Args:
        drafted: The draft, with `most` of 1.
        tables: All tables by name.
    """
    measured_tables = {table.name: table for table in drafted.schema.tables}
    constraints = []
    constraint_reasons = []
    remarks = {}
    # A sample may hold children without their parents.
    without_orphans = [
        replace(table, orphans="drop") if table.child else table
        for table in drafted.schema.tables
    ]
    with LinkedSource(
        tables, LinkedSchema(without_orphans), memory_bytes=_ALL_IN_MEMORY
    ) as source:
        for link in source.linked.links:
            [families] = source.read_families(link)
            since = _nearest_origin(families, link)
            if since is not None:
                rule = Comparison(
                    left=f"{link.name}.{link.child.order}",
                    relation=">=",
                    right=f"{link.parent.name}.{since}",
                )
                constraints.append(rule)
                constraint_reasons.append(
                    f"holds in all {len(families.parent_index):,} records of "
                    f"{link.name}"
                )
            measured_tables[link.name] = replace(
                measured_tables[link.name],
                most=_max_children(families),
                since=since,
                longest_gap=_longest_gap(families, link),
            )
            remarks[link.name] = _constant_column_remarks(families, link)
    schema = LinkedSchema(
        [measured_tables[table.name] for table in drafted.schema.tables],
        tuple(constraints),
    )
    return replace(
        drafted,
        schema=schema.usable(),
        remarks=remarks,
        constraint_reasons=tuple(constraint_reasons),
    )


def _max_children(families: Families) -> int:
    """Returns the largest number of children of one parent, rounded up; 1 or more."""
    max_count = float(max(families.child_counts.max(), 1))
    _, rounded_up = rounded_bounds(0.0, max_count, smallest=1.0)
    return int(rounded_up)


def _order_ticks(families: Families, link: Link) -> npt.NDArray[Any]:
    """Returns where children stand in their order, in ticks of it, (children,)."""
    assert link.order is not None
    index = link.child.schema.layout.place(link.order.name)
    return ticks_at(link.order, families.children["numeric"][:, index])


def _longest_gap(families: Families, link: Link) -> float | None:
    """Returns the longest gap between two children of one parent, rounded up.

    Returns:
        The gap in numbers, days or, of timestamps, seconds; None for children without
        an order, or without gaps.
    """
    has_predecessor = families.has_predecessor
    if link.order is None or not has_predecessor.any():
        return None
    ticks = _order_ticks(families, link)
    gaps = np.diff(ticks, prepend=ticks[:1])[has_predecessor]
    longest = float(gaps.max()) / ticks_per_unit(link.order)
    if longest <= 0:
        return None
    _, rounded_up = rounded_bounds(0.0, longest)
    return rounded_up


def _nearest_origin(families: Families, link: Link) -> str | None:
    """Returns the parent's date that its children follow most closely.

    Returns:
        Of the parent's columns that are near those of the children by their bounds,
        and never after one of them, the one with the smallest median distance; None if
        there is none.
    """
    order = link.order
    if order is None or not order.is_temporal or not len(families.parent_index):
        return None
    ticks = _order_ticks(families, link)
    layout = link.parent.schema.layout
    nearest_name = None
    smallest_median = np.inf
    for column in link.parent.schema.layout.numeric:
        if column.kind != order.kind or not are_near(order, column):
            continue
        try:
            check_origin(order, column, "")
        except SchemaError:
            continue
        # Of each child, the date of its parent.
        positions = families.parents["numeric"][
            families.parent_index, layout.place(column.name)
        ]
        distances = ticks - origin_ticks(order, column, positions)
        median = float(np.median(distances))
        if (distances >= 0).all() and median < smallest_median:
            nearest_name = column.name
            smallest_median = median
    return nearest_name


def _constant_column_remarks(families: Families, link: Link) -> tuple[str, ...]:
    """Returns a remark on each column that is the same in all children of a parent.

    None are made where few parents have several children, nor of a column that is the
    same in all records.
    """
    has_predecessor = families.has_predecessor
    parents_with_several = len(np.unique(families.parent_index[has_predecessor]))
    if parents_with_several < _MIN_PARENTS_WITH_SEVERAL:
        return ()
    layout = link.child.schema.layout
    constant_names = []
    for encoded_field, columns in (
        ("numeric", layout.numeric),
        ("codes", layout.coded),
    ):
        for index, column in enumerate(columns):
            values = families.children[encoded_field][:, index]
            are_both_missing = np.isnan(values[1:]) & np.isnan(values[:-1])
            is_repeated = (values[1:] == values[:-1]) | are_both_missing
            is_constant = (
                is_repeated[has_predecessor[1:]].all() and not is_repeated.all()
            )
            if is_constant and column.name != link.child.order:
                constant_names.append(column.name)
    parent = link.parent.name
    return tuple(
        f"{name}: the same in all records of each of {parents_with_several:,} "
        f"{parent}; move it to {parent}, here and in the data, so that it is learnt "
        "once and stays the same"
        for name in constant_names
    )
