"""Discriminators of GANs: a record, and its label if it has one, in; a score out, high for what looks real.

Every record is treated on its own and nothing is drawn, so gradients are per example: no batch normalisation and no
dropout. The label comes in at the end, as a choice among scores (a projection, Miyato and Koyama, ICLR 2018), where it
takes few parameters; each parameter takes its part of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.errors import OptionError
from noisegate.networks.classifiers import RowsToImages
from noisegate.networks.weights import check_sizes
from noisegate.schema.pixels import ImageShape

_SLOPE = 0.2


class Discriminator(nn.Module):
    """A score for each row: the record's inputs first, then its label as a one-hot code.

    Args:
        body: From inputs, (rows, inputs), to features, (rows, width).
        width: Number of features.
        classes: Number of labels; 0 where there is none.
    """

    def __init__(self, body: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.body, self.classes = body, classes
        self.scores = nn.Linear(width, 1 + classes)

    def forward(self, rows: Tensor) -> Tensor:
        """Returns scores, (rows,), of rows (rows, inputs + classes)."""
        inputs = rows.shape[1] - self.classes
        scores: Tensor = self.scores(self.body(rows[:, :inputs]))
        return scores[:, 0] + (scores[:, 1:] * rows[:, inputs:]).sum(dim=1)

    def label_scores(self, inputs: Tensor, labels: Tensor | None) -> Tensor:
        """Returns scores s = log D/(1 − D) of records with a label, or with every one.

        Args:
            inputs: (rows, inputs).
            labels: (rows,) int64; None for the scores with every label.

        Returns:
            (labels, rows): one row where each record has its own label, or there are none.
        """
        found: Tensor = self.scores(self.body(inputs)).T
        if not self.classes:
            return found
        every = found[:1] + found[1:]
        return every if labels is None else every.gather(0, labels[None])


def build_image_discriminator(shape: ImageShape, classes: int, *, channels: Sequence[int], seed: int) -> Discriminator:
    """Returns a discriminator of images with fresh weights, in float32 on the CPU: that of DCGAN, normalised nowhere.

    Args:
        shape: Of the images.
        classes: Number of labels; 0 where there is none.
        channels: Of each convolution of 4 x 4, which halves height and width.
        seed: Of the weights; public. The same seed gives the same weights, and the global random state is untouched.

    Raises:
        OptionError: if the images are too small to be halved so often, or a number of channels is not positive.
    """
    check_sizes("a discriminator", **{f"channels[{place}]": width for place, width in enumerate(channels)})
    height, breadth = (side >> len(channels) for side in (shape.height, shape.width))
    if not channels or not height or not breadth:
        raise OptionError(
            f"image={shape} cannot be halved {len(channels)} times, once for each of discriminator_channels="
            f"{list(channels)}; give at least one, and fewer for smaller images."
        )
    layers: list[nn.Module] = [RowsToImages(shape)]
    with seeded(seed):
        for entering, leaving in pairwise((shape.channels, *channels)):
            layers += [nn.Conv2d(entering, leaving, kernel_size=4, stride=2, padding=1), nn.LeakyReLU(_SLOPE)]
        return Discriminator(nn.Sequential(*layers, nn.Flatten()), channels[-1] * height * breadth, classes)


def build_table_discriminator(inputs: int, classes: int, *, hidden: Sequence[int], seed: int) -> Discriminator:
    """Returns a discriminator of table rows with fresh weights, in float32 on the CPU: a perceptron.

    Args:
        inputs: Numbers that a record without its label is shown as.
        classes: Number of labels; 0 where there is none.
        hidden: Widths of its layers; may be empty.
        seed: Of the weights; public.

    Raises:
        OptionError: if a width is no positive whole number.
    """
    check_sizes("a discriminator", **{f"hidden[{place}]": width for place, width in enumerate(hidden)})
    layers: list[nn.Module] = []
    with seeded(seed):
        for entering, leaving in pairwise((inputs, *hidden)):
            layers += [nn.Linear(entering, leaving), nn.LeakyReLU(_SLOPE)]
        return Discriminator(nn.Sequential(*layers), (inputs, *hidden)[-1], classes)
