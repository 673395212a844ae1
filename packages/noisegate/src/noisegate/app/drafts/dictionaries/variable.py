"""What a data dictionary says of one column, and the entry of a schema file that follows from it."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from noisegate.app.drafts.drafted import OPEN, DraftedColumn
from noisegate.errors import SchemaError
from noisegate.schema.columns import COLUMN_KINDS
from noisegate.schema.numeric import Continuous, Date, Datetime, Decimal, Integer
from noisegate.schema.values import Boolean, Categorical, Ordinal

IDENTIFIER = "an identifier, which must not be learnt"
FREE_TEXT = "free text, which must not be learnt"
COMMA = "numbers with a comma are not read; write them with a point"

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,15})")
_ABOUT = 110
_STATE = "public knowledge; or leave it open, and `noisegate schema discover --columns` buys it"
_CODED = (Categorical.kind, Ordinal.kind)
_TRUTHS = {frozenset(pair) for pair in (("0", "1"), ("true", "false"), ("yes", "no"))}


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A column as a dictionary describes it."""

    name: str  # as the data has it
    kind: str | None  # as schemas call it; None where the dictionary gives no type
    about: str = ""  # its label or description
    lower: Any = None  # least value, in the words of the dictionary; None where it says none. So is `upper`
    upper: Any = None
    levels: Sequence[
        tuple[str, str]
    ] = ()  # each code with what it means, which may be empty
    step: float | None = None  # distance of two values, or None
    missing: bool | None = (
        None  # whether a value may be absent; None where the dictionary does not say, as if it may
    )
    codes: Sequence[str] = ()  # codes that stand for a missing value
    ignored: str | None = None  # why no model should see it, or None

    def entry(self) -> DraftedColumn:
        """Returns the entry of a schema file, in which is open what the dictionary does not say."""
        about = (_short(self.about),) if self.about else ()
        if self.ignored is not None:
            left = DraftedColumn.left_out(self.name, self.ignored)
            return DraftedColumn(
                name=self.name, form={}, why=(*about, *left.why), ignored=True
            )
        if self.kind is None:
            kinds = ", ".join(COLUMN_KINDS)
            return DraftedColumn(
                name=self.name,
                form={"kind": OPEN},
                why=(*about, f"state kind, one of {kinds}"),
            )
        form, why = self._coded() if self.kind in _CODED else self._bounded()
        form |= {} if self.missing is False else {"missing": True}
        entry = DraftedColumn(name=self.name, form=form, why=(*about, *why))
        try:
            _ = entry.column
        except SchemaError as error:
            return DraftedColumn.left_out(
                self.name, f"the dictionary does not fit itself: {error}", form
            )
        return entry

    def _coded(self) -> tuple[dict[str, Any], list[str]]:
        given = [(code, label) for code, label in self.levels if code not in self.codes]
        if not given:
            return {"kind": self.kind, "levels": OPEN}, [f"state levels ({_STATE})"]
        codes = list(dict.fromkeys(code for code, _ in given))
        told = (
            [_short("; ".join(f"{code}: {label}" for code, label in given))]
            if any(label for _, label in given)
            else []
        )
        if frozenset(code.lower() for code in codes) in _TRUTHS and len(codes) == 2:
            return {"kind": Boolean.kind}, told
        whole = all(_WHOLE.fullmatch(code) for code in codes)  # without leading zeros
        return {
            "kind": self.kind,
            "levels": [int(code) for code in codes] if whole else codes,
        }, told

    def _bounded(self) -> tuple[dict[str, Any], list[str]]:
        kind, why = str(self.kind), list[str]()
        if kind == Boolean.kind:
            return {"kind": kind}, why
        ends = {key: _bound(kind, getattr(self, key)) for key in ("lower", "upper")}
        if kind == Integer.kind and any(
            isinstance(end, float) for end in ends.values()
        ):
            kind = Continuous.kind
        said = [
            f"{key} is {getattr(self, key)}"
            for key, end in ends.items()
            if end is None and getattr(self, key)
        ]
        why += [f"the dictionary says that {' and '.join(said)}"] if said else []
        form: dict[str, Any] = {
            "kind": kind,
            **{key: OPEN if end is None else end for key, end in ends.items()},
        }
        still = [key for key, end in ends.items() if end is None]
        if still:
            why.append(f"state {' and '.join(still)} ({_STATE})")
        return form | self._stepped(kind, form, why), why

    def _stepped(
        self, kind: str, form: Mapping[str, Any], why: list[str]
    ) -> dict[str, Any]:
        known, more = OPEN not in form.values(), dict[str, Any]()
        if self.step is not None and kind in (Continuous.kind, Decimal.kind):
            more = (
                {"kind": Decimal.kind, "step": self.step}
                if known and self._on_grid(form)
                else {"kind": Continuous.kind}
            )
            why += (
                []
                if "step" in more
                else [
                    f'values stand {self.step:g} apart: kind = "decimal" takes that as step'
                ]
            )
        elif kind == Decimal.kind:
            more = {"kind": Continuous.kind}
        atoms = [_bound(kind, code) for code in self.codes]
        if atoms and known and None not in atoms:
            why.append(f"atoms: {', '.join(self.codes)} stand for a missing value")
            return more | {"atoms": atoms}
        why += (
            [
                f"{', '.join(self.codes)} stand for a missing value: add them to missing_values, or as atoms"
            ]
            if atoms
            else []
        )
        return more

    def _on_grid(self, form: Mapping[str, Any]) -> bool:
        with contextlib.suppress(SchemaError):
            Decimal(
                name=self.name,
                lower=form["lower"],
                upper=form["upper"],
                step=self.step or 0.0,
            )
            return True
        return False


def _bound(kind: str, said: Any) -> Any:
    """Returns a bound as a number, a day or a moment; None where it is none, such as "today"."""
    text = str(said).strip() if said is not None else ""
    with contextlib.suppress(ValueError):
        if kind == Date.kind:
            return date.fromisoformat(text[:10])
        if kind == Datetime.kind:
            return datetime.fromisoformat(text)
        number = float(text)
        return int(number) if number == int(number) else number
    return None


def _short(text: str) -> str:
    words = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    return words if len(words) <= _ABOUT else f"{words[: _ABOUT - 3]}..."
