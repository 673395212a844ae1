"""Nearest-neighbour pictures: the neighbours are the nearest, and nobody can take one for a public picture."""

import os

import numpy as np
import pytest
from PIL import Image

from noisegate.errors import OptionError
from noisegate.records import Images
from noisegate_evaluate import Pixels
from noisegate_evaluate.reporting import pictures as module
from noisegate_evaluate.reporting.pictures import (
    WARNING,
    legible,
    nearest,
    nearest_picture,
)


def images(seed, rows, channels=1):
    pixels = np.random.default_rng(seed).integers(
        0, 256, (rows, 6, 6, channels), dtype=np.uint8
    )
    return Images(pixels)


def test_the_neighbours_are_those_of_the_definition_however_the_images_pass(
    monkeypatch,
):
    monkeypatch.setattr(module, "_IMAGES_AT_ONCE", 4)
    ours = images(0, 5).pixels
    theirs = images(1, 23).pixels
    apart = np.linalg.norm(
        ours.reshape(5, 1, -1) / 255 - theirs.reshape(1, 23, -1) / 255, axis=2
    )
    assert np.array_equal(
        nearest(ours, theirs, Pixels(), 3), np.argsort(apart, axis=1)[:, :3]
    )
    assert nearest(ours, theirs[:2], Pixels(), 3).shape == (5, 2)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_picture_warns_above_and_below_and_shows_the_copies(tmp_path, channels):
    real = images(1, 8, channels)
    file = tmp_path / "private-nearest.png"
    nearest_picture(Images(real.pixels[:3]), real, file, rows=3, neighbours=2)
    assert os.name == "nt" or file.stat().st_mode & 0o777 == 0o600  # whatever the umask
    with Image.open(file) as picture:
        assert picture.text["Comment"] == WARNING == "PRIVATE, DO NOT PUBLISH"
        sheet = np.asarray(picture.convert("RGB")).astype(int)
    for banner in (sheet[:64], sheet[-64:]):
        inked = (np.abs(banner - module._INK).sum(axis=2) < 60).any(axis=0)
        # Large: the letters reach over most of the width and are at least 20 pixels high.
        assert np.ptp(np.flatnonzero(inked)) > 0.6 * sheet.shape[1]
        assert (
            np.ptp(
                np.flatnonzero(
                    (np.abs(banner - module._INK).sum(axis=2) < 60).any(axis=1)
                )
            )
            >= 20
        )
    scale = 64 // 6
    side = 6 * scale
    top = 64 + 24 + module._GAP
    left = sheet[top : top + side, module._GAP : module._GAP + side]
    start = 2 * module._GAP + side + module._RULE
    # A copied image is its own nearest neighbour, and stands beside itself.
    assert np.array_equal(left, sheet[top : top + side, start : start + side])
    assert np.array_equal(
        left[::scale, ::scale], np.broadcast_to(real.pixels[0], (6, 6, 3))
    )


def test_a_name_that_does_not_say_it_is_refused(tmp_path):
    with pytest.raises(
        OptionError,
        match=r"starts with 'private-', for instance 'private-nearest\.png'",
    ):
        nearest_picture(images(0, 2), images(1, 2), tmp_path / "nearest.png")
    assert list(tmp_path.iterdir()) == []


def test_long_and_broken_and_undrawable_text_becomes_one_short_line():
    assert legible("short", 8) == "short"
    assert legible("much too long", 8) == "much to…"
    assert legible("two\n lines", 20) == "two lines"
    assert legible("収入 in yen", 20) == "·· in yen"
    assert legible("größe", 20) == "größe"
