"""What is public about each column of a table that has no schema yet; a column without a kind is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from noisegate.data.raw import RawTable
from noisegate.errors import OptionError, SchemaError
from noisegate.schema import Column
from noisegate.schema.partial import KINDS, Gap, PartialSchema, column_of_kind, read_partial


def described(table: RawTable, kinds: Mapping[str, str], path: Path | None, label: str | None) -> PartialSchema:
    """Returns what is public about every column of the table, in its order.

    Raises:
        SchemaError: if a described column is not in the data.
        OptionError: naming the columns without a kind.
    """
    described, label, missing_values = read_partial(path, kinds, label=label)
    absent = [name for name in described if name not in table.names]
    suggested = {name: column_of_kind(name, kind) for name, kind in table.suggested_kinds().items()}
    known: dict[str, Column | Gap | None] = suggested | described
    unknown = [name for name in table.names if name not in known]
    if unknown and not table.quotable(known):
        raise OptionError(
            f"{table.name}: none of the {len(table.names)} fields of the first line has a kind. Kinds are not guessed "
            'from private values: give them as public knowledge, such as --kinds "age=integer,sex=categorical" '
            f"(one of {', '.join(KINDS)} each). Names are not shown, since the first line of a file without a header "
            "is a record; --show-values (in Python: show_values=True) shows them."
        )
    if absent:
        raise SchemaError(
            f"{table.name}: column {', '.join(map(repr, absent))} is described but not in the data; correct the name"
        )
    if unknown:
        raise OptionError(
            f"{table.name}: no kind is given for {', '.join(map(repr, unknown))}. Kinds are not guessed from private "
            f'values: add --kinds "{",".join(f"{name}=..." for name in unknown)}" with one of {", ".join(KINDS)} each.'
        )
    return PartialSchema(
        columns={name: known[name] for name in table.names}, label=label, missing_values=missing_values
    )
