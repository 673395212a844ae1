"""A picture of what a decoder draws: in each row a public image, and images drawn for its feature."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from noisegate.atomic import new_file
from noisegate.contrib.pretraining.decoder import DecoderFitting

if TYPE_CHECKING:
    from PIL.Image import Image

ROWS, DRAWS = 16, 7
_LEAST_SIDE, _GAP, _PAPER = 56, 4, 255  # pixels of the picture, and their grey


def draw_grid(fitting: DecoderFitting) -> Image:
    """Returns the picture of a training so far."""
    from PIL import Image

    images, draws = fitting.samples(ROWS, DRAWS)
    cells = torch.cat([images[:, None], draws], dim=1).numpy()
    rows, across, height, width, channels = cells.shape
    scale = max(math.ceil(_LEAST_SIDE / max(height, width)), 1)
    high, wide = scale * height + _GAP, scale * width + _GAP
    # The image itself stands apart from what was drawn for it.
    paper = np.full((rows * high + _GAP, across * wide + 3 * _GAP, channels), _PAPER, dtype=np.uint8)
    for row in range(rows):
        for column in range(across):
            left = _GAP + column * wide + (2 * _GAP if column else 0)
            cell = cells[row, column].repeat(scale, axis=0).repeat(scale, axis=1)
            paper[_GAP + row * high : (row + 1) * high, left : left + wide - _GAP] = cell
    return Image.fromarray(paper[:, :, 0] if channels == 1 else paper)


def write_grid(fitting: DecoderFitting, path: Path) -> None:
    """Writes the picture to `path`, a PNG file, in place of an earlier one.

    Raises:
        OptionError: if it cannot be written.
    """
    with new_file(path, "--grid", force=True) as file:
        draw_grid(fitting).save(file, format="png")
