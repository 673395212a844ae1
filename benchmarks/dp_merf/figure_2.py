"""Figure 2 of DP-MERF and Figure 4 of DP-HP: generated digits of several methods, side by side.

    python benchmarks/dp_merf/figure_2.py --models FOLDER [FOLDER ...] --out FILE.png [--data DIR] [--rows 2] [--seed 0]

FOLDER holds a model that `noisegate fit --out` or `benchmarks/images/run.py --out` saved; each has a band of its own,
with its method and ε as its certificate says, and a column for each class. The images are the first ones sampled of a
class, none is picked. With --data, the first test images of MNIST or FashionMNIST stand on top, which no model saw.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import matplotlib
import numpy as np
import numpy.typing as npt
from harness.options import choice, needed, option, optional, read_options
from harness.printing import run_main
from papers.catalogue import load
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console

from noisegate import Synthesizer
from noisegate.atomic import new_file
from noisegate.errors import OptionError

Pixels = npt.NDArray[np.uint8]
# Pixels of the picture: of a band's name, between images, between bands; and a small image's side is doubled.
_NAME, _GAP, _BAND, _SCALE = 190, 2, 10, 2
_BATCH, _MOST = 200, 20_000
# Matplotlib's font knows Greek.
_FONT = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")


def main() -> int:
    """Draws the picture; 0 when it could, 2 when it cannot."""
    options = read_options(
        __doc__,
        models=needed(Path, "folders of saved models of images", is_list=True),
        out=needed(Path),
        data=optional(Path, "folder of the data set, for test images on top"),
        data_set=choice(("mnist", "fashion-mnist")),
        rows=option(2, "images of each class"),
        seed=0,
    )
    console = Console()
    with console.status("sampling"), new_file(options.out, "--out") as path:
        picture(list(_bands(options)), options.rows).save(path, format="png")
    console.print(f"Wrote {options.out}.")
    return 0


def _bands(
    options: argparse.Namespace,
) -> Iterator[tuple[str, dict[Any, list[Pixels]]]]:
    """Yields the name of each band and its images by class, test images first."""
    classes = None
    for place in options.models:
        model = Synthesizer.load(place)
        form = model.images(1, seed=0)
        first = next(iter(form))
        if first.labels is None:
            raise OptionError(
                f"--models {place} has no classes; give models of images with a label."
            )
        if classes is None:
            classes = tuple(model.schema.label_column.levels)
            if options.data:
                yield "test images", _test_images(options, classes)
        batches = (
            batch
            for start in range(_MOST // _BATCH)
            for batch in model.images(_BATCH, seed=options.seed + start)
        )
        labelled = (
            pair
            for batch in batches
            for pair in zip(batch.labels, batch.pixels, strict=True)
        )
        name = f"{model.certificate.method}, ε = {model.certificate.epsilon:g}"
        yield name, first_of_each(labelled, classes, options.rows)


def _test_images(
    options: argparse.Namespace, classes: tuple[Any, ...]
) -> dict[Any, list[Pixels]]:
    table = load(options.data_set, options.data).test.slice(0, 2000)
    pixels = np.stack(
        [table[name].to_numpy() for name in table.column_names if name != "label"],
        axis=1,
    )
    images = pixels.astype(np.uint8).reshape(len(pixels), 28, 28, 1)
    return first_of_each(
        zip(table["label"].to_pylist(), images, strict=True), classes, options.rows
    )


def first_of_each(
    labelled: Iterable[tuple[Any, Pixels]], classes: tuple[Any, ...], rows: int
) -> dict[Any, list[Pixels]]:
    """Returns the first images of each class, `rows` of each if there are so many."""
    found: dict[Any, list[Pixels]] = {label: [] for label in classes}
    for label, image in labelled:
        if len(found[label]) < rows:
            found[label].append(image)
        elif all(len(images) >= rows for images in found.values()):
            break
    return found


def picture(bands: list[tuple[str, dict[Any, list[Pixels]]]], rows: int) -> Image.Image:
    """Returns the bands one below the other: a column for each class, (rows) images of each; empty where one lacks."""
    height, width, channels = next(
        image for _, found in bands for images in found.values() for image in images
    ).shape
    step_y, step_x = height * _SCALE + _GAP, width * _SCALE + _GAP
    across = max(len(found) for _, found in bands)
    canvas = np.full(
        (len(bands) * (rows * step_y + _BAND), across * step_x, channels),
        255,
        dtype=np.uint8,
    )
    for band, (_, found) in enumerate(bands):
        for column, images in enumerate(found.values()):
            for row, image in enumerate(images):
                y, x = band * (rows * step_y + _BAND) + row * step_y, column * step_x
                large = image.repeat(_SCALE, axis=0).repeat(_SCALE, axis=1)
                canvas[y : y + height * _SCALE, x : x + width * _SCALE] = large
    sheet = Image.new("RGB", (_NAME + canvas.shape[1], canvas.shape[0]), "white")
    sheet.paste(
        Image.fromarray(np.broadcast_to(canvas, (*canvas.shape[:2], 3)).copy()),
        (_NAME, 0),
    )
    pencil, font = ImageDraw.Draw(sheet), ImageFont.truetype(_FONT, 14)
    for band, (name, _) in enumerate(bands):
        pencil.text(
            (6, band * (rows * step_y + _BAND) + rows * step_y // 2),
            name,
            fill="black",
            font=font,
            anchor="lm",
        )
    return sheet


if __name__ == "__main__":
    run_main(main)
