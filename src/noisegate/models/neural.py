"""The record model of a fitted generator of cells: a label, then noise, then one cell of each column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch

from noisegate.features.cells import Cells, numeric_cells
from noisegate.models.record_model import Array
from noisegate.models.table import (
    ComponentGenerator,
    TableGenerator,
    build_component_generator,
    build_table_generator,
)
from noisegate.schema import EncodedTable, Layout, Schema

_PREFIX = "generator/"


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralTable:
    """A table generator, or one of components, with the shares of its labels.

    Attributes:
        generator: The fitted network, on the CPU, in evaluation mode; columns as in the layout, numeric ones first.
        weights: Share of each label, (labels,); one 1 without a label.
        layout: The columns.
    """

    generator: TableGenerator | ComponentGenerator
    weights: npt.NDArray[np.float64]
    layout: Layout

    kind: ClassVar[str] = "table-generator"

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records; `random` is public randomness, on the CPU."""
        labels = torch.multinomial(torch.from_numpy(self.weights), rows, replacement=True, generator=random)
        with torch.no_grad():
            columns = self.generator(self.generator.noise(rows, random), labels)
        chosen = [_draw(column, random) for column in columns]
        cells = [numeric_cells(column) for column in self.layout.numeric]
        numeric = np.empty((rows, len(cells)))
        for place, cell in enumerate(cells):
            numeric[:, place] = _place(cell, chosen[place].numpy(), torch.rand(rows, generator=random).numpy())
        coded = [codes.numpy().astype(np.int32) for codes in chosen[len(cells) :]]
        return EncodedTable(numeric, np.stack(coded, axis=1) if coded else np.zeros((rows, 0), dtype=np.int32))

    def tensors(self) -> dict[str, Array]:
        """Returns the weights of the network and the shares of the labels."""
        fitted = {f"{_PREFIX}{name}": value.numpy() for name, value in self.generator.state_dict().items()}
        return {**fitted, "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns the shape of the network."""
        if isinstance(self.generator, ComponentGenerator):
            return {"components": self.generator.components}
        return {"latent": self.generator.latent, "hidden": list(self.generator.hidden)}

    @classmethod
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the model that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: if they describe none.
        """
        layout = schema.layout
        generator: TableGenerator | ComponentGenerator
        if "components" in description:
            generator = build_component_generator(layout, components=description["components"], seed=0)
        else:
            latent, hidden = description["latent"], description["hidden"]
            generator = build_table_generator(layout, latent=latent, hidden=hidden, seed=0)
        fitted = {
            name.removeprefix(_PREFIX): torch.from_numpy(value) for name, value in tensors.items() if name != "weights"
        }
        generator.load_state_dict(fitted)
        weights = tensors["weights"].astype(np.float64)
        return cls(generator=generator.requires_grad_(False).eval(), weights=weights, layout=layout)


def _draw(probabilities: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Returns one cell for each row by inverting the cumulative distribution, (rows,)."""
    cumulative = probabilities.double().cumsum(dim=0)
    level = torch.rand(probabilities.shape[1], generator=random, dtype=torch.float64) * cumulative[-1]
    return (cumulative <= level).sum(dim=0).clamp_(max=len(probabilities) - 1)


def _place(cells: Cells, chosen: npt.NDArray[np.int64], uniform: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    low = np.append(cells.low, np.nan)[chosen]
    high = np.append(cells.high, np.nan)[chosen]
    placed: npt.NDArray[np.float64] = low + uniform * (high - low)
    return placed
