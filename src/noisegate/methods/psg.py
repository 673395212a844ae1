"""PSG: Private Set Generation.

Chen, Kerkouche and Fritz (NeurIPS 2022), https://arxiv.org/abs/2211.04446. A small set of records is moved until the
gradient of a classifier's loss on it points where the noisy gradient on the private records does. What is released is
the set itself, with as many records of each label as was asked for.

What differs from the authors' program: a step draws a true Poisson sample, as many steps run as are accounted (theirs
runs one round more), every network has a seed of its own, nothing is standardised with moments of private images, and
numbers stay within their bounds while they are moved. A table has a perceptron in place of the ConvNet; levels of its
columns are trained as probabilities, and the most probable one is handed out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.per_example.losses import RecordLoss, label_loss
from noisegate.methods.generative import released_arrays, weight_shapes
from noisegate.methods.gradient import Trainer
from noisegate.methods.psg_start import SetStart
from noisegate.methods.registry import register
from noisegate.models.image_network import check_image_schema
from noisegate.models.inputs import Inputs, class_label, decode_inputs, inputs_of, scaled_inputs
from noisegate.models.network_classifier import ClassifierDesign
from noisegate.models.record_sets import PointSet
from noisegate.privacy.gradient_plan import CalibratedGradientPlan, GradientPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, ImageSize, Positive, Unit, Widths, derived, settings
from noisegate.training.fit import PriorNetwork

if TYPE_CHECKING:
    from torch import nn


SET = "set"  # the event, and the released set
MOST_NUMBERS = 2**26  # in a set, records times inputs: about 1 GiB beside the network
_START, _PRIOR = 2, 3


@register("psg")
@settings
class PrivateSetGeneration(SetStart):
    """Settings of PSG; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, PrivateSetGeneration, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
        >>> PrivateSetGeneration(samples_per_class=5).plan(schema, Budget(epsilon=1.0)).plan.released
        {'set': (10, 1)}
    """

    renamed: ClassVar[Mapping[str, str]] = {"network_rate": "network_learning_rate", "spread": "init_std"}

    samples_per_class: Count = 10
    """Records of each label in the set."""
    image: ImageSize | None = None
    """Height, width and channels of the images; None for a table."""
    width: Count = 32
    """Channels of each block of the ConvNet; for images."""
    depth: Count = 3
    """Its blocks."""
    hidden: Widths = (128, 128)
    """Widths of the perceptron's hidden layers; for tables."""
    prior: bool = False
    """Whether a network makes the images from fixed noise (equation 8): they look more like images, and serve less."""
    prior_network: PriorNetwork = "convolutional"
    """The network of `prior`: "convolutional", that of DP-MERF, or the paper's "dcgan", for sides that are even."""
    steps: Count = 700
    sampling_probability: Fraction = 256 / 60_000
    clip_norm: Positive = 0.1
    learning_rate: Positive = derived(lambda given: 0.01 if given["prior"] else 1.0)
    """Of the set; with `prior` of Adam on the weights of the network that makes it."""
    momentum: Unit = 0.5
    """Of the set."""

    def __post_init__(self) -> None:
        self.check_start(self.image is not None and not self.prior)
        if not self.prior:
            return
        even = self.prior_network == "dcgan"
        if self.image is None or any(side % (2 if even else 4) or (even and side < 22) for side in self.image[:2]):
            sides = "even and 22 or more" if even else "multiples of 4"
            raise OptionError(f"prior=True needs images whose sides are {sides}, not image={self.image!r}.")

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientPlan:
        """Returns the steps; refuses a schema without a label of two levels, and sets that are too large."""
        inputs, records = len(self._inputs(schema).names), self.samples_per_class * schema.layout.classes
        if records * inputs > MOST_NUMBERS:
            raise OptionError(
                f"samples_per_class={self.samples_per_class}: a set of {records:,} records of {inputs:,} "
                f"numbers each is more than the {MOST_NUMBERS:,} that are held in memory; lower it."
            )
        trained: dict[str, Any] = {SET: (records, inputs)}
        shapes = weight_shapes(self.network(schema, 0))
        return self.steps_of(SET, shapes, trained=trained, queries=self.start_queries(schema))

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the cross-entropy of a record's label, by the network."""
        return label_loss(self.network(schema, 0), scaled_inputs(self._inputs(schema), schema), schema)

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> Trainer:
        """Returns the set at its start; `batch` does not matter, as only the directions of gradients do."""
        import torch

        from noisegate.training.synthetic_set import FreeRecords, SetTraining, SyntheticSet, prior_images

        labels = torch.arange(schema.layout.classes).repeat_interleave(self.samples_per_class).to(device)
        options: dict[str, Any] = {"learning_rate": self.learning_rate, "device": device}
        synthetic: SyntheticSet
        if self.prior:
            seeds = self.stream(_PRIOR, 0), self.stream(_START, 0)
            synthetic = prior_images(
                self.shape, labels, centre=self.centre, seeds=seeds, network=self.prior_network, **options
            )
        else:
            options |= {"init_std": self.init_std, "momentum": self.momentum, "seed": self.stream(_START, 0)}
            synthetic = FreeRecords(self._inputs(schema), len(labels), **options)
        return SetTraining(self, self.steps, synthetic, labels, lambda seed: self.network(schema, seed).to(device))

    def network(self, schema: Schema, seed: int) -> nn.Module:
        """Returns the classifier with fresh weights, from rows of inputs to logits, in float32 on the CPU."""
        design = ClassifierDesign(image=self.image, width=self.width, depth=self.depth, hidden=self.hidden)
        return design.build(len(self._inputs(schema).names), schema.layout.classes, seed=seed)

    def model(self, release: Release, fitting: Any = None) -> PointSet:
        """Returns the released set, to be drawn from."""
        schema, inputs = release.schema, self._inputs(release.schema)
        labels = np.repeat(np.arange(schema.layout.classes), self.samples_per_class)
        shape = len(labels), len(inputs.names)
        arrays = released_arrays(release, SET, {SET: shape}, what="set of {} records of {} numbers".format(*shape))
        records = decode_inputs(arrays[SET].double().numpy(), inputs, schema, labels)
        return PointSet(records=records, label=schema.layout.label)

    def _inputs(self, schema: Schema) -> Inputs:
        if self.image is not None:
            check_image_schema(schema, self.shape)
        class_label(schema, "psg makes a set for each label: name a column with levels as the label of the schema.")
        return inputs_of(schema, centre=self.centre, otherwise="there is nothing to make a set of")
