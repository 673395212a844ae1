"""A schema with gaps: what is publicly known of a table whose bounds and levels are still to be bought at the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from noisegate.errors import OptionError, SchemaError
from noisegate.schema import checks
from noisegate.schema.columns import Boolean, Categorical, Column, Continuous, Date, Datetime, Integer
from noisegate.schema.forms import check_keys, column_from_form
from noisegate.schema.schema import DEFAULT_MISSING_VALUES
from noisegate.schema.toml import parse_toml

IGNORE, MOMENT_IN_UTC = "ignore", "datetime-utc"
KINDS = ("continuous", "integer", "date", "datetime", MOMENT_IN_UTC, "categorical", "boolean", IGNORE)
"""What a column may be called before anything else is known of it; ordinal levels need an order, so they are given."""

_DAY, _MOMENT = (date(2000, 1, 1), date(2000, 1, 2)), (datetime(2000, 1, 1), datetime(2000, 1, 2))
_FACTS = {"lower", "upper", "levels", "other"}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A column of known kind whose bounds or levels are not known.

    Attributes:
        name: name of the column in the data.
        kind: one of ``KINDS`` but boolean and ignore.
        missing: whether a value may be absent; it may, unless the contrary is public knowledge.
    """

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
        return _READERS[self.kind](self.name)


_READERS: dict[str, Callable[[str], Column]] = {
    Continuous.kind: lambda name: Continuous(name=name, lower=0, upper=1, missing=True),
    Integer.kind: lambda name: Integer(name=name, lower=0, upper=1, missing=True),
    Date.kind: lambda name: Date(name=name, lower=_DAY[0], upper=_DAY[1], missing=True),
    Datetime.kind: lambda name: Datetime(name=name, lower=_MOMENT[0], upper=_MOMENT[1], missing=True),
    MOMENT_IN_UTC: lambda name: Datetime(
        name=name, lower=_MOMENT[0].replace(tzinfo=UTC), upper=_MOMENT[1].replace(tzinfo=UTC), missing=True
    ),
    Categorical.kind: lambda name: Categorical(name=name, levels=("level",), missing=True),
}


@dataclass(frozen=True, kw_only=True)
class PartialSchema:
    """Public knowledge about a table, as far as there is any.

    Attributes:
        columns: for each column by name, all that a schema says of it, or a gap; None for a column to ignore.
        label: name of the column to be predicted from the others, or None.
        missing_values: text that stands for a missing value.
    """

    columns: Mapping[str, Column | Gap | None]
    label: str | None = None
    missing_values: tuple[str, ...] = field(default=DEFAULT_MISSING_VALUES)

    def __post_init__(self) -> None:
        described = [name for name, column in self.columns.items() if column is not None]
        checks.show_as_they_read("the name of a column,", described)
        if self.label is not None and self.columns.get(self.label) is None:
            raise SchemaError(f"label {self.label!r} is not one of the described columns: {', '.join(described)}")

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The columns to discover, in order."""
        return tuple(column for column in self.columns.values() if isinstance(column, Gap))

    def to_json(self) -> dict[str, Any]:
        """Return kind and completeness of each column as plain JSON values, for a certificate."""
        kinds = {
            name: IGNORE if column is None else f"{column.kind}{'' if isinstance(column, Gap) else ' (given)'}"
            for name, column in self.columns.items()
        }
        return {"kinds": kinds, "label": self.label, "missing_values": list(self.missing_values)}


def gaps_of(public: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many columns lacked bounds, and how many lacked levels, in what `PartialSchema.to_json` wrote."""
    kinds = public.get("kinds")
    gaps = [kind for kind in kinds.values() if kind in _READERS] if isinstance(kinds, Mapping) else []
    return len(gaps) - gaps.count(Categorical.kind), gaps.count(Categorical.kind)


def read_partial(
    path: Path | None, kinds: Mapping[str, str], *, label: str | None = None
) -> tuple[dict[str, Column | Gap | None], str | None, tuple[str, ...]]:
    """Return the described columns, the label and the missing values of a file of public facts and a list of kinds.

    The file is a schema file in which a column may lack ``lower`` and ``upper``, or ``levels``. Where ``missing`` is
    not stated, values may be absent: only a stated fact is public knowledge.

    Args:
        path: the file, TOML, or None.
        kinds: kinds of further columns by name; they overrule the file.
        label: name of the label; overrules the file.

    Raises:
        SchemaError: if the file cannot be read or something in it is wrong.
        OptionError: if a kind is not known.
    """
    form: dict[str, Any] = {}
    if path is not None:
        form = parse_toml(_text(path), f"file {path}")
    try:
        check_keys(form, ["label", "missing_values", "ignore", "columns"], "top of the file")
        columns: dict[str, Column | Gap | None] = {
            checks.column_name(name): _column(name, column) for name, column in _table(form.get("columns", {})).items()
        }
        columns |= dict.fromkeys(form.get("ignore", []))
    except SchemaError as error:
        raise SchemaError(f"file {path}: {error}") from None
    for name, kind in kinds.items():
        columns[checks.column_name(name)] = column_of_kind(name, kind)
    return columns, label or form.get("label"), tuple(form.get("missing_values", DEFAULT_MISSING_VALUES))


def column_of_kind(name: str, kind: str, *, missing: bool = True) -> Column | Gap | None:
    """Return a column of which only the kind is known.

    Raises:
        OptionError: if there is no such kind, or it cannot be discovered.
    """
    if kind == "ordinal":
        raise OptionError(
            f"column {name!r}: the order of ordinal levels cannot be discovered; give its levels in order with "
            "--columns FILE, or call it categorical"
        )
    if kind not in KINDS:
        raise OptionError(f"column {name!r}: kind {kind!r} is not known; choose one of {', '.join(KINDS)}")
    if kind == IGNORE:
        return None
    return Boolean(name=name, missing=missing) if kind == Boolean.kind else Gap(name=name, kind=kind, missing=missing)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"file {path} is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise SchemaError(f"file {path} cannot be read: {error.strerror}; check the path") from None


def _table(columns: Any) -> Mapping[str, Any]:
    if not isinstance(columns, Mapping) or not all(isinstance(form, Mapping) for form in columns.values()):
        raise SchemaError("columns must be tables [columns.NAME], each with a kind")
    return columns


def _column(name: str, form: Mapping[str, Any]) -> Column | Gap | None:
    kind = form.get("kind")
    if not _FACTS & set(form):
        check_keys(form, ["kind", "missing"], f"column {name!r}")
        return column_of_kind(name, str(kind), missing=checks.flag(name, "missing", form.get("missing", True)))
    # Bounds carry their time zone, so a moment in UTC needs no kind of its own in a schema.
    whole = {"missing": True, **form, "kind": Datetime.kind if kind == MOMENT_IN_UTC else kind}
    return column_from_form(name, whole)
