"""What every model of records can do, and which class stands behind a saved kind.

A model is a distribution over encoded records, whatever method fitted it. It knows
neither constraints nor what a caller asked for: `Synthesizer` draws from it, rejects
the records that are not wanted, and decodes the others.

A saved model names its kind, a short text such as "mixture". The class of a kind is
found by an entry point in the group ``noisegate.models``, so that another package can
add one.
"""

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
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.registry import extensions, more
from noisegate.schema import EncodedTable, Region, Schema

if TYPE_CHECKING:
    import torch


Array: TypeAlias = npt.NDArray[Any]
"""An array of a saved model, of any shape and dtype."""


class RecordModel(Protocol):
    """A distribution over records that can be drawn from, saved and rebuilt."""

    kind: ClassVar[str]
    """Names the class in a saved model; `model_class` finds it by this name."""

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Draws records, each of which alone has the distribution of the model.

        Together they need not be independent: a model may spread them out over its
        distribution, so that they represent it better than independent ones would.

        Args:
            rows: How many records.
            random: Public randomness, on the CPU.
        """
        ...

    def tensors(self) -> dict[str, Array]:
        """Returns the fitted arrays by name, as they are saved with safetensors."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Returns all else that `from_saved` needs, as a JSON object.

        Its keys must not be "kind" or "fit", which the saved model uses itself.
        """
        ...

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Rebuilds a model that was saved.

        Args:
            schema: Public schema of the records.
            tensors: What `tensors` returned.
            description: What `to_json` returned; other keys are ignored.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: if these describe no model.
                The caller turns it into an error that names the folder.
        """
        ...


@runtime_checkable
class ConditionalModel(Protocol):
    """A record model that can compute its conditional distributions.

    Other models are conditioned by rejection: records are drawn until enough of them
    lie in the region.
    """

    def probability(self, region: Region) -> float:
        """Returns the probability that a record lies in a region, from 0 to 1."""
        ...

    def given(self, region: Region) -> RecordModel:
        """Conditions the model on a region.

        Args:
            region: A region of positive probability.

        Returns:
            A model whose records in the region have their conditional distribution. It
            may draw others too, which the caller rejects.
        """
        ...


class FittedModel(Protocol):
    """The result of a run: a fitted model, with the release.

    It is a synthesizer of records or of linked tables, or a classifier. Where a type
    checker must know which, `noisegate.synthesize` and ``Synthesizer.load`` return a
    `Synthesizer`, and `load_classifier` a classifier.
    """

    @property
    def release(self) -> Release:
        """The release, with its certificate."""
        ...

    @property
    def certificate(self) -> Certificate:
        """What the model cost, and what was assumed public."""
        ...

    def save(self, folder: str | Path) -> Path:
        """Writes the model into a new folder, and returns its path."""
        ...


def model_class(kind: str) -> type[Any]:
    """Finds the class of a kind of saved model.

    Args:
        kind: Name of an entry point in the group ``noisegate.models``.

    Returns:
        A class of `RecordModel`, or one with `load` if the kind draws no records of
        one table: a classifier, or a model of linked tables.

    Raises:
        ModelError: if no installed package knows the kind.
        MissingExtraError: if the class needs a package that is not installed.
    """
    entry_points = extensions("noisegate.models")
    if kind not in entry_points:
        known_kinds = ", ".join(sorted(entry_points))
        raise ModelError(
            f"a model of kind {kind!r} is not known to this version; "
            f"it knows {known_kinds}{more()}."
        )
    try:
        loaded_class: type[Any] = entry_points[kind].load()
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise MissingExtraError.of(error.name, f"a model of kind {kind!r}") from None
    return loaded_class
