"""What a guarantee tells apart, and how far a sum can move between them.

The neighbouring relation; the privacy unit, where that is more than one record; and the bound on one record's vector,
which knows the sensitivity of the sum. A *unit column* says whose record each one is. Neighbours then differ by all
records of one unit, and of each unit at most `contributions` records are used, so that the sum over them has a bounded
norm (docs/guarantees.md, G-14).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from noisegate.errors import OptionError

RECORD = "record"
_SEVERAL = "all records of one"
MOST_CONTRIBUTIONS = 1000
MINIMUM_EPSILON, MAXIMUM_EPSILON = 0.01, 1000.0
MINIMUM_DELTA = 1e-12


class Adjacency(Enum):
    """The neighbouring relation of a guarantee. Closed: a new relation needs a new proof.

    ADD_REMOVE
        Neighbours differ by one record that is present in one of them only. The number of records is private.
        The default.
    REPLACE_ONE
        Neighbours have the same, public, number of records and differ in one of them. Use it to compare with the
        papers, which state their results for it.

    Examples:
        >>> from noisegate import Adjacency
        >>> from noisegate.privacy.grid import Grid
        >>> bound = Grid(norm=1.0).bound  # signed vectors
        >>> {each.value: bound.sensitivity(each) / bound.units for each in Adjacency}
        {'add-remove': 1.0, 'replace-one': 2.0}
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @classmethod
    def parse(cls, value: Adjacency | str) -> Adjacency:
        """Returns the relation named by `value`.

        Raises:
            OptionError: if there is no such relation.
        """
        try:
            return cls(value)
        except ValueError:
            names = ", ".join(repr(member.value) for member in cls)
            raise OptionError(f"adjacency={value!r} is not known; choose one of {names}.") from None

    def sentence(self, more: str = "exactly one record") -> str:
        """Returns the relation in plain words, for certificates and reports.

        Args:
            more: What one of two neighbours has more; only for add-remove.
        """
        if self is Adjacency.ADD_REMOVE:
            return f"two data sets are neighbours when one of them has {more} more; the number of records is private"
        return "two data sets are neighbours when they have the same public number of records and differ in one of them"


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


@dataclass(frozen=True, kw_only=True)
class GridBound:
    """Every record's vector is integer and has L2 norm at most `units`.

    Guarantee G-01 (sensitivity). Let S be the sum of such vectors over the records of a data set, each placed in one
    column of a matrix chosen by the record (its label). For neighbouring data sets, ‖S − S'‖² is at most

    * add/remove-one: ``units²``, since S and S' differ by one vector;
    * replace-one, vectors that are non-negative in every coordinate: ``2·units²``, since
      ‖v − w‖² = ‖v‖² + ‖w‖² − 2⟨v, w⟩ and ⟨v, w⟩ ≥ 0; with different columns the inner product is zero;
    * replace-one, signed vectors: ``4·units²`` by the triangle inequality.

    All three are exact integers, and the vectors are integers, so no rounding enters the statement.
    Tested by ``tests/gate/test_neighbours.py``.

    Attributes:
        units: The norm bound, a positive integer in grid units.
        nonnegative: Whether every coordinate of every vector is at least zero.

    Examples:
        >>> from noisegate import Adjacency
        >>> from noisegate.privacy.sensitivity import GridBound
        >>> counts = GridBound(units=10, nonnegative=True)
        >>> [counts.sensitivity_squared(each) for each in Adjacency]
        [100, 200]
        >>> GridBound(units=10).sensitivity(Adjacency.REPLACE_ONE), counts.of_unit(3).units
        (20, 30)
    """

    units: int
    nonnegative: bool = False

    def of_unit(self, contributions: int) -> GridBound:
        """Returns the bound on the sum of at most `contributions` such vectors, by the triangle inequality."""
        return GridBound(units=self.units * contributions, nonnegative=self.nonnegative)

    def sensitivity_squared(self, adjacency: Adjacency) -> int:
        """Returns the exact squared L2 sensitivity of the sum, in squared grid units."""
        square = self.units * self.units
        match adjacency:
            case Adjacency.ADD_REMOVE:
                return square
            case Adjacency.REPLACE_ONE:
                return 2 * square if self.nonnegative else 4 * square

    def sensitivity(self, adjacency: Adjacency) -> int:
        """Returns the L2 sensitivity of the sum in grid units, rounded up to an integer."""
        square = self.sensitivity_squared(adjacency)
        root = math.isqrt(square)
        return root if root * root == square else root + 1


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The guarantee that is asked for.

    Attributes:
        epsilon: In [0.01, 1000].
        delta: In [1e-12, 0.5). Choose it well below one over the number of records.
        adjacency: The neighbouring relation.
        unit: What one record stands for, in the words of the certificate; or whose records belong together.
        contributions: How many records of one unit are used at most; None when every record is a unit.

    Examples:
        >>> from noisegate import Budget, DPMERF, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> plan = DPMERF(frequencies=50).plan(schema, Budget(epsilon=1.0, delta=1e-6))
        >>> plan.epsilon <= 1.0, round(plan.epsilon, 6), plan.coordinates
        (True, 1.0, 101)
    """

    epsilon: float
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: str = RECORD
    contributions: int | None = None

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("epsilon", self.epsilon, MINIMUM_EPSILON, MAXIMUM_EPSILON),
            ("delta", self.delta, MINIMUM_DELTA, math.nextafter(0.5, 0)),
        ):
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise OptionError(f"{name}={value!r} must be a number from {low:g} to {high:g}{_hint(name, value)}.")
            # A certificate is hashed as JSON, where 1 is not 1.0, and read back it has floats.
            object.__setattr__(self, name, float(value))
        check_contributions(self.contributions)
        check_unit(self.unit, self.contributions)
        if self.contributions is not None and self.adjacency is Adjacency.REPLACE_ONE:
            raise OptionError(
                "adjacency='replace-one' takes the number of records as public, which depends on how many records each "
                "unit has; with unit_column use adjacency='add-remove'."
            )


def _hint(name: str, value: object) -> str:
    if name == "epsilon" and isinstance(value, int | float) and value > MAXIMUM_EPSILON:
        return "; above that there is no privacy left to speak of"
    return "; for instance 1 (--epsilon 1)" if name == "epsilon" else "; for instance 1e-5 (--delta 1e-5)"
