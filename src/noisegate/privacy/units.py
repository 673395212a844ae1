"""The privacy unit: whose data a guarantee speaks of, when that is more than one record.

A *unit column* says whose record each one is. Neighbours then differ by all records of one unit, and of each unit at
most `contributions` records are used, so that the sum over them has a bounded norm (docs/guarantees.md, G-14).
"""

from __future__ import annotations

from noisegate.errors import OptionError

RECORD = "record"
_SEVERAL = "all records of one"
MOST_CONTRIBUTIONS = 1000


def unit_text(unit: str, column: str | None, contributions: int | None) -> str:
    """Returns the privacy unit in the words of plan, ledger and certificate.

    It does not name `contributions`: what neighbours are, and so which costs may be added up, does not depend on it.

    Args:
        unit: What one record stands for.
        column: The unit column, or None when every record is a unit.
        contributions: How many records of a unit are used at most, or None.

    Raises:
        OptionError: if only one of column and contributions is given, or one of them is unusable.
    """
    if column is None and contributions is None:
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


def check_unit(unit: str, contributions: int | None) -> None:
    """Checks the words for a privacy unit: a run that bounds no unit's records must not claim to protect them all.

    A ledger tells costs of units from costs of records by these words only.

    Raises:
        OptionError: if the words are those of a unit column, but no limit on its records is given; or are no line of
            text.
    """
    if not isinstance(unit, str) or not unit.strip() or not unit.isprintable():
        raise OptionError(f"unit={unit!r} must say in one line what one record stands for, such as 'patient'.")
    if contributions is None and several(unit):
        raise OptionError(
            f"unit={unit!r} is what a run with a unit column says, and here every record is a unit of its own; give "
            "unit_column and contributions (--unit-column, --contributions) where a run takes them, or say what one "
            "record stands for."
        )


def several(unit: str) -> bool:
    """Returns whether the words for a privacy unit say that several records belong together."""
    return " ".join(unit.split()).casefold().startswith(_SEVERAL)


def check_contributions(contributions: int | None) -> None:
    """Checks a limit on the records of a unit; None is none.

    Raises:
        OptionError: if it is no whole number from 1 to 1000.
    """
    if contributions is None:
        return
    whole = isinstance(contributions, int) and not isinstance(contributions, bool)
    if not whole or not 1 <= contributions <= MOST_CONTRIBUTIONS:
        raise OptionError(
            f"contributions={contributions!r} must be a whole number from 1 to {MOST_CONTRIBUTIONS}; noise grows in "
            "proportion to it, so choose what most units have."
        )


def used(unit: str, contributions: int | None) -> str:
    """Returns the unit with what is used of it: what one vector of the sums stands for."""
    return unit if contributions is None else f"{unit}, at most {contributions} used"
