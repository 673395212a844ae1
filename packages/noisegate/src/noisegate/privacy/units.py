"""Privacy units: whose records belong together, in the words of plan, ledger and certificate.

A *unit column* says whose record each one is. Neighbours then differ by all records of one unit, and of each unit at
most `contributions` records are used, so that the sum over them has a bounded norm (docs/guarantees.md, G-14).
"""

from __future__ import annotations

from collections.abc import Sequence

from noisegate.errors import OptionError, said

RECORD = "record"
_SEVERAL = "all records of one"
_LINKED = "one record of the table"


def unit_text(unit: str, column: str | None, contributions: int | None) -> str:
    """Returns the privacy unit in the words of plan, ledger and certificate.

    It does not name `contributions`: what neighbours are, and so which costs may be added up, does not depend on it.
    """
    if column is None and contributions is None:
        if isinstance(unit, str) and linked(unit):
            raise OptionError(
                f"unit={unit!r} is what a run on linked tables says, and here every record is a unit of its own; give "
                "their schema, with [tables.NAME], or say what one record stands for."
            )
        return unit
    if column is None or contributions is None:
        raise OptionError(
            f"unit_column={column!r} and contributions={contributions!r} go together: give the column that says whose "
            "record each one is, and how many records of a unit are used at most; or neither."
        )
    if not isinstance(column, str) or not column.strip() or not column.isprintable():
        raise OptionError(f"unit_column={column!r} must be the name of a column of the data.")
    if unit != RECORD:
        raise OptionError(
            f"unit={unit!r} says what one record stands for, unit_column={column!r} that several belong together; "
            "give one of the two."
        )
    return f"{_SEVERAL} {column.strip()}"


def linked_unit(tables: Sequence[str]) -> str:
    """Returns the privacy unit of linked tables, the first of which holds the units, in the same words."""
    root, *others = tables
    return f"{_LINKED} {root} with all that belongs to it in {', '.join(others)}"


def check_unit(unit: str, contributions: int | None) -> None:
    """Checks the words for a privacy unit: a run that bounds no unit's records must not claim to protect them all.

    A ledger tells costs of units from costs of records by these words only.
    """
    if not isinstance(unit, str) or not unit.strip() or not unit.isprintable():
        raise OptionError(f"unit={unit!r} must say in one line what one record stands for, such as 'patient'.")
    if contributions is None and several(unit):
        raise OptionError(
            f"unit={unit!r} is what a run with a unit column says, and here every record is a unit of its own; give "
            f"{said('unit_column')} and {said('contributions')} where a run takes them, or say what one "
            "record stands for."
        )


def several(unit: str) -> bool:
    """Returns whether the words for a privacy unit say that several records belong together."""
    return _begins(unit, _SEVERAL)


def linked(unit: str) -> bool:
    """Returns whether the words for a privacy unit are those of linked tables."""
    return _begins(unit, _LINKED)


def _begins(unit: str, words: str) -> bool:
    return " ".join(unit.split()).casefold().startswith(words)


def used(unit: str, contributions: int | None) -> str:
    """Returns the unit with what is used of it: what one vector of the sums stands for."""
    return unit if contributions is None else f"{unit}, at most {contributions} used"
