"""Columns of truth values."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.checks import checked_levels, set_fields
from noisegate.schema.kinds.coded import Coded


@dataclass(frozen=True, kw_only=True)
class Boolean(Coded):
    """A column of truth values.

    In text, they are written true/false, yes/no or 1/0 in any case, unless the schema
    states other words.

    Attributes:
        name: Name of the column in the data.
        missing: Whether a value may be absent.
        true_values: Words that mean true in text, in any case; synthetic text has the
            first. Stated together with `false_values`, or not at all.
        false_values: Words that mean false.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.
        spelling: How text writes truth values, and synthetic text too, such as
            `"True/False"`.

    Examples:
        >>> from noisegate.schema import Boolean
        >>> Boolean(name="ill").levels, Boolean(name="ill", missing=True).size
        ((False, True), 3)
        >>> Boolean(name="ill", true_values=["Y"], false_values=["N"]).words
        ('N', 'Y')
    """

    name: str
    missing: bool = False
    true_values: tuple[str, ...] = ()
    false_values: tuple[str, ...] = ()
    type: str | None = None
    spelling: str | None = None

    kind: ClassVar[Literal["boolean"]] = "boolean"
    levels: ClassVar[tuple[bool, bool]] = (False, True)  # type: ignore[misc]

    @property
    def words(self) -> tuple[str, ...]:
        """The words for false, then those for true; empty if none are stated."""
        return (*self.false_values, *self.true_values)

    def _check(self) -> None:
        """Checks that words are stated for both truth values or none, and differ."""
        set_fields(
            self,
            true_values=self._checked_words(self.true_values),
            false_values=self._checked_words(self.false_values),
        )
        words = [word.lower() for word in self.words]
        is_one_sided = bool(self.true_values) != bool(self.false_values)
        has_repeated_word = len(set(words)) < len(words)
        if is_one_sided or has_repeated_word:
            raise SchemaError(
                f"column {self.name!r}: true_values and false_values must both be "
                "stated, each word once in any case, found "
                f"{list(self.true_values)} and {list(self.false_values)}"
            )

    def _checked_words(self, words: Any) -> tuple[str, ...]:
        """Checks words for a truth value, which may be integers; none are allowed."""
        if not words:
            return ()
        return tuple(str(word) for word in checked_levels(self.name, words))
