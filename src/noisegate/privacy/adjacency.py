"""Which two data sets a guarantee tells apart: the neighbouring relation and the privacy unit."""

from __future__ import annotations

from enum import Enum

from noisegate.errors import OptionError


class Adjacency(Enum):
    """The neighbouring relation of a guarantee. Closed: a new relation needs a new proof.

    ADD_REMOVE
        Neighbours differ by one record that is present in one of them only. The number of records is private.
        The default.
    REPLACE_ONE
        Neighbours have the same, public, number of records and differ in one of them. Use it to compare with the
        papers, which state their results for it.
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
