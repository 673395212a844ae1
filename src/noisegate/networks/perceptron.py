"""The multi-layer perceptron that PSG is evaluated with: pixels, two hidden layers, logits."""

from __future__ import annotations

from torch import nn

from noisegate.networks.weights import check_sizes, seeded
from noisegate.schema.pixels import ImageShape


def build_perceptron(
    shape: ImageShape, classes: int, *, hidden: tuple[int, ...] = (128, 128), seed: int
) -> nn.Sequential:
    """Returns a perceptron with ReLU between its layers and fresh weights, in float32 on the CPU.

    It takes (rows, channels, height, width) and gives logits, (rows, classes). It works under ``torch.func``.

    Args:
        shape: Of the images; any.
        classes: Number of logits.
        hidden: Widths of the hidden layers, two of 128 in PSG; may be empty.
        seed: Of the weights; public.

    Raises:
        OptionError: if classes or a width is no positive whole number.
    """
    check_sizes("a perceptron", classes=classes, **{f"hidden[{place}]": width for place, width in enumerate(hidden)})
    layers: list[nn.Module] = [nn.Flatten()]
    entering = shape.size
    with seeded(seed):
        for width in hidden:
            layers += [nn.Linear(entering, width), nn.ReLU()]
            entering = width
        layers.append(nn.Linear(entering, classes))
    return nn.Sequential(*layers)
