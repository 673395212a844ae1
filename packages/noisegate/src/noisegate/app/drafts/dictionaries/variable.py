"""One column as a data dictionary describes it, and the drafted column that follows.

What the dictionary does not state is left open, for its owner to state from public
knowledge. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias

from noisegate.app.drafts.drafted import OPEN, DraftedColumn
from noisegate.app.drafts.limit_texts import limit_texts
from noisegate.errors import SchemaError
from noisegate.schema.kinds import (
    Boolean,
    Categorical,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Integer,
    Ordinal,
)
from noisegate.schema.kinds.registry import COLUMN_KINDS

# Reasons to ignore a column.
IDENTIFIER = "an identifier, which must not be learnt"
FREE_TEXT = "free text, which must not be learnt"
DECIMAL_COMMA = "numbers with a comma are not read; write them with a point"

Bound: TypeAlias = int | float | date | datetime

_FormAndComments: TypeAlias = tuple[dict[str, Any], list[str]]

_INTEGER_CODE = re.compile(r"-?(?:0|[1-9][0-9]{0,15})")  # without zeros in front
_MAX_COMMENT_LENGTH = 110
_HOW_TO_STATE = (
    "public knowledge; or leave it open, and `noisegate schema discover --columns` "
    "estimates it at a cost in ε"
)
_TRUTH_CODES = {
    frozenset(pair) for pair in (("0", "1"), ("true", "false"), ("yes", "no"))
}


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A column as a data dictionary describes it.

    Attributes:
        name: Name of the column in the data.
        kind: Its kind in a schema; None where the dictionary states no type.
        description: Its label or description, or "".
        lower: Smallest value, as the dictionary writes it; None where it states none.
        upper: Largest value, likewise.
        levels: Each code with what it means, which may be "".
        step: Distance of two values, or None.
        missing: Whether a value may be missing; None where the dictionary does not say,
            which counts as if it may.
        missing_codes: Codes that stand for a missing value.
        ignored_reason: Why no model should see the column, or None.

    Examples:
        >>> from noisegate.app.drafts.dictionaries.variable import Variable
        >>> age = Variable(name="age", kind="integer", lower="18", upper="today")
        >>> age.draft().form
        {'kind': 'integer', 'lower': 18, 'upper': Ellipsis, 'missing': True}
    """

    name: str
    kind: str | None
    description: str = ""
    lower: Any = None
    upper: Any = None
    levels: Sequence[tuple[str, str]] = ()
    step: float | None = None
    missing: bool | None = None
    missing_codes: Sequence[str] = ()
    ignored_reason: str | None = None

    def draft(self) -> DraftedColumn:
        """Drafts the column; what the dictionary does not state is open.

        It is ignored if it must not be learnt, or if what the dictionary states does
        not fit together.
        """
        description = [_shortened(self.description)] if self.description else []
        if self.ignored_reason is not None:
            left_out = DraftedColumn.left_out(self.name, self.ignored_reason)
            return DraftedColumn(
                name=self.name,
                form={},
                comments=(*description, *left_out.comments),
                is_ignored=True,
            )
        if self.kind is None:
            kinds = ", ".join(COLUMN_KINDS)
            return DraftedColumn(
                name=self.name,
                form={"kind": OPEN},
                comments=(*description, f"state kind, one of {kinds}"),
            )

        if self.kind in (Categorical.kind, Ordinal.kind):
            form, comments = self._form_of_levels(self.kind)
        elif self.kind == Boolean.kind:
            form = {"kind": self.kind}
            comments = []
        else:
            form, comments = self._form_of_numbers(self.kind)
        if self.missing is not False:
            form["missing"] = True
        drafted = DraftedColumn(
            name=self.name, form=form, comments=(*description, *comments)
        )
        try:
            _ = drafted.column
        except SchemaError as error:
            reason = f"the dictionary contradicts itself: {error}"
            return DraftedColumn.left_out(self.name, reason, form)
        return drafted

    def _form_of_levels(self, kind: str) -> _FormAndComments:
        """Returns the form of a column of levels, and the meanings of its codes.

        Codes that are two truth values make it boolean. Codes are integers if all are,
        and text otherwise; "01" is text, since the data say so.

        Args:
            kind: "categorical" or "ordinal".
        """
        levels = [
            (code, meaning)
            for code, meaning in self.levels
            if code not in self.missing_codes
        ]
        if not levels:
            return {"kind": kind, "levels": OPEN}, [f"state levels ({_HOW_TO_STATE})"]
        comments = []
        if any(meaning for _, meaning in levels):
            meanings = "; ".join(f"{code}: {meaning}" for code, meaning in levels)
            comments.append(_shortened(meanings))

        codes = list(dict.fromkeys(code for code, _ in levels))
        lowered_codes = frozenset(code.lower() for code in codes)
        if len(codes) == 2 and lowered_codes in _TRUTH_CODES:
            return {"kind": Boolean.kind}, comments
        if all(_INTEGER_CODE.fullmatch(code) for code in codes):
            return {"kind": kind, "levels": [int(code) for code in codes]}, comments
        return {"kind": kind, "levels": codes}, comments

    def _form_of_numbers(self, kind: str) -> _FormAndComments:
        """Returns the form of a column with bounds, and comments.

        Integers with a bound that has decimals are real numbers. Comments say what is
        still to be stated, and what the dictionary states that no bound can be.

        Args:
            kind: A kind of column with bounds.
        """
        stated = {"lower": self.lower, "upper": self.upper}
        bounds = {key: _parse_bound(kind, text) for key, text in stated.items()}
        has_decimals = any(isinstance(bound, float) for bound in bounds.values())
        if kind == Integer.kind and has_decimals:
            kind = Continuous.kind
        form: dict[str, Any] = {"kind": kind}
        for key, bound in bounds.items():
            form[key] = OPEN if bound is None else bound

        comments = []
        open_keys = [key for key, bound in bounds.items() if bound is None]
        unreadable = [f"{key} is {stated[key]}" for key in open_keys if stated[key]]
        if unreadable:
            comments.append(f"the dictionary says that {' and '.join(unreadable)}")
        if open_keys:
            comments.append(f"state {' and '.join(open_keys)} ({_HOW_TO_STATE})")
        comments.extend(self._add_step(form))
        comments.extend(self._add_atoms(form))
        comments.extend(self._add_limits(form))
        return form, comments

    def _add_step(self, form: dict[str, Any]) -> list[str]:
        """Adds the step to a form, which makes it decimal; returns comments on it.

        A decimal column without a usable step becomes continuous.
        """
        if form["kind"] not in (Continuous.kind, Decimal.kind):
            return []
        if self.step is not None and self._fits_on_grid(form, self.step):
            form["kind"] = Decimal.kind
            form["step"] = self.step
            return []
        form["kind"] = Continuous.kind
        if self.step is None:
            return []
        return [
            f'values have a spacing of {self.step:g}: kind = "decimal" takes it as step'
        ]

    def _fits_on_grid(self, form: dict[str, Any], step: float) -> bool:
        """Returns whether both bounds are stated and a multiple of the step apart."""
        if OPEN in form.values():
            return False
        try:
            Decimal(name=self.name, lower=form["lower"], upper=form["upper"], step=step)
        except SchemaError:
            return False
        return True

    def _add_atoms(self, form: dict[str, Any]) -> list[str]:
        """Adds codes for missing values to a form, as atoms; returns comments on them.

        A column whose bounds are open has no atoms yet.
        """
        if not self.missing_codes:
            return []
        codes = ", ".join(self.missing_codes)
        atoms = [_parse_bound(form["kind"], code) for code in self.missing_codes]
        has_bounds = OPEN not in form.values()
        if not has_bounds or None in atoms:
            return [
                f"{codes} stand for a missing value: add them to missing_values, or as "
                "atoms"
            ]
        form["atoms"] = atoms
        return [f"atoms: {codes} stand for a missing value"]

    def _add_limits(self, form: dict[str, Any]) -> list[str]:
        """Adds codes such as "<0.5" to a form, as limits; returns comments on them."""
        meanings = dict(self.levels)
        limits = limit_texts(meanings)
        if not limits or not COLUMN_KINDS[form["kind"]].may_have_limits:
            return []
        form["limits"] = limits
        # Not shortened, which would take "<0.5: low; >90" for a tag.
        return [f"limits: {limit}: {meanings[limit]}" for limit in limits]


def _parse_bound(kind: str, value: Any) -> Bound | None:
    """Parses a bound, or another value, as a dictionary writes it.

    Args:
        kind: Kind of the column.
        value: Text, or a number of JSON; None for none.

    Returns:
        A date, a datetime, an integer, or a number with decimals; None if it is none,
        such as "today".
    """
    text = "" if value is None else str(value).strip()
    # An infinite bound is an OverflowError.
    with suppress(ValueError, OverflowError):
        if kind == Date.kind:
            return date.fromisoformat(text[:10])
        if kind == Datetime.kind:
            return datetime.fromisoformat(text)
        number = float(text)
        return int(number) if number == int(number) else number
    return None


def _shortened(text: str) -> str:
    """Returns text without tags and repeated blanks, cut to the length of a comment."""
    plain = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    if len(plain) <= _MAX_COMMENT_LENGTH:
        return plain
    return f"{plain[: _MAX_COMMENT_LENGTH - 3]}..."
