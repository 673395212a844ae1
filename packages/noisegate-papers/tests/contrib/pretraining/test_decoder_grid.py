"""The picture of a decoder: images to the left, what was drawn for their features beside them."""

import numpy as np
import torch
from PIL import Image

from noisegate_papers.contrib.pretraining import decoder as decoder_grid
from noisegate_papers.contrib.pretraining.decoder import draw_grid, write_grid


class Fitting:
    """Grey images of 28 x 28 pixels: 200 for images, 10 times the draw's number for draws."""

    def samples(self, rows, draws):
        made = torch.arange(draws, dtype=torch.uint8)[None, :, None, None, None] * 10
        return torch.full((rows, 28, 28, 1), 200, dtype=torch.uint8), made.expand(rows, draws, 28, 28, 1)


def test_images_stand_apart_from_what_is_drawn_for_them(tmp_path):
    picture = np.asarray(draw_grid(Fitting()))
    assert picture.shape == (16 * 60 + 4, 8 * 60 + 12)  # 28 pixels twice as large, and gaps of 4
    row = [255] * 4 + [200] * 56 + [255] * 8
    for draw in range(7):
        row += [255] * 4 + [10 * draw] * 56
    assert picture[30].tolist() == [*row, 255, 255, 255, 255]
    for _ in range(2):  # in place of an earlier one
        write_grid(Fitting(), tmp_path / "grid.png")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "grid.png")), picture)
    assert [file.name for file in tmp_path.iterdir()] == ["grid.png"]
    assert (decoder_grid.ROWS, decoder_grid.DRAWS) == (16, 7)
