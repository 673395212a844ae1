"""Discriminators of GANs: a record, and its label if it has one, in; a score out, high for what looks real.

Every record is treated on its own and nothing is drawn, so gradients are per example. The label comes in at the end, as
a choice among scores (a projection, Miyato and Koyama, ICLR 2018), where it takes few parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.classifiers import RowsToImages

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

SLOPE = 0.2


class Discriminator(nn.Module):
    """A score for each row: the record's inputs first, then its label, of `classes` or none, as a one-hot code.

    The body brings inputs, (rows, inputs), to features, (rows, width).
    """

    def __init__(self, body: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.body, self.classes = body, classes
        self.scores = nn.Linear(width, 1 + classes)

    def forward(self, rows: Float[Tensor, "rows inputs_classes"]) -> Float[Tensor, " rows"]:
        """Returns scores, (rows,), of rows (rows, inputs + classes)."""
        inputs = rows.shape[1] - self.classes
        scores: Tensor = self.scores(self.body(rows[:, :inputs]))
        return scores[:, 0] + (scores[:, 1:] * rows[:, inputs:]).sum(dim=1)

    def label_scores(
        self, inputs: Float[Tensor, "rows inputs"], labels: Int64[Tensor, " rows"] | None
    ) -> Float[Tensor, "labels rows"]:
        """Returns scores s = log D/(1 − D), (labels, rows), of records (rows, inputs) with every label.

        With labels, (rows,) int64, each record has its own: one row, as where there are none.
        """
        found: Tensor = self.scores(self.body(inputs)).T
        if not self.classes:
            return found
        every = found[:1] + found[1:]
        return every if labels is None else every.gather(0, labels[None])


def build_image_discriminator(shape: ImageShape, classes: int, *, channels: Sequence[int], seed: int) -> Discriminator:
    """Returns a discriminator of images with fresh weights, in float32 on the CPU: that of DCGAN, normalised nowhere.

    Each convolution of 4 x 4, to so many channels, halves height and width.
    """
    height, breadth = (side >> len(channels) for side in (shape.height, shape.width))
    if not channels or not height or not breadth:
        raise OptionError(
            f"image={shape} cannot be halved {len(channels)} times, once for each of discriminator_channels="
            f"{list(channels)}; give at least one, and fewer for smaller images."
        )
    layers: list[nn.Module] = [RowsToImages(shape)]
    with seeded(seed):
        for entering, leaving in pairwise((shape.channels, *channels)):
            layers += [nn.Conv2d(entering, leaving, kernel_size=4, stride=2, padding=1), nn.LeakyReLU(SLOPE)]
        return Discriminator(nn.Sequential(*layers, nn.Flatten()), channels[-1] * height * breadth, classes)


def build_table_discriminator(inputs: int, classes: int, *, hidden: Sequence[int], seed: int) -> Discriminator:
    """Returns a discriminator of table rows with fresh weights, in float32 on the CPU: a perceptron.

    A record without its label is shown as `inputs` numbers; `hidden` are the widths of its layers, maybe none.
    """
    layers: list[nn.Module] = []
    with seeded(seed):
        for entering, leaving in pairwise((inputs, *hidden)):
            layers += [nn.Linear(entering, leaving), nn.LeakyReLU(SLOPE)]
        return Discriminator(nn.Sequential(*layers), (inputs, *hidden)[-1], classes)
