"""A schema with gaps: what is publicly known of a table whose bounds and levels are still to be bought at the gate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from noisegate.errors import OptionError, SchemaError, said
from noisegate.schema.columns import COLUMN_KINDS, Column, check_keys, column_from_form
from noisegate.schema.files import check_visible, parse_toml, read_text
from noisegate.schema.numeric import Datetime, Decimal
from noisegate.schema.schema import DEFAULT_MISSING_VALUES
from noisegate.schema.values import (
    Boolean,
    Categorical,
    checked_column_name,
    checked_flag,
)

IGNORE, MOMENT_IN_UTC = "ignore", "datetime-utc"
KINDS = (
    "continuous",
    "integer",
    "date",
    "datetime",
    MOMENT_IN_UTC,
    "categorical",
    "boolean",
    IGNORE,
)
"""What a column may be called before anything else is known of it; ordinal levels need an order, so they are given."""

OPEN_KIND = "?"  # stands in a file for a kind that is still to be filled in, as if the column were not in it

EVERY_OTHER = (
    "*"  # stands for all columns that have no kind yet, where kinds are given by name
)

_FACTS = {"lower", "upper", "levels", "other"}
_DAYS, _MOMENTS = (
    (date(2000, 1, 1), date(2000, 1, 2)),
    (datetime(2000, 1, 1), datetime(2000, 1, 2)),
)
_READERS: dict[str, tuple[Any, Any]] = {
    "continuous": (0, 1),
    "integer": (0, 1),
    "date": _DAYS,
    "datetime": _MOMENTS,
    MOMENT_IN_UTC: (_MOMENTS[0].replace(tzinfo=UTC), _MOMENTS[1].replace(tzinfo=UTC)),
}
"""Bounds of a column that reads cells of a kind as they stand: they mean nothing."""


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A column of one of ``KINDS``, but boolean and ignore, whose bounds or levels are not known."""

    name: str
    kind: str
    missing: bool = True

    @property
    def numeric(self) -> bool:
        """Whether bounds are wanted, as opposed to levels."""
        return self.kind != Categorical.kind

    @property
    def reader(self) -> Column:
        """A column of this kind for reading cells as they stand; its own bounds or levels mean nothing."""
        if not self.numeric:
            return Categorical(name=self.name, levels=("level",), missing=True)
        lower, upper = _READERS[self.kind]
        kind: Any = COLUMN_KINDS[
            Datetime.kind if self.kind == MOMENT_IN_UTC else self.kind
        ]
        column: Column = kind(name=self.name, lower=lower, upper=upper, missing=True)
        return column


@dataclass(frozen=True, kw_only=True)
class PartialSchema:
    """Public knowledge about a table, as far as there is any."""

    columns: Mapping[str, Column | Gap | None]
    """All that a schema says of each column, or a gap; None for a column to ignore."""
    label: str | None = None
    missing_values: tuple[str, ...] = field(default=DEFAULT_MISSING_VALUES)

    def __post_init__(self) -> None:
        described = [
            name for name, column in self.columns.items() if column is not None
        ]
        check_visible("the name of a column,", described)
        if self.label is not None and self.columns.get(self.label) is None:
            raise SchemaError(
                f"label {self.label!r} is not one of the described columns: {', '.join(described)}"
            )

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The columns to discover, in order."""
        return tuple(
            column for column in self.columns.values() if isinstance(column, Gap)
        )

    def to_json(self) -> dict[str, Any]:
        """Returns kind and completeness of each column as plain JSON values, for a certificate."""
        kinds = {
            name: IGNORE
            if column is None
            else f"{column.kind}{'' if isinstance(column, Gap) else ' (given)'}"
            for name, column in self.columns.items()
        }
        return {
            "kinds": kinds,
            "label": self.label,
            "missing_values": list(self.missing_values),
        }


def read_partial(
    path: Path | None, kinds: Mapping[str, str], *, label: str | None = None
) -> tuple[dict[str, Column | Gap | None], str | None, tuple[str, ...]]:
    """Returns the described columns, the label and the missing values of a file of public facts and a list of kinds."""
    # The file is a schema file in which bounds or levels may be lacking. Values may be absent, but in the label, unless
    # ``missing`` is stated: only a stated fact is public knowledge. ``kinds`` and ``label`` overrule the file.
    form: dict[str, Any] = (
        {} if path is None else parse_toml(read_text(path, "file"), f"file {path}")
    )
    try:
        check_keys(
            form, ["label", "missing_values", "ignore", "columns"], "top of the file"
        )
        label = label or form.get("label")
        described = form.get("columns", {})
        if not isinstance(described, Mapping) or not all(
            isinstance(one, Mapping) for one in described.values()
        ):
            raise SchemaError("columns must be tables [columns.NAME], each with a kind")
        opened = [
            name for name, one in described.items() if one.get("kind") == OPEN_KIND
        ]
        columns = {
            checked_column_name(name): _column(name, {"missing": name != label, **one})
            for name, one in described.items()
            if name not in opened
        }
        columns |= dict.fromkeys(form.get("ignore", []))
    except SchemaError as error:
        raise SchemaError(f"file {path}: {error}") from None
    left = [name for name in opened if name not in kinds and EVERY_OTHER not in kinds]
    if left:
        note = f"fill in one of {', '.join(KINDS)} each"
        raise OptionError(
            f"file {path}: no kind is given for {', '.join(map(repr, left))}; {note}"
        )
    for name, kind in kinds.items():
        if name != EVERY_OTHER:
            columns[checked_column_name(name)] = column_of_kind(
                name, kind, missing=name != label
            )
    return columns, label, tuple(form.get("missing_values", DEFAULT_MISSING_VALUES))


def column_of_kind(
    name: str, kind: str, *, missing: bool = True
) -> Column | Gap | None:
    """Returns a column of which only the kind is known."""
    if kind == "ordinal":
        cure = f"give its levels in order with {said('columns', 'FILE')}, or call it categorical"
        raise OptionError(
            f"column {name!r}: the order of ordinal levels cannot be discovered; {cure}"
        )
    if kind not in KINDS:
        raise OptionError(
            f"column {name!r}: kind {kind!r} is not known; choose one of {', '.join(KINDS)}"
        )
    if kind == IGNORE:
        return None
    return (
        Boolean(name=name, missing=missing)
        if kind == Boolean.kind
        else Gap(name=name, kind=kind, missing=missing)
    )


def _column(name: str, form: Mapping[str, Any]) -> Column | Gap | None:
    kind = form.get("kind")
    if not {"lower", "upper"} & set(form) and (
        {"step", "atoms"} & set(form) or kind == Decimal.kind
    ):
        raise SchemaError(
            f"column {name!r}: steps and atoms are stated together with bounds; add lower and upper, or have the "
            "column discovered as continuous or integer and add them to the schema that is found"
        )
    if not _FACTS & set(form):
        check_keys(form, ["kind", "missing"], f"column {name!r}")
        return column_of_kind(
            name, str(kind), missing=checked_flag(name, "missing", form["missing"])
        )
    # Bounds carry their time zone, so a moment in UTC needs no kind of its own in a schema.
    return column_from_form(
        name, {**form, "kind": Datetime.kind if kind == MOMENT_IN_UTC else kind}
    )
