"""Drawing records from a table generator, with public randomness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from noisegate.generators.cells import Cells
from noisegate.generators.table import TableGenerator
from noisegate.schema import EncodedTable


def draw_records(
    generator: TableGenerator,
    cells: Sequence[Cells],
    weights: npt.NDArray[np.float64],
    rows: int,
    random: torch.Generator,
) -> EncodedTable:
    """Returns `rows` records drawn from the generator.

    Args:
        generator: Numeric columns first, then coded ones, as in the layout.
        cells: Cells of each numeric column.
        weights: Share of each label.
        rows: Number of records.
        random: Public randomness, on the CPU.
    """
    device = next(generator.parameters()).device
    labels = torch.multinomial(torch.from_numpy(weights), rows, replacement=True, generator=random)
    with torch.no_grad():
        columns = generator(generator.noise(rows, random).to(device), labels.to(device))
    chosen = [_draw(column.cpu(), random) for column in columns]
    numeric = np.empty((rows, len(cells)))
    for place, cell in enumerate(cells):
        numeric[:, place] = _place(cell, chosen[place].numpy(), torch.rand(rows, generator=random).numpy())
    coded = [codes.numpy().astype(np.int32) for codes in chosen[len(cells) :]]
    return EncodedTable(numeric, np.stack(coded, axis=1) if coded else np.zeros((rows, 0), dtype=np.int32))


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
