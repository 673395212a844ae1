"""A first draft of a schema from a file that its owner has declared public; never from private data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from noisegate.discovery.draft_columns import draft_columns, read_public
from noisegate.discovery.draft_types import shortest
from noisegate.discovery.drafted import DraftedColumn, drafted_text, schema_of
from noisegate.discovery.rules import MOST_COLUMNS, Rules, find_rules
from noisegate.errors import DataError, SchemaError
from noisegate.schema import (
    Schema,
)
from noisegate.schema.encode import encode, plain_cells

# Of so many records at most are rules looked for.
_MOST_ROWS = 200_000


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A schema drafted from a public file, and why it says what it says."""

    schema: Schema  # what was drafted; columns that nobody should use as they are stand under its ``ignore``
    entries: tuple[DraftedColumn, ...]  # the columns with the reasons, in the order of the file
    rules: Rules  # the constraints with their reasons, and what else holds in all records

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that were left out, with the reason."""
        return {entry.name: " ".join(entry.why) for entry in self.entries if entry.ignored}

    def toml(self, *, prefix: Sequence[str] = (), more: Mapping[str, Any] = MappingProxyType({})) -> str:
        """Returns the schema file, with the reasons as comments; below ``prefix``, with ``more`` keys at its top."""
        form = self.schema.form()
        top: dict[str, Any] = {key: form[key] for key in ("label", "missing_values") if key in form}
        constraints = list(zip(form.get("constraints", ()), self.rules.reasons, strict=True))
        return drafted_text(
            self.entries, top={**more, **top}, constraints=constraints, remarks=self.rules.remarks, prefix=prefix
        )


def draft_schema(public: Any, label: str | None = None) -> Schema:
    """Returns a schema drafted from *public* records, as `noisegate schema init` drafts it from a file.

    Its bounds and levels come straight from the records, so never use it on private ones: `discover_schema` buys them.

    Args:
        public: a table of any kind that `noisegate.fit` takes, or the path of a file that is public.
        label: name of the column to be predicted from the others.

    Raises:
        DataError: if the records cannot be read, or there are none.
        SchemaError: if a column holds free text, or nothing at all, or ``label`` is not a column.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import draft_schema
        >>> schema = draft_schema(pa.table({"age": [18, 35, 62], "job": ["nurse", "baker", "nurse"]}))
        >>> schema.column("age").upper, schema.column("job").levels
        (70, ('baker', 'nurse'))
    """
    return draft(public, label=label).schema


def draft(path: Any, label: str | None = None, *, without: Collection[str] = ()) -> Draft:
    """Returns a draft of a schema from a *public* file: its bounds and levels come straight from the records.

    Numbers that are only 0 and 1, and a label of few distinct whole numbers, become categorical; numbers with leading
    zeros (codes) are text. Identifiers, free text and whatever else cannot be used as it is are put under ``ignore``,
    with the reason and what to do about it. A sample that is large enough also shows steps, atoms and constraints.
    Raises as `draft_schema` does. Columns ``without`` which it is drafted are keys.
    """
    table, odd = read_public(path)
    where = Path(path).name if isinstance(path, str | Path) else "the table"
    if not table.num_rows and table.column_names:
        raise DataError(f"{where}: there are no records to draft a schema from")
    if label is not None and label not in (*table.column_names, *odd):
        raise SchemaError(f"label {label!r} is not a column of {where}: {', '.join(table.column_names)}")
    names = [name for name in table.column_names if name not in without]
    entries, marks = draft_columns(path, table, odd, label, names=names)
    why = next((" ".join(entry.why) for entry in entries if entry.ignored and entry.name == label), None)
    if why is not None:
        raise SchemaError(f"label {label!r} cannot be predicted as it is: {why}")
    schema = schema_of(entries, label, missing_values=marks)
    rules = _rules(table, schema)
    return Draft(schema=replace(schema, constraints=rules.constraints).usable(), entries=entries, rules=rules)


def _rules(table: pa.Table, schema: Schema) -> Rules:
    if len(schema.names) > MOST_COLUMNS:
        return Rules(remarks=(f"Constraints were not looked for: there are more than {MOST_COLUMNS} columns.",))
    tokens = pa.array([], pa.string())
    plain = pa.table({name: shortest(plain_cells(table[name].combine_chunks(), tokens)[0]) for name in schema.names})
    some = plain.take(pa.array(range(0, table.num_rows, -(-table.num_rows // _MOST_ROWS))))
    return find_rules(encode({name: some[name].combine_chunks() for name in schema.names}, schema), schema)
