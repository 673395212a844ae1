"""A schema: everything that is publicly known about a table, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from noisegate.cards import ResultCard
from noisegate.errors import SchemaError
from noisegate.schema.columns import (
    Column,
    check_keys,
    column_form,
    column_from_form,
    columns_card,
)
from noisegate.schema.constraints import (
    Comparison,
    Constraint,
    Impossible,
    Region,
    constraint_from_form,
    read_region,
)
from noisegate.schema.files import (
    StoredSchema,
    check_visible,
    parse_toml,
    read_text,
    write_toml,
)
from noisegate.schema.layout import EncodedTable, Layout, list_names
from noisegate.schema.pixels import ImageColumns, ImageForm
from noisegate.schema.satisfiable import find_contradiction, is_rarely_satisfied
from noisegate.schema.values import TEXT_PADDING, Boolean, checked_text

DEFAULT_MISSING_VALUES = ("", "?", "NA", "NaN", "nan", "null")
"""Text that is read as a missing value unless the schema says otherwise."""

_MOST_TOLD = 10
_TOP_KEYS = ("label", "missing_values", "ignore")
_KEYS = (*_TOP_KEYS, "images", "columns", "constraints")


@dataclass(frozen=True, repr=False)
class Schema(StoredSchema):
    """Public knowledge about a table.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=120), Boolean(name="ill")), label="ill")
        >>> print(schema.dumps().splitlines()[0], *schema.names)
        label = "ill" age ill
        >>> Schema.loads(schema.dumps()) == schema
        True
    """

    columns: Sequence[Column]
    """The columns to read, in the order in which synthetic tables have them."""
    label: str | None = None
    """Name of the column to be predicted from the others, or None."""
    missing_values: tuple[str, ...] = DEFAULT_MISSING_VALUES
    """Text that stands for a missing value."""
    ignore: tuple[str, ...] = ()
    """Names of columns that the data may have and that are never read."""
    constraints: tuple[Constraint, ...] = ()
    """What no record can say; synthetic records keep to all of them."""
    images: ImageForm | None = None
    """Says that the records are images, whose columns and label these are, or None. See `pixel_schema`."""
    reasons: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Why a draft says what it says, by column or constraint, and its remarks; not stored."""

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "columns",
            _checked_columns(self.columns) if self.images is None else self._of_form(),
        )
        object.__setattr__(
            self, "missing_values", _texts("missing_values", self.missing_values)
        )
        object.__setattr__(self, "ignore", _texts("ignore", self.ignore))
        if (
            self.images is None
            and self.label is not None
            and self.label not in self.names
        ):
            raise SchemaError(
                f"label {self.label!r} is not one of the columns: {list_names(self.names)}"
            )
        for name in self.ignore:
            if name in self.names:
                raise SchemaError(
                    f"column {name!r} is both described and in `ignore`; remove it from one of them"
                )
        for column in self.layout.coded:
            said = column.words if isinstance(column, Boolean) else column.levels
            unread = [level for level in said if str(level) in self.missing_values]
            if unread:
                raise SchemaError(
                    f"column {column.name!r}: level {unread[0]!r} is also one of missing_values and could never be "
                    "read; remove it from the levels (and set missing = true), or from missing_values"
                )
        object.__setattr__(self, "constraints", _items("constraints", self.constraints))
        for constraint in self.constraints:
            if not isinstance(constraint, Comparison | Impossible):
                raise SchemaError(
                    f"expected constraints such as noisegate.schema.Comparison(...), found {constraint!r}"
                )
            constraint.check(self.layout, self.missing_values)

    def _of_form(self) -> Sequence[Column]:
        """Returns the columns of images, which are made when they are asked for."""
        form, given = self.images, self.columns
        if not isinstance(form, ImageForm):
            raise SchemaError(
                f"images={form!r}: expected a noisegate.schema.ImageForm, or None for a plain table"
            )
        columns = form.columns
        if self.label != form.label or (
            given != columns and tuple(given) != tuple(columns)
        ):
            cure = "make the schema with pixel_schema(...), or leave `images` out"
            raise SchemaError(
                f"the columns are not those of images of {form.shape}; {cure}"
            )
        return columns

    @classmethod
    def from_form(cls, form: Mapping[str, Any], *, also: Sequence[str] = ()) -> Schema:
        """Returns the schema that :meth:`form` wrote; messages name the keys that may stand ``also`` beside these."""
        columns = {} if "images" in form else form.get("columns")
        if "images" not in form and (not isinstance(columns, Mapping) or not columns):
            check_keys(form, (*_KEYS, *also), "top of the schema")
            raise SchemaError(
                "no columns; add a table [columns.NAME] with a kind for each column"
            )
        return cls._from_forms(form, list((columns or {}).items()), also)

    def usable(self) -> Schema:
        """Returns this schema, after what is asked of one for new records, and not of those in models and certificates.

        Names and levels show as they read, and there are records that keep to all constraints; else a `SchemaError`.
        """
        check_visible(
            "the name of a column,", self.names if self.images is None else [self.label]
        )
        for column in self.layout.coded:
            check_visible(f"column {column.name!r}: the level", column.levels)
        if self.images is None and any(
            one.type or getattr(one, "spelling", None) for one in self.columns
        ):
            # Imported here: PyArrow is slow to load, and few schemas state types.
            from noisegate.schema.arrow_types import check_stored

            check_stored(self.columns)
        clash = (
            find_contradiction(self.constraints, self.layout, self.missing_values)
            if self.constraints
            else ()
        )
        if clash:
            raise SchemaError(
                f"no record keeps to the constraint{'s' if len(clash) > 1 else ''} {'; '.join(map(str, clash))}: every "
                "synthetic one would be thrown away. Correct or remove one, or widen the bounds"
            )
        return self

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Schema:
        """Returns the schema that :meth:`to_json` wrote; a `SchemaError` says what is wrong with it."""
        if not isinstance(form, Mapping):
            raise SchemaError(
                f"expected a JSON object with columns, found {type(form).__name__}"
            )
        columns = [] if "images" in form else form.get("columns")
        if not isinstance(columns, list) or not all(
            isinstance(item, Mapping) and "name" in item for item in columns
        ):
            check_keys(form, _KEYS, "top of the schema")
            raise SchemaError("`columns` must be a list of objects, each with a name")
        named = [
            (item["name"], {key: value for key, value in item.items() if key != "name"})
            for item in columns
        ]
        return cls._from_forms(form, named)

    @classmethod
    def _from_forms(
        cls,
        top: Mapping[str, Any],
        columns: list[tuple[str, Any]],
        also: Sequence[str] = (),
    ) -> Schema:
        check_keys(top, (*_KEYS, *also), "top of the schema")
        settings = {key: top[key] for key in _TOP_KEYS if key in top}
        if "images" not in top:
            described = _described(columns)
            return cls(
                columns=described,
                constraints=constraints_from_form(top, described),
                **settings,
            )
        misplaced = [key for key in ("label", "columns") if key in top]
        if misplaced:
            raise SchemaError(
                f"`{misplaced[0]}` cannot stand beside [images], which says the columns and the label"
            )
        images = ImageForm.from_form(top["images"])
        constraints = constraints_from_form(top, images.columns)
        return cls(
            columns=images.columns,
            label=images.label,
            constraints=constraints,
            images=images,
            **settings,
        )

    def card(self) -> ResultCard:
        """Returns what the schema says, as a card for a terminal or a notebook."""
        form = self.images
        if form is None:
            return columns_card(self.columns, self.label, self.constraints)
        labels = (
            f", {len(form.labels)} labels in {form.label!r}"
            if form.label is not None
            else ", without labels"
        )
        return ResultCard(title=f"Schema: images of {form.shape} pixels{labels}")

    def review(self) -> ResultCard:
        """Returns a card with all columns, ignored ones and constraints, and why `draft_schema` says so."""
        facts = {
            **self.card().facts,
            **dict.fromkeys(self.ignore, "" if self.reasons else "ignored"),
        }
        facts |= {str(one): "constraint" for one in self.constraints}
        told = {
            name: "; ".join(filter(None, (said, self.reasons.get(name))))
            for name, said in facts.items()
        }
        notes = [said for said in self.reasons if said not in facts]
        return replace(self.card(), facts=told, sheets=(), notes=notes, whole=True)

    def dumps(self) -> str:
        """Returns the schema as TOML text; images are described as such, not by their columns."""
        return write_toml(self.form())

    def to_json(self) -> dict[str, Any]:
        """Returns the schema as plain JSON values; images are described as such, not by their columns."""
        form = self.form()
        if self.images is None:
            columns = (
                {"name": name, **column} for name, column in form["columns"].items()
            )
            form["columns"] = [
                {key: _json(value) for key, value in column.items()}
                for column in columns
            ]
        return form

    def form(self) -> dict[str, Any]:
        """Returns the schema as schema files hold it; what is at its default may be left out."""
        form: dict[str, Any] = (
            {}
            if self.label is None or self.images is not None
            else {"label": self.label}
        )
        if self.images is None or self.missing_values != DEFAULT_MISSING_VALUES:
            form["missing_values"] = list(self.missing_values)
        if self.ignore:
            form["ignore"] = list(self.ignore)
        if self.images is None:
            form["columns"] = {
                column.name: column_form(column) for column in self.columns
            }
        else:
            form["images"] = self.images.form()
        # Left out when there is none, so that schemas from before there were constraints keep their digest.
        return form | (
            {"constraints": [one.form() for one in self.constraints]}
            if self.constraints
            else {}
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        form = self.images
        return (
            tuple(column.name for column in self.columns)
            if form is None
            else form.columns.names()
        )

    def column(self, name: str) -> Column:
        """Returns the column called ``name``; a `SchemaError` if there is none."""
        return self.layout.column(name)

    @property
    def label_column(self) -> Column | None:
        """The label; a numeric one means that methods treat the table as unlabelled."""
        return None if self.label is None else self.column(self.label)

    @cached_property
    def layout(self) -> Layout:
        """Where each column stands in an encoded table."""
        if self.images is not None:
            known = self.images.columns.label
            pixels = ImageColumns(self.images.shape)
            return Layout(
                numeric=pixels,
                coded=() if known is None else (known,),
                label=None if known is None else 0,
            )
        coded = tuple(column for column in self.columns if not column.numeric)
        label = next(
            (index for index, column in enumerate(coded) if column.name == self.label),
            None,
        )
        return Layout(
            numeric=tuple(column for column in self.columns if column.numeric),
            coded=coded,
            label=label,
        )

    def unlabelled(self) -> Schema:
        """Returns the schema of records whose label, if they have one, is not read; itself if it has no codes."""
        if self.layout.label is None:
            return self
        columns = tuple(column for column in self.columns if column.name != self.label)
        images = None if self.images is None else self.images.unlabelled()
        ignored = (*self.ignore, str(self.label))
        return replace(
            self,
            columns=columns,
            label=None,
            ignore=ignored,
            constraints=(),
            images=images,
        )

    def region(self, values: Mapping[str, Any]) -> Region:
        """Returns the records that have the given values, by column; see `noisegate.schema.constraints`.

        Raises:
            SchemaError: for the first column that is unknown, or whose value it can never have.
        """
        return read_region(values, self.layout, self.missing_values)

    @property
    def hardly_satisfiable(self) -> str | None:
        """Why sampling may come to nothing, or None: almost no record within the bounds keeps to the constraints."""
        if not self.constraints or not is_rarely_satisfied(
            self.constraints, self.layout, self.missing_values
        ):
            return None
        return (
            "of records drawn evenly within the bounds, fewer than 1 in 10,000 keep to the constraints "
            f"({'; '.join(map(str, self.constraints))}). Where a model draws as few, sampling is refused: narrow the "
            "bounds to what can be, or drop a constraint."
        )

    def broken(self, records: EncodedTable) -> npt.NDArray[np.bool_]:
        """Returns which records break a constraint once they are decoded, (rows,)."""
        found = np.zeros(len(records), dtype=np.bool_)
        for constraint in self.constraints:
            found |= constraint.broken(records, self.layout, self.missing_values)
        return found


def _checked_columns(columns: Any) -> tuple[Column, ...]:
    found = _items("columns", columns)
    if not found:
        raise SchemaError("the schema has no columns; describe at least one")
    kinds = get_args(Column)
    for column in found:
        if not isinstance(column, kinds):
            raise SchemaError(
                f"expected a column such as noisegate.schema.Integer(...), found {type(column).__name__}"
            )
    # Counted in one go: a table of pixels has thousands of columns.
    repeated = next(
        (
            name
            for name, times in Counter(column.name for column in found).items()
            if times > 1
        ),
        None,
    )
    if repeated is not None:
        raise SchemaError(f"column {repeated!r} is described more than once; keep one")
    return found


def _described(forms: Iterable[tuple[str, Any]]) -> tuple[Column, ...]:
    """Returns the columns; a `SchemaError` says what is wrong with all of them, not with the first alone."""
    described, problems = [], []
    for name, form in forms:
        try:
            described.append(column_from_form(name, form))
        except SchemaError as error:
            problems.append(str(error))
    if problems:
        more = (
            [f"and {len(problems) - _MOST_TOLD} columns more"]
            if len(problems) > _MOST_TOLD
            else []
        )
        raise SchemaError("; ".join([*problems[:_MOST_TOLD], *more]))
    return tuple(described)


def constraints_from_form(
    top: Mapping[str, Any], columns: Sequence[Column]
) -> tuple[Constraint, ...]:
    """Returns the rules of a schema's form between some columns."""
    constraints = top.get("constraints", [])
    if not isinstance(constraints, list):
        raise SchemaError(
            f"constraints = {constraints!r}: write each one under its own [[constraints]]"
        )
    names = [column.name for column in columns] if constraints else []
    return tuple(constraint_from_form(item, names) for item in constraints)


def _items(key: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise SchemaError(f"{key} must be a list, found {values!r}")
    return tuple(values)


def _texts(key: str, values: Any) -> tuple[str, ...]:
    found = _items(key, values)
    if not all(isinstance(value, str) for value in found):
        raise SchemaError(f"{key} must be a list of quoted text, found {values!r}")
    stripped = (
        value.strip(TEXT_PADDING) for value in found
    )  # as data is stripped before it is compared
    return tuple(checked_text(value, key) for value in dict.fromkeys(stripped))


def _json(value: Any) -> Any:
    """Returns a value of a column as JSON can hold it: dates become ISO text."""
    if isinstance(value, list):
        return [_json(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def is_linked(schema: object) -> bool:
    """Returns whether a schema describes several tables that are linked; what it says of them is its package's."""
    return getattr(schema, "links", None) is not None


def is_schema(value: object) -> bool:
    """Returns whether something is a schema of whatever kind."""
    return isinstance(value, Schema) or is_linked(value)


def schema_from_json(form: Mapping[str, Any]) -> Any:
    """Returns the schema that its `to_json` gave."""
    return _schema_class(form).from_json(form)


def _schema_class(form: Mapping[str, Any]) -> Any:
    """Returns the class of schemas of which a form is."""
    if "tables" in form:
        from noisegate.schema.linked.schema import LinkedSchema

        return LinkedSchema
    return Schema


def read_schema(path: str | Path) -> Any:
    """Returns the schema in a file; a `SchemaError` says what is wrong with it."""
    text, origin = read_text(path, "schema file"), f"schema file {path}"
    return _schema_class(parse_toml(text, origin)).loads(text, origin=origin)
