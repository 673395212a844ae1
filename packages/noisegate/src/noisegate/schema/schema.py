"""A schema: everything that is publicly known about a table, and nothing else.

A `Schema` names the columns to read, with their bounds or levels, and may name a label,
columns to ignore and constraints. The same information has three forms::

    schema file (TOML)  ⇄  form: a dict of plain values  ⇄  Schema
                                      ⇅
                            JSON, in models and certificates

A form is checked in two steps. `Schema(...)` itself checks all that a schema must meet
to be read. `Schema.usable` checks further requirements on a new schema, so that models
and certificates of earlier versions still load.

Several tables that are linked have a schema of another class, `LinkedSchema` in
`schema.linked`. The functions at the end of the file distinguish the two, and import
that class only where it is needed: it is built on this file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.cards import ResultCard
from noisegate.errors import SchemaError
from noisegate.schema.checks import TEXT_PADDING, checked_text, set_fields
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
from noisegate.schema.file_form import PLAIN_CSV, FileForm
from noisegate.schema.files import (
    StoredSchema,
    check_visible,
    parse_toml,
    read_text,
    write_toml,
)
from noisegate.schema.kinds.kind import is_column
from noisegate.schema.layout import EncodedTable, Layout, bounds_of, list_names
from noisegate.schema.pixels import ImageColumns, ImageForm
from noisegate.schema.relations.coordinates import Coordinates, without_columns
from noisegate.schema.relations.forms import relations_from_form
from noisegate.schema.relations.relation import Relation, Values
from noisegate.schema.relations.values import encoded_values, values_of
from noisegate.schema.satisfiable import find_contradiction, is_rarely_satisfied

DEFAULT_MISSING_VALUES = ("", "?", "NA", "NaN", "nan", "null")
"""Texts that are read as a missing value unless the schema states others."""

# Problems of columns that one message lists; more would hide the first ones.
_MAX_LISTED_PROBLEMS = 10

# Keys of a form that are fields of `Schema` as they stand, and all keys.
_PLAIN_KEYS = ("label", "weights", "missing_values", "ignore")
_KEYS = (*_PLAIN_KEYS, "file", "images", "columns", "constraints", "relations")


@dataclass(frozen=True, repr=False)
class Schema(StoredSchema):
    """Public knowledge about a table.

    Attributes:
        columns: The columns to read, in the order of the columns of synthetic tables.
        label: Name of the column to be predicted from the others, or None.
        missing_values: Texts that stand for a missing value.
        ignore: Names of columns that the data may have and that are never read.
        constraints: Combinations of values that no record can have. Synthetic records
            satisfy all constraints.
        relations: Facts that hold in every record by construction, such as a sum; see
            `noisegate.schema.relations`. No query is about the columns that relations
            compute.
        images: Public knowledge about the images (`ImageForm`), if the records are
            images; None for a plain table. See `pixel_schema`.
        reasons: Reasons for the choices of a draft, by column or constraint, and its
            remarks. They are neither stored nor compared.
        file: Format of the text files of the table, private and synthetic.
        weights: Name of the column of survey weights, or None. A weight is the number
            of people in the population that a record represents. The column is released
            like every other column. With it, shares and means are estimated for the
            population, too.

    Raises:
        SchemaError: if a value is unusable, or two values contradict each other.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> columns = (Integer(name="age", lower=0, upper=120), Boolean(name="ill"))
        >>> schema = Schema(columns, label="ill")
        >>> print(schema.dumps().splitlines()[0], *schema.names)
        label = "ill" age ill
        >>> Schema.loads(schema.dumps()) == schema
        True
    """

    columns: Sequence[Column]
    label: str | None = None
    missing_values: tuple[str, ...] = DEFAULT_MISSING_VALUES
    ignore: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    images: ImageForm | None = None
    relations: tuple[Relation, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict, compare=False)
    file: FileForm = PLAIN_CSV
    weights: str | None = None

    def __post_init__(self) -> None:
        if self.images is None:
            columns: Sequence[Column] = _checked_columns(self.columns)
        else:
            columns = self._checked_image_columns()
        set_fields(
            self,
            columns=columns,
            missing_values=_checked_texts("missing_values", self.missing_values),
            ignore=_checked_texts("ignore", self.ignore),
        )
        self._check_names()
        self._check_weights()
        self._check_file()
        self._check_levels()
        set_fields(self, relations=_as_tuple("relations", self.relations))
        self._check_relations()
        set_fields(self, constraints=_as_tuple("constraints", self.constraints))
        for constraint in self.constraints:
            if not isinstance(constraint, Comparison | Impossible):
                raise SchemaError(
                    "expected constraints such as noisegate.schema.Comparison(...), "
                    f"found {constraint!r}"
                )
            constraint.check(self.file_layout, self.missing_values)

    def _checked_image_columns(self) -> ImageColumns:
        """Checks that label and columns are those of `images`, and returns the latter.

        The columns are created when they are asked for, as there may be millions.
        """
        if not isinstance(self.images, ImageForm):
            raise SchemaError(
                f"images={self.images!r}: expected a noisegate.schema.ImageForm, or "
                "None for a plain table"
            )
        columns = self.images.columns
        # Equality is tried first, as it compares shapes instead of millions of columns.
        has_these_columns = self.columns == columns or tuple(self.columns) == tuple(
            columns
        )
        if self.label != self.images.label or not has_these_columns:
            raise SchemaError(
                f"the columns are not those of images of {self.images.shape}; make the "
                "schema with pixel_schema(...), or leave `images` out"
            )
        return columns

    def _check_names(self) -> None:
        """Checks that the label is a column, and that no column is also ignored."""
        is_table = self.images is None
        if is_table and self.label is not None and self.label not in self.names:
            raise SchemaError(
                f"label {self.label!r} is not one of the columns: "
                f"{list_names(self.names)}"
            )
        for name in self.ignore:
            if name in self.names:
                raise SchemaError(
                    f"column {name!r} is both described and in `ignore`; remove it "
                    "from one of them"
                )

    def _check_weights(self) -> None:
        """Checks that weights are numbers from 0 on, which every record has."""
        if self.weights is None:
            return
        if self.images is not None:
            raise SchemaError("weights are for tables; images have none")
        if self.weights not in self.names:
            raise SchemaError(
                f"weights {self.weights!r} is not one of the columns: "
                f"{list_names(self.names)}"
            )
        column = self.file_layout.column(self.weights)
        if not column.numeric or column.unit is not None:
            raise SchemaError(
                f"weights {self.weights!r} is a column of kind {column.kind}; expected "
                "numbers, such as kind integer or continuous"
            )
        if column.missing or column.limits:
            raise SchemaError(
                f"weights {self.weights!r} may be missing or beyond a limit; expected a "
                "column in which every record has a number"
            )
        if bounds_of(column)[0] < 0:
            raise SchemaError(
                f"weights {self.weights!r} may be negative; expected a lower bound of 0 "
                "or more"
            )
        if self.weights == self.label:
            raise SchemaError(
                f"{self.weights!r} is both the label and the weights; name another "
                "label, or leave the weights out"
            )

    def _check_file(self) -> None:
        """Checks the form of text files, and that it names all columns, if any."""
        if not isinstance(self.file, FileForm):
            raise SchemaError(
                f"file={self.file!r}: expected a noisegate.schema.FileForm"
            )
        if isinstance(self.file.header, tuple):
            unnamed = [name for name in self.names if name not in self.file.header]
            if unnamed:
                raise SchemaError(
                    f"[file]: header does not name the column {unnamed[0]!r}; list all "
                    "columns in the order of the file"
                )

    def _check_relations(self) -> None:
        """Checks the relations, and that no relation computes the label."""
        if not self.relations:
            return
        if self.images is not None:
            raise SchemaError("relations are for tables; images have none")
        for relation in self.relations:
            if not isinstance(relation, Relation):
                raise SchemaError(
                    "expected relations such as noisegate.schema.Ordered(...), found "
                    f"{relation!r}"
                )
        if self.label in self._transform.dependent_names:
            raise SchemaError(
                f"label {self.label!r} is computed by a relation, and methods measure "
                "the label: take the relation out, or name another label"
            )

    def _check_levels(self) -> None:
        """Checks that no level or limit would be read as a missing value."""
        numeric_columns = self.file_layout.numeric if self.images is None else ()
        for numeric_column in numeric_columns:
            hidden = [
                text for text in numeric_column.limits if text in self.missing_values
            ]
            if hidden:
                raise SchemaError(
                    f"column {numeric_column.name!r}: the limit {hidden[0]!r} is also "
                    "one of missing_values and could never be read; remove it from the "
                    "limits, or from missing_values"
                )
        for column in self.file_layout.coded:
            unreadable = [
                text for text in column.stated_texts if str(text) in self.missing_values
            ]
            if unreadable:
                raise SchemaError(
                    f"column {column.name!r}: level {unreadable[0]!r} is also one of "
                    "missing_values and could never be read; remove it from the levels "
                    "(and set missing = true), or from missing_values"
                )

    @classmethod
    def from_form(
        cls, form: Mapping[str, Any], *, extra_keys: Sequence[str] = ()
    ) -> Schema:
        """Creates a schema from its form, as `form` returns it.

        Args:
            form: A form, as read from a schema file.
            extra_keys: Keys that the caller has removed from the form. Error messages
                list them among the allowed keys.

        Raises:
            SchemaError: if the form has no columns, or a key or value is unusable.
        """
        if "images" in form:
            return cls._from_parts(form, [], extra_keys)
        columns = form.get("columns")
        if not isinstance(columns, Mapping) or not columns:
            check_keys(form, (*_KEYS, *extra_keys), "top of the schema")
            raise SchemaError(
                "no columns; add a table [columns.NAME] with a kind for each column"
            )
        return cls._from_parts(form, list(columns.items()), extra_keys)

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Schema:
        """Creates a schema from JSON values, as `to_json` returns them.

        Raises:
            SchemaError: if `form` has no list of named columns, or a key or value is
                unusable.
        """
        if not isinstance(form, Mapping):
            raise SchemaError(
                f"expected a JSON object with columns, found {type(form).__name__}"
            )
        if "images" in form:
            return cls._from_parts(form, [])
        columns = form.get("columns")
        if not isinstance(columns, list) or not all(
            isinstance(item, Mapping) and "name" in item for item in columns
        ):
            check_keys(form, _KEYS, "top of the schema")
            raise SchemaError("`columns` must be a list of objects, each with a name")
        column_forms = []
        for item in columns:
            column = {key: value for key, value in item.items() if key != "name"}
            column_forms.append((item["name"], column))
        return cls._from_parts(form, column_forms)

    @classmethod
    def _from_parts(
        cls,
        form: Mapping[str, Any],
        column_forms: Sequence[tuple[str, Any]],
        extra_keys: Sequence[str] = (),
    ) -> Schema:
        """Creates a schema from its form and those of its columns.

        Args:
            form: The form; its key `columns` is not read.
            column_forms: Name and form of each column; none for images.
            extra_keys: Keys that messages name as allowed too.
        """
        check_keys(form, (*_KEYS, *extra_keys), "top of the schema")
        settings = {key: form[key] for key in _PLAIN_KEYS if key in form}
        if "file" in form:
            settings["file"] = FileForm.from_form(form["file"])
        if "images" not in form:
            columns = _columns_from_forms(column_forms)
            return cls(
                columns=columns,
                constraints=constraints_from_form(form, columns),
                relations=relations_from_form(
                    form.get("relations", []),
                    {column.name: column for column in columns},
                ),
                **settings,
            )

        not_of_images = ("label", "weights", "columns", "relations")
        misplaced = [key for key in not_of_images if key in form]
        if misplaced:
            raise SchemaError(
                f"`{misplaced[0]}` cannot stand beside [images], which says the "
                "columns and the label"
            )
        images = ImageForm.from_form(form["images"])
        return cls(
            columns=images.columns,
            label=images.label,
            constraints=constraints_from_form(form, images.columns),
            images=images,
            **settings,
        )

    def usable(self) -> Schema:
        """Checks the requirements on a schema for new records.

        Schemas of saved models need not meet them.

        Returns:
            This schema.

        Raises:
            SchemaError: if a name or level has invisible characters, a column's `type`
                cannot be written, or no record satisfies all constraints.
        """
        names = self.names if self.images is None else [self.label]
        check_visible("the name of a column,", names)
        self.file.check_can_write("the name of a column,", names)
        for column in self.file_layout.coded:
            check_visible(f"column {column.name!r}: the level", column.levels)
            level_texts = (*column.levels, *column.decoded_levels)
            self.file.check_can_write(f"column {column.name!r}: the level", level_texts)
        numeric_columns = self.file_layout.numeric if self.images is None else ()
        for numeric_column in numeric_columns:
            check_visible(
                f"column {numeric_column.name!r}: the limit", numeric_column.limits
            )

        has_stored_form = self.images is None and any(
            column.type or column.spelling for column in self.columns
        )
        if has_stored_form:
            # Imported here: PyArrow is slow to load, and few schemas state types.
            from noisegate.schema.arrow_types import check_stored

            check_stored(self.columns)

        if self.constraints:
            self._check_satisfiable()
        return self

    def _check_satisfiable(self) -> None:
        """Checks that some record keeps to all constraints, as far as a search can."""
        contradiction = find_contradiction(
            self.constraints, self.file_layout, self.missing_values
        )
        if contradiction:
            plural = "s" if len(contradiction) > 1 else ""
            raise SchemaError(
                f"no record keeps to the constraint{plural} "
                f"{'; '.join(map(str, contradiction))}: every synthetic one would be "
                "thrown away. Correct or remove one, or widen the bounds"
            )

    def card(self) -> ResultCard:
        """Returns the schema as a card for a terminal or a notebook."""
        if self.images is None:
            return columns_card(
                self.columns,
                self.label,
                self.constraints,
                self.relations,
                weights=self.weights,
            )
        if self.images.label is None:
            labels = "without labels"
        else:
            label_count = len(self.images.labels)
            labels = f"{label_count} labels in {self.images.label!r}"
        return ResultCard(
            title=f"Schema: images of {self.images.shape} pixels, {labels}"
        )

    def review(self) -> ResultCard:
        """Returns a card for the person who reviews a draft.

        It lists all columns, ignored columns and constraints, each with the reason that
        `draft_schema` gives, if any. The remarks of the draft are its notes.
        """
        facts = dict(self.card().facts)
        for name in self.ignore:
            # A draft has a reason for each column that it ignores.
            facts[name] = "" if self.reasons else "ignored"
        for relation in self.relations:
            facts[str(relation)] = "relation"
        for constraint in self.constraints:
            facts[str(constraint)] = "constraint"
        facts_with_reasons = {}
        for name, fact in facts.items():
            parts = (fact, self.reasons.get(name))
            facts_with_reasons[name] = "; ".join(part for part in parts if part)
        notes = [remark for remark in self.reasons if remark not in facts]
        return replace(
            self.card(), facts=facts_with_reasons, sheets=(), notes=notes, whole=True
        )

    def dumps(self) -> str:
        """Returns the schema as TOML text; images are stated by size and labels."""
        return write_toml(self.form())

    def to_json(self) -> dict[str, Any]:
        """Returns the schema as JSON values.

        Returns:
            The form, but with the columns as a list, each with its name, and with dates
            as ISO text.
        """
        form = self.form()
        if self.images is None:
            form["columns"] = [
                {"name": name, **_json_values(column)}
                for name, column in form["columns"].items()
            ]
        return form

    def form(self) -> dict[str, Any]:
        """Returns the form of the schema, as a schema file contains it.

        Empty parts are left out, so that older schemas keep their digest. A schema of
        images states the images in place of columns and label.
        """
        form: dict[str, Any] = {}
        if self.label is not None and self.images is None:
            form["label"] = self.label
        if self.weights is not None:
            form["weights"] = self.weights
        if self.images is None or self.missing_values != DEFAULT_MISSING_VALUES:
            form["missing_values"] = list(self.missing_values)
        if self.ignore:
            form["ignore"] = list(self.ignore)
        if self.file.form():
            form["file"] = self.file.form()
        if self.images is None:
            form["columns"] = {
                column.name: column_form(column) for column in self.columns
            }
        else:
            form["images"] = self.images.form()
        if self.constraints:
            form["constraints"] = [constraint.form() for constraint in self.constraints]
        if self.relations:
            form["relations"] = [relation.form() for relation in self.relations]
        return form

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        if self.images is not None:
            return self.images.columns.names()
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Returns the column with a name.

        It is a column of the file, or one that replaces columns of the file in the
        queries.

        Raises:
            SchemaError: if there is no such column.
        """
        is_of_file = name in self.file_layout.coded_places or (
            name in self.file_layout.numeric_places
        )
        return self.file_layout.column(name) if is_of_file else self.layout.column(name)

    @property
    def label_column(self) -> Column | None:
        """The label column. If it is numeric, methods treat the table as unlabelled."""
        return None if self.label is None else self.column(self.label)

    # --- What is measured of a record. ---

    @cached_property
    def layout(self) -> Layout:
        """Positions, in an encoded table, of the columns that queries are about.

        These are the columns of the file, unless relations compute some of them.
        """
        return self.coordinates.file_layout

    @cached_property
    def file_layout(self) -> Layout:
        """Positions, in a table of `file_rows`, of the columns of the file."""
        if self.images is not None:
            label_column = self.images.columns.label
            return Layout(
                numeric=ImageColumns(self.images.shape),
                coded=() if label_column is None else (label_column,),
                label=None if label_column is None else 0,
            )
        coded = tuple(column for column in self.columns if not column.numeric)
        coded_names = [column.name for column in coded]
        return Layout(
            numeric=tuple(column for column in self.columns if column.numeric),
            coded=coded,
            label=coded_names.index(self.label) if self.label in coded_names else None,
        )

    @cached_property
    def coordinates(self) -> Schema:
        """The schema of the columns that queries are about.

        It is this schema if there are no relations.
        """
        if not self.relations:
            return self
        return Schema(
            self._transform.columns,
            label=self.label,
            missing_values=self.missing_values,
        )

    @cached_property
    def _transform(self) -> Coordinates:
        """Conversion between the columns of the file and those of queries."""
        return Coordinates(tuple(self.columns), self.relations)

    @property
    def computed_names(self) -> frozenset[str]:
        """The columns of the file whose values relations compute or change."""
        return self._transform.computed_names if self.relations else frozenset()

    @property
    def related_names(self) -> frozenset[str]:
        """The columns of the file that relations name."""
        return self._transform.related_names if self.relations else frozenset()

    def measured_values(self, values: Values) -> Values:
        """Computes the columns that queries are about from the columns of the file.

        The result for a record depends on that record only, bit for bit.

        Args:
            values: The values of each column that relations name, within its bounds.
                Other columns are returned unchanged.
        """
        return self._transform.measure(values) if self.relations else values

    def file_values(self, records: EncodedTable) -> Values:
        """Computes the columns of the file, by name, from encoded records."""
        measured = values_of(records, self.layout)
        return self._transform.restore(measured) if self.relations else measured

    def file_rows(self, records: EncodedTable) -> EncodedTable:
        """Encodes the columns of the file, in `file_layout`, from encoded records."""
        if not self.relations:
            return records
        return encoded_values(self.file_values(records), self.file_layout)

    def unlabelled(self) -> Schema:
        """Returns the schema of the same records with the label ignored.

        All constraints are dropped, and the relations that name the label. If the
        schema has no label with levels, it is returned unchanged.
        """
        if self.layout.label is None:
            return self
        file = self.file
        if file.header is False:
            # The files have the column of the label all the same.
            file = replace(file, header=tuple(self.names))
        return replace(
            self,
            file=file,
            columns=tuple(
                column for column in self.columns if column.name != self.label
            ),
            label=None,
            ignore=(*self.ignore, str(self.label)),
            constraints=(),
            relations=without_columns(self.relations, frozenset([str(self.label)])),
            images=None if self.images is None else self.images.unlabelled(),
        )

    def region(self, values: Mapping[str, Any]) -> Region:
        """Returns the set of all records with the given values.

        Args:
            values: For each column, a level, a number or an interval, written as in
                `noisegate.schema.constraints`.

        Raises:
            SchemaError: for the first column that is unknown, or cannot have its value.
        """
        if not self.relations:
            return read_region(
                values, self.layout, self.missing_values, may_ask_for_presence=True
            )
        # Of a computed column nothing is known before the record is computed.
        computed = {
            name: value for name, value in values.items() if name in self.computed_names
        }
        measured = {
            name: value for name, value in values.items() if name not in computed
        }
        region = read_region(
            measured, self.layout, self.missing_values, may_ask_for_presence=True
        )
        if not computed:
            return region
        of_file = read_region(
            computed, self.file_layout, self.missing_values, may_ask_for_presence=True
        )
        return replace(
            region, beyond=lambda records: of_file.contains(self.file_rows(records))
        )

    @property
    def omissions(self) -> str | None:
        """Warning that a draft ignores columns, with reasons; None if it ignores none.

        Columns that a person put under `ignore` have no reason, and are not listed.
        """
        reasons = [
            f"{name}: {self.reasons[name]}"
            for name in self.ignore
            if name in self.reasons
        ]
        if not reasons:
            return None
        listed_reasons = "; ".join(reasons)
        return f"the draft leaves out what no copy will have: {listed_reasons}."

    @property
    def hardly_satisfiable(self) -> str | None:
        """Warning that almost no record within the bounds satisfies the constraints.

        Sampling may then fail. None if enough records satisfy them.
        """
        if not self.constraints:
            return None
        if not is_rarely_satisfied(
            self.constraints, self.file_layout, self.missing_values
        ):
            return None
        return (
            "of records drawn evenly within the bounds, fewer than 1 in 10,000 keep to "
            f"the constraints ({'; '.join(map(str, self.constraints))}). Where a model "
            "draws as few, sampling is refused: narrow the bounds to what can be, or "
            "drop a constraint."
        )

    @property
    def has_rules(self) -> bool:
        """Whether some drawn records may break a rule, and have to be drawn again."""
        return bool(self.constraints or self.relations)

    def broken_rules(
        self, records: EncodedTable
    ) -> list[tuple[str, npt.NDArray[np.bool_]]]:
        """Finds the rules that decoded records break.

        Args:
            records: Encoded records.

        Returns:
            Each broken rule as text, with a mask of the records that break it,
            (records,). Rules are constraints, and relations that compute a value which
            their column cannot have.
        """
        rows = records
        broken: list[tuple[str, npt.NDArray[np.bool_]]] = []
        if self.relations:
            values = self.file_values(records)
            rows = encoded_values(values, self.file_layout)
            for relation, is_outside in self._transform.out_of_range(values):
                broken.append((str(relation), is_outside))
        for constraint in self.constraints:
            is_broken = constraint.broken(rows, self.file_layout, self.missing_values)
            if is_broken.any():
                broken.append((str(constraint), is_broken))
        return broken

    def broken(self, records: EncodedTable) -> npt.NDArray[np.bool_]:
        """Returns a mask of the records that break a rule when decoded, (records,)."""
        is_broken = np.zeros(len(records), dtype=np.bool_)
        for _, breaks_rule in self.broken_rules(records):
            is_broken |= breaks_rule
        return is_broken


def _checked_columns(columns: Any) -> tuple[Column, ...]:
    """Checks that columns of a table are columns, at least one, with distinct names."""
    checked = _as_tuple("columns", columns)
    if not checked:
        raise SchemaError("the schema has no columns; describe at least one")
    for column in checked:
        if not is_column(column):
            raise SchemaError(
                "expected a column such as noisegate.schema.Integer(...), found "
                f"{type(column).__name__}"
            )
    # Counted in one go: a table of pixels has thousands of columns.
    name_counts = Counter(column.name for column in checked)
    repeated = [name for name, count in name_counts.items() if count > 1]
    if repeated:
        raise SchemaError(
            f"column {repeated[0]!r} is described more than once; keep one"
        )
    return checked


def _columns_from_forms(forms: Iterable[tuple[str, Any]]) -> tuple[Column, ...]:
    """Creates columns from their forms.

    Args:
        forms: Name and form of each column.

    Raises:
        SchemaError: with the problems of all columns, not of the first alone, so that
            a file is mended in one go.
    """
    columns = []
    problems = []
    for name, form in forms:
        try:
            columns.append(column_from_form(name, form))
        except SchemaError as error:
            problems.append(str(error))
    if problems:
        listed = problems[:_MAX_LISTED_PROBLEMS]
        if len(problems) > len(listed):
            listed.append(f"and {len(problems) - len(listed)} columns more")
        raise SchemaError("; ".join(listed))
    return tuple(columns)


def constraints_from_form(
    form: Mapping[str, Any], columns: Sequence[Column]
) -> tuple[Constraint, ...]:
    """Creates the constraints of a schema's form.

    Args:
        form: The form; its key `constraints` may be left out.
        columns: The columns that the constraints are about.
    """
    constraints = form.get("constraints", [])
    if not isinstance(constraints, list):
        raise SchemaError(
            f"constraints = {constraints!r}: write each one under its own "
            "[[constraints]]"
        )
    if not constraints:
        return ()
    names = [column.name for column in columns]
    return tuple(constraint_from_form(constraint, names) for constraint in constraints)


def _as_tuple(key: str, values: Any) -> tuple[Any, ...]:
    """Returns the values of a list under `key`; text and mappings are refused."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise SchemaError(f"{key} must be a list, found {values!r}")
    return tuple(values)


def _checked_texts(key: str, values: Any) -> tuple[str, ...]:
    """Checks a list of texts under `key`, and returns it stripped, each text once."""
    texts = _as_tuple(key, values)
    if not all(isinstance(text, str) for text in texts):
        raise SchemaError(f"{key} must be a list of quoted text, found {values!r}")
    # Stripped as data are before they are compared with these.
    stripped = [text.strip(TEXT_PADDING) for text in texts]
    return tuple(checked_text(text, key) for text in dict.fromkeys(stripped))


def _json_values(column: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the form of a column in values of JSON: dates become ISO text."""
    return {key: _json_value(value) for key, value in column.items()}


def _json_value(value: Any) -> Any:
    """Returns a date, or dates in a list, as ISO text; any other value as it is."""
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def is_linked(schema: object) -> bool:
    """Returns whether a schema describes several tables that are linked."""
    return getattr(schema, "links", None) is not None


def is_schema(value: object) -> bool:
    """Returns whether a value is a schema, of one table or of linked ones."""
    return isinstance(value, Schema) or is_linked(value)


def schema_from_json(form: Mapping[str, Any]) -> Any:
    """Returns the schema, of one table or of linked ones, that `to_json` returned."""
    return _schema_class(form).from_json(form)


def _schema_class(form: Mapping[str, Any]) -> Any:
    """Returns the class of schemas that a form belongs to: `Schema`, or of links."""
    if "tables" in form:
        from noisegate.schema.linked.schema import LinkedSchema

        return LinkedSchema
    return Schema


def read_schema(path: str | Path) -> Any:
    """Reads a schema file, of one table or of linked ones.

    Raises:
        SchemaError: if the file cannot be read, or its schema is unusable.
    """
    text = read_text(path, "schema file")
    origin = f"schema file {path}"
    return _schema_class(parse_toml(text, origin)).loads(text, origin=origin)
