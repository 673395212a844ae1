"""A schema with gaps: public facts about a table whose bounds and levels are not known.

Some columns are described in full, as in a schema. Others only have a kind, such as
integer: these are the gaps, whose bounds or levels a discovery estimates from private
records. The caller states all of this; nothing is read off the records.

How to read it: `Gap` is a column with a gap, `PartialSchema` the table, and
`read_partial` reads both from a file and from kinds given by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from noisegate.errors import OptionError, SchemaError, said
from noisegate.schema.checks import checked_column_name, checked_flag
from noisegate.schema.columns import Column, check_keys, column_from_form
from noisegate.schema.file_form import PLAIN_CSV, FileForm
from noisegate.schema.files import check_visible, parse_toml, read_text
from noisegate.schema.kinds import Boolean, Categorical, Datetime, Decimal
from noisegate.schema.kinds.limits import checked_limits
from noisegate.schema.kinds.registry import COLUMN_KINDS
from noisegate.schema.schema import DEFAULT_MISSING_VALUES
from noisegate.sources.tables.csv_file import TextLayout

IGNORE = "ignore"
"""Kind of a column that is to be left out of the schema."""
MOMENT_IN_UTC = "datetime-utc"
"""Kind of a column of times with a time zone, in UTC."""
KIND_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "continuous": "numbers with a fraction, such as weights",
        "integer": "whole numbers, such as ages",
        "date": "days, such as 2024-05-31",
        "datetime": "points in time without a time zone",
        MOMENT_IN_UTC: "points in time with a time zone",
        "categorical": "a few words or codes, such as wards",
        "boolean": "true or false, yes or no, 1 or 0",
        IGNORE: "leave it out: names, identifiers, free text",
    }
)
"""What each kind holds, in a line."""
KINDS = tuple(KIND_MEANINGS)
"""Kinds that a column may have if nothing else is known of it. Ordinal is not among
them: the order of levels cannot be discovered, so it must be stated."""
OPEN_KIND = "?"
"""Stands in a file for a kind that is still to be filled in. Until then the column
counts as not described."""
EVERY_OTHER = "*"
"""Stands for all columns without another description, where kinds are given by name."""

# Keys of a column in a file with any of which it is described in full.
_FULL_DESCRIPTION_KEYS = {"lower", "upper", "levels", "other"}
# A column of the schema can only be built with bounds. Those of the columns that read
# cells of some kind have no meaning.
_DAYS = (date(2000, 1, 1), date(2000, 1, 2))
_TIMES = (datetime(2000, 1, 1), datetime(2000, 1, 2))
_TIMES_IN_UTC = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2000, 1, 2, tzinfo=UTC))
_READER_BOUNDS: dict[str, tuple[Any, Any]] = {
    "continuous": (0, 1),
    "integer": (0, 1),
    "date": _DAYS,
    "datetime": _TIMES,
    MOMENT_IN_UTC: _TIMES_IN_UTC,
}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A column with a kind, but without bounds or levels, which are to be discovered.

    Attributes:
        name: Name of the column.
        kind: One of `KINDS`, except "boolean" and "ignore", which have nothing to
            discover.
        missing: Whether values may be missing.
        limits: Texts such as "<0.5" that stand for a number beyond what is measured;
            they are public, and counted with the missing values.
    """

    name: str
    kind: str
    missing: bool = True
    limits: tuple[str, ...] = ()

    @property
    def numeric(self) -> bool:
        """Whether bounds are to be discovered; else levels."""
        return self.kind != Categorical.kind

    @property
    def reader(self) -> Column:
        """A column of the schema that can read cells of this kind.

        Its bounds or levels have no meaning.
        """
        if not self.numeric:
            return Categorical(name=self.name, levels=("level",), missing=True)
        lower, upper = _READER_BOUNDS[self.kind]
        column_class: Any = COLUMN_KINDS[_schema_kind(self.kind)]
        column: Column = column_class(
            name=self.name, lower=lower, upper=upper, missing=True
        )
        return column


def _schema_kind(kind: str) -> str:
    """Returns the name of a kind in a schema.

    Times in UTC have no kind of their own there; the time zone is in their bounds.

    Args:
        kind: One of `KINDS`.
    """
    return Datetime.kind if kind == MOMENT_IN_UTC else kind


@dataclass(frozen=True, kw_only=True)
class PartialSchema:
    """The public facts about a table that are stated before a discovery."""

    columns: Mapping[str, Column | Gap | None]
    """By name: a column that is described in full; a gap, whose bounds or levels are to
    be discovered; or None for a column to ignore."""
    label: str | None = None
    """Name of the column that is the label; None for a table without one."""
    missing_values: tuple[str, ...] = field(default=DEFAULT_MISSING_VALUES)
    """Texts that stand for a missing value."""
    file: FileForm = PLAIN_CSV
    """How text files of the table are written."""

    def __post_init__(self) -> None:
        described = [
            name for name, column in self.columns.items() if column is not None
        ]
        check_visible("the name of a column,", described)
        if self.label is not None and self.columns.get(self.label) is None:
            raise SchemaError(
                f"label {self.label!r} is not one of the described columns: "
                f"{', '.join(described)}"
            )

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The columns to discover, in order."""
        return tuple(
            column for column in self.columns.values() if isinstance(column, Gap)
        )

    def to_json(self) -> dict[str, Any]:
        """Returns what a certificate states of the columns, as JSON values.

        It is the kind of each column, with " (given)" if its bounds or levels were
        stated, not discovered; the label; the texts for a missing value; and the limits
        of columns whose bounds are discovered, if any.
        """
        kinds: dict[str, str] = {}
        for name, column in self.columns.items():
            if column is None:
                kinds[name] = IGNORE
            elif isinstance(column, Gap):
                kinds[name] = column.kind
            else:
                kinds[name] = f"{column.kind} (given)"
        stated: dict[str, Any] = {
            "kinds": kinds,
            "label": self.label,
            "missing_values": list(self.missing_values),
        }
        limits = {gap.name: list(gap.limits) for gap in self.gaps if gap.limits}
        if limits:
            stated["limits"] = limits
        return stated


def read_partial(
    path: Path | None, kinds: Mapping[str, str], *, label: str | None = None
) -> tuple[dict[str, Column | Gap | None], str | None, tuple[str, ...]]:
    """Reads the public facts about columns, from a file and from kinds given by name.

    The file is a schema file in which bounds or levels may be left out. Kinds given by
    name overrule it. Unless ``missing`` is stated, values may be missing in all columns
    but the label, as nothing else is public knowledge.

    Args:
        path: The file, TOML; None for none.
        kinds: Kinds of columns by name.
        label: Name of the label; None for that of the file.

    Returns:
        The described columns by name, the label, and the texts that stand for a missing
        value.

    Raises:
        SchemaError: if the file is not a schema file.
        OptionError: if a kind does not exist, or is still to be filled in.
    """
    form: dict[str, Any] = {}
    if path is not None:
        form = parse_toml(read_text(path, "file"), f"file {path}")
    try:
        check_keys(
            form,
            ["label", "missing_values", "ignore", "file", "columns"],
            "top of the file",
        )
        final_label: str | None = label or form.get("label")
        column_forms = form.get("columns", {})
        if not isinstance(column_forms, Mapping) or not all(
            isinstance(column_form, Mapping) for column_form in column_forms.values()
        ):
            raise SchemaError("columns must be tables [columns.NAME], each with a kind")
        open_names = [
            name
            for name, column_form in column_forms.items()
            if column_form.get("kind") == OPEN_KIND
        ]
        columns = {
            checked_column_name(name): _column(
                name, {"missing": name != final_label, **column_form}
            )
            for name, column_form in column_forms.items()
            if name not in open_names
        }
        columns |= dict.fromkeys(form.get("ignore", []))
    except SchemaError as error:
        raise SchemaError(f"file {path}: {error}") from None

    if EVERY_OTHER not in kinds:
        unfilled = [name for name in open_names if name not in kinds]
        if unfilled:
            raise OptionError(
                f"file {path}: no kind is given for {', '.join(map(repr, unfilled))}; "
                f"fill in one of {', '.join(KINDS)} each"
            )
    for name, kind in kinds.items():
        if name != EVERY_OTHER:
            columns[checked_column_name(name)] = column_of_kind(
                name, kind, missing=name != final_label
            )
    missing_values = tuple(form.get("missing_values", DEFAULT_MISSING_VALUES))
    return columns, final_label, missing_values


def read_file_form(path: Path | None) -> TextLayout:
    """Reads how text files are written, from a file of public facts.

    Args:
        path: The file, TOML; None for none.

    Returns:
        The form, with the columns of the file in its order.

    Raises:
        SchemaError: if the file is not a schema file.
    """
    if path is None:
        return TextLayout()
    form = parse_toml(read_text(path, "file"), f"file {path}")
    try:
        file_form = FileForm.from_form(form.get("file", {}))
    except SchemaError as error:
        raise SchemaError(f"file {path}: {error}") from None
    columns = form.get("columns", {})
    names = tuple(columns) if isinstance(columns, Mapping) else ()
    return TextLayout(form=file_form, names=names)


def column_of_kind(
    name: str, kind: str, *, missing: bool = True
) -> Column | Gap | None:
    """Builds a column of which only the kind is known.

    Args:
        name: Name of the column.
        kind: One of `KINDS`.
        missing: Whether values may be missing.

    Returns:
        A gap, whose bounds or levels are to be discovered. For a boolean, which has
        nothing to discover, a column of the schema. None for a column to ignore.

    Raises:
        OptionError: if the kind is none of `KINDS`.
    """
    if kind == "ordinal":
        raise OptionError(
            f"column {name!r}: the order of ordinal levels cannot be discovered; give "
            f"its levels in order with {said('columns', 'FILE')}, or call it "
            "categorical"
        )
    if kind not in KINDS:
        raise OptionError(
            f"column {name!r}: kind {kind!r} is not known; choose one of "
            f"{', '.join(KINDS)}"
        )
    if kind == IGNORE:
        return None
    if kind == Boolean.kind:
        return Boolean(name=name, missing=missing)
    return Gap(name=name, kind=kind, missing=missing)


def _column(name: str, form: Mapping[str, Any]) -> Column | Gap | None:
    """Reads one column of a file of public facts.

    Args:
        name: Name of the column.
        form: The TOML table of the column, completed by `missing`.

    Returns:
        A column of the schema, if bounds or levels are stated; else what
        `column_of_kind` returns.

    Raises:
        SchemaError: if the table is not that of a column.
        OptionError: if its kind is not known.
    """
    kind = form.get("kind")
    keys = set(form)
    has_bounds = bool({"lower", "upper"} & keys)
    needs_bounds = bool({"step", "atoms"} & keys) or kind == Decimal.kind
    if needs_bounds and not has_bounds:
        raise SchemaError(
            f"column {name!r}: steps and atoms are stated together with bounds; add "
            "lower and upper, or have the column discovered as continuous or integer "
            "and add them to the schema that is found"
        )
    if not _FULL_DESCRIPTION_KEYS & keys:
        check_keys(form, ["kind", "missing", "limits"], f"column {name!r}")
        column = column_of_kind(
            name, str(kind), missing=checked_flag(name, "missing", form["missing"])
        )
        return (
            _with_limits(name, column, form["limits"]) if "limits" in form else column
        )
    # Without a kind, `column_from_form` gets None and says what is missing.
    schema_kind = None if kind is None else _schema_kind(kind)
    return column_from_form(name, {**form, "kind": schema_kind})


def _with_limits(name: str, column: Column | Gap | None, limits: Any) -> Gap:
    """Adds limits to a column whose bounds are to be discovered.

    Args:
        name: Name of the column.
        column: What is known of it.
        limits: The limits that are stated.

    Raises:
        SchemaError: if they are no limits, or the column can have none.
    """
    if not isinstance(column, Gap) or not column.reader.may_have_limits:
        raise SchemaError(
            f"column {name!r}: only numbers have limits; leave them out, or have the "
            "column discovered as continuous or integer"
        )
    return replace(column, limits=checked_limits(name, limits))
