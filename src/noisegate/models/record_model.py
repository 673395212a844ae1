"""What every model of records can do, whatever method fitted it, and which class stands behind each saved kind.

A model is fitted to a release, so it is public, and drawing from it costs no privacy. It draws encoded records;
`Synthesizer` decodes them, and holds them to the schema's constraints and to what the caller asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, cast, runtime_checkable

import numpy.typing as npt

from noisegate.errors import EXTRAS, MissingExtraError, ModelError
from noisegate.schema import EncodedTable, Region, Schema

if TYPE_CHECKING:
    import torch

Array: TypeAlias = npt.NDArray[Any]


class RecordModel(Protocol):
    """A distribution over records that can be drawn from, saved and rebuilt.

    Attributes:
        kind: Names the class in a saved model; see `MODELS`.
    """

    kind: ClassVar[str]

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
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
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


# By name, so that a saved model of one kind is opened without importing what the others need.
MODELS = {
    "image-generator": "noisegate.models.image:NeuralImage",
    "diffusion": "noisegate.models.diffusion:DiffusionImages",
    "table-generator": "noisegate.models.table:NeuralTable",
    "mixture": "noisegate.models.mixture:Mixture",
    "labelled-mixture": "noisegate.models.labelled:LabelledMixture",
    "graphical": "noisegate.models.graphical:GraphicalModel",
    "bayesian-network": "noisegate.models.bayesian_network:BayesianNetwork",
    "point-set": "noisegate.models.record_sets:PointSet",
    "weighted-reference": "noisegate.models.record_sets:WeightedReference",
    "decoded-reference": "noisegate.models.decoded:DecodedReference",
    "decoded-gaussian": "noisegate.models.decoded:DecodedGaussian",
    "decoded-generator": "noisegate.models.decoded:DecodedGenerator",
}
"""Where the class of each kind is defined, as "module:class"."""


def model_class(kind: str) -> type[RecordModel]:
    """Returns the class of a kind, if this version knows it and what it takes is installed."""
    if kind not in MODELS:
        raise ModelError(f"a model of kind {kind!r} is not known to this version; it knows {', '.join(MODELS)}.")
    module, _, name = MODELS[kind].partition(":")
    try:
        return cast("type[RecordModel]", getattr(import_module(module), name))
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise MissingExtraError.of(error.name, f"a model of kind {kind!r}") from None
