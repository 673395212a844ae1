"""Reads relations as a schema file writes them, each under its own [[relations]].

::

    rule = "discharge >= admission"            largest = 60 besides, if it is known
    rule = "bmi = weight / (height / 100) ** 2"
    rule = "country_of_birth = nationality"
    rule = "100 = wine + beer + spirits"
    column = "country"     of = "city"         levels = { Paris = "France" }
    column = "wage"        only_if = { job = "employed" }, or exactly_if
    one_of = ["bus", "car", "bicycle"]
    together = ["systolic", "diastolic"]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from noisegate.errors import SchemaError
from noisegate.schema.relations.expression import Expression, quoted
from noisegate.schema.relations.formula import Formula, Lookup
from noisegate.schema.relations.ordered import Ordered
from noisegate.schema.relations.parts import Parts
from noisegate.schema.relations.relation import Columns, Relation
from noisegate.schema.relations.states import OneOf, OnlyIf, Together

# Of a formula without columns, the value of one record.
_ONE = np.ones(1)


def relations_from_form(forms: Any, columns: Columns) -> tuple[Relation, ...]:
    """Creates the relations of a schema's form.

    Args:
        forms: The value of the key `relations`.
        columns: The columns of the file, by name.
    """
    if not isinstance(forms, list):
        raise SchemaError(
            f"relations = {forms!r}: write each one under its own [[relations]]"
        )
    return tuple(relation_from_form(form, columns) for form in forms)


def relation_from_form(form: Any, columns: Columns) -> Relation:
    """Creates a relation from its form.

    Raises:
        SchemaError: if it has none of the forms of the module.
    """
    match form:
        case {"rule": str(rule), "largest": largest, **others} if not others:
            relation = parse_rule(rule, columns)
            if isinstance(relation, Ordered):
                return Ordered(
                    upper_name=relation.upper_name,
                    lower_name=relation.lower_name,
                    strict=relation.strict,
                    largest=largest,
                )
            raise SchemaError(
                f"relation {rule!r}: largest is for a difference, as of "
                '"discharge >= admission"'
            )
        case {"rule": str(rule), **others} if not others:
            return parse_rule(rule, columns)
        case {
            "column": str(column),
            "of": str(source),
            "levels": Mapping() as levels,
            **others,
        } if not others:
            return Lookup(name=column, source=source, levels=dict(levels))
        case {
            "column": str(column),
            "only_if": Mapping() as condition,
            **others,
        } if not others:
            return OnlyIf(column=column, condition=dict(condition))
        case {
            "column": str(column),
            "exactly_if": Mapping() as condition,
            **others,
        } if not others:
            return OnlyIf(column=column, condition=dict(condition), always=True)
        case {"one_of": list(names), **others} if not others:
            return OneOf(columns=_names(names))
        case {"together": list(names), **others} if not others:
            return Together(columns=_names(names))
    raise SchemaError(
        f'relation {form!r}: write rule = "discharge >= admission" or rule = "bmi = '
        'weight / (height / 100) ** 2"; column = "wage" with only_if = { job = '
        '"employed" }; column = "country" with of = "city" and levels = { Paris = '
        '"France" }; one_of = [...]; or together = [...]'
    )


def _names(values: list[Any]) -> tuple[str, ...]:
    """Returns a list of names; anything else in it is refused."""
    for value in values:
        if not isinstance(value, str):
            raise SchemaError(f"relation {values!r}: expected names of columns")
    return tuple(values)


def parse_rule(rule: str, columns: Columns) -> Relation:
    """Parses the text of a relation.

    Args:
        rule: Text with one of >=, >, <=, <, = in it.
        columns: The columns of the file, by name.

    Raises:
        SchemaError: if it is no relation.
    """
    for sign in (">=", "<=", ">", "<", "="):
        left_text, found_sign, right_text = rule.partition(sign)
        if not found_sign:
            continue
        left = _side(left_text, columns)
        right = _side(right_text, columns)
        if sign == "=":
            return _equation(rule, left, right, columns)
        left_name = _name(rule, left)
        right_name = _name(rule, right)
        if sign in (">=", ">"):
            return Ordered(
                upper_name=left_name, lower_name=right_name, strict=sign == ">"
            )
        return Ordered(upper_name=right_name, lower_name=left_name, strict=sign == "<")
    raise SchemaError(
        f"relation {rule!r}: expected >=, >, <=, < or = between columns, or a formula "
        "of them"
    )


def _side(text: str, columns: Columns) -> Expression:
    """Parses one side of a rule; a column needs no backticks where it stands alone."""
    stripped = text.strip()
    if stripped in columns:
        return Expression(quoted(stripped))
    return Expression(stripped)


def _name(rule: str, side: Expression) -> str:
    """Returns the column that a side of a comparison is.

    Raises:
        SchemaError: if it is a formula.
    """
    if len(side.names) == 1 and side.is_one_of(side.names):
        return side.names[0]
    raise SchemaError(
        f"relation {rule!r}: {side.text!r} is no column; compare two columns, and add "
        "a column for a formula"
    )


def _equation(
    rule: str, left: Expression, right: Expression, columns: Columns
) -> Relation:
    """Returns the relation of an equation: parts of a number, a copy, or a formula."""
    if not left.names:
        whole = float(left.value({"": _ONE})[0])
        return Parts(whole=whole, parts=_summands(rule, right))
    name = _name(rule, left)
    is_copy = right.is_one_of(right.names)
    if is_copy and name in columns and not columns[name].numeric:
        return Lookup(name=name, source=right.names[0])
    return Formula(name=name, expression=right)


def _summands(rule: str, sum_of_parts: Expression) -> tuple[str, ...]:
    """Returns the columns of a sum.

    Raises:
        SchemaError: if it is another formula.
    """
    parts = tuple(part.strip().strip("`") for part in sum_of_parts.text.split("+"))
    if parts != sum_of_parts.names:
        raise SchemaError(
            f"relation {rule!r}: a number stands for the sum of columns alone, such as "
            "100 = a + b + c"
        )
    return parts
