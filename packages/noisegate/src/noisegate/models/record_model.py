"""What every model of records can do, whatever method fitted it, and which class stands behind each saved kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Protocol,
    Self,
    TypeAlias,
    runtime_checkable,
)

import numpy.typing as npt

from noisegate.errors import EXTRAS, MissingExtraError, ModelError
from noisegate.privacy.release import Release
from noisegate.registry import extensions, more
from noisegate.schema import EncodedTable, Region, Schema

if TYPE_CHECKING:
    import torch


Array: TypeAlias = npt.NDArray[Any]


class RecordModel(Protocol):
    """A distribution over records that can be drawn from, saved and rebuilt."""

    kind: ClassVar[str]
    """Names the class in a saved model; see `model_class`."""

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records; `random` is public randomness, on the CPU.

        Each record alone is a draw from the model. A model may spread them out, so they need not be independent.
        """
        ...

    def tensors(self) -> dict[str, Array]:
        """Returns what is fitted, for safetensors."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Returns what else `from_saved` needs, as a JSON object; "kind" and "fit" are not free as keys."""
        ...

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the model that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: if they describe none; the caller names the folder.
        """
        ...


@runtime_checkable
class ConditionalModel(Protocol):
    """A record model that knows its conditional distributions; others are conditioned by rejection."""

    def probability(self, region: Region) -> float:
        """Returns the probability that a record lies in `region`."""
        ...

    def given(self, region: Region) -> RecordModel:
        """Returns the model of the records in `region`, whose probability must be positive.

        It may draw others too, which the caller rejects, as long as those in the region have their distribution.
        """
        ...


class FittedModel(Protocol):
    """What a run comes to: a synthesizer of records or of linked tables, or a classifier, with what left the gate."""

    @property
    def release(self) -> Release:
        """What left the gate, with its certificate."""
        ...

    def save(self, folder: str | Path) -> Path:
        """Writes it into a new folder."""
        ...


def model_class(kind: str) -> Any:
    """Returns the class of a kind in a saved model, by its entry point in the group `noisegate.models`."""
    # A kind that draws records is a `RecordModel`; a classifier, or a model of linked tables, is one with `load`. A
    # ModelError if no installed package knows the kind, a MissingExtraError if what it takes is not installed.
    known = extensions("noisegate.models")
    if kind not in known:
        listed = ", ".join(sorted(known))
        raise ModelError(
            f"a model of kind {kind!r} is not known to this version; it knows {listed}{more()}."
        )
    try:
        return known[kind].load()
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise MissingExtraError.of(error.name, f"a model of kind {kind!r}") from None
