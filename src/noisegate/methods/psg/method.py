"""PSG: Private Set Generation (Chen, Kerkouche, Fritz, NeurIPS 2022).

A small set of records is moved until the gradient of a classifier's loss on it points where the noisy gradient on the
private records does. What is released is the set itself, with as many records of each label as was asked for.

What differs from the authors' program: a step draws a true Poisson sample, as many steps run as are accounted (theirs
runs one round more), every network has a seed of its own, nothing is standardised with moments of the private images,
and numbers are kept within their bounds while they are moved, since what is handed out must be. A table without images
has a perceptron in place of the ConvNet; levels of its columns are trained as probabilities, and the most probable one
is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from noisegate.classifiers.inputs import Inputs, inputs_of
from noisegate.errors import ModelError, OptionError, SchemaError
from noisegate.methods.finished import Finished, TrainedSynthesizer
from noisegate.methods.generator_choice import check_image_schema, read_shape
from noisegate.methods.kept_training import Training
from noisegate.methods.numbers import is_number, put_widths
from noisegate.methods.psg.records import label_of, records_of
from noisegate.methods.psg.training import SET, Schedule, SetTraining
from noisegate.privacy.gradient_plan import CalibratedGradientPlan, GradientPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate.seeds import check_seed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from noisegate.gate.losses import RecordLoss
    from noisegate.synthesizer import Synthesizer

PAPER: Mapping[str, Any] = {
    "samples_per_class": 10,
    "width": 128,
    "depth": 3,
    "steps": 100_000,
    "rate": 256 / 60_000,
    "norm": 0.1,
    "batches": 10,
    "outer": 10,
    "epochs": 50,
    "network_rate": 0.01,
    "learning_rate": 0.038,
    "momentum": 0.5,
    "spread": 0.62,
    "centre": 0.13,
}
"""The authors' settings for ten images of each digit at ε = 10, in our units; 20,000 steps at ε = 1.

They standardise with 0.1307 and 0.3081, we show 2(x − centre): lengths are 0.62 of theirs, learning rates 0.62².
"""

MOST_NUMBERS = 2**26
"""Numbers in a set at most, records times inputs: about 1 GiB beside the network."""

_WHOLE = ("samples_per_class", "width", "depth", "steps", "batches", "outer")
_POSITIVE = ("norm", "network_rate", "learning_rate", "spread")
# Of the network that makes images where `prior` is set: that of DP-MERF's convolutional generator, a little wider.
_LATENT, _HIDDEN, _CHANNELS = 10, (200,), (32, 16)
_START, _PRIOR = 2, 3
# Stands for a default that depends on `prior`, until a method is made.
_OF_PRIOR: Any = None


@dataclass(frozen=True, kw_only=True)
class PrivateSetGeneration(TrainedSynthesizer):
    """Settings of PSG; none of them depends on private data.

    Attributes:
        samples_per_class: Records of each label in the set.
        image: Height, width and channels of the images; None for a table.
        width: Channels of each block of the ConvNet; for images.
        depth: Its blocks.
        hidden: Widths of the perceptron's hidden layers; for tables.
        prior: Whether the images are what a convolutional network makes of fixed noise (Equation 8): they look more
            like images, and serve less well.
        steps: How many noisy gradients are taken.
        rate: Chance of each record to be in the sample of a step.
        norm: L2 norm that the gradient of each record is clipped to.
        batches: Steps between two trainings of the network on the set (K).
        outer: How often that is done before a fresh network takes its place (T).
        epochs: Passes over the set in one training of the network (J); may be 0.
        network_rate: Learning rate of these trainings.
        learning_rate: Of the set, 1 by default; with `prior` of Adam on the weights of the network that makes it, 0.01.
        momentum: Of the set.
        spread: Standard deviation of the set at its start, in units of half a column's range.
        centre: The position between the bounds of a numeric column that counts as nothing: 0.5 where nothing is known,
            0 for ink on an empty page.
        seed: Of the public randomness: start of the set, networks, orders. Never of the samples or the noise.
    """

    samples_per_class: int = 10
    image: tuple[int, int, int] | None = None
    width: int = 32
    depth: int = 3
    hidden: tuple[int, ...] = (128, 128)
    prior: bool = False
    steps: int = 700
    rate: float = 256 / 60_000
    norm: float = 0.1
    batches: int = 10
    outer: int = 10
    epochs: int = 10
    network_rate: float = 0.01
    learning_rate: float = _OF_PRIOR
    momentum: float = 0.5
    spread: float = 0.6
    centre: float = 0.0
    seed: int = 0

    name: Literal["psg"] = field(default="psg", init=False)

    def __post_init__(self) -> None:
        if self.learning_rate is _OF_PRIOR:
            object.__setattr__(self, "learning_rate", 0.01 if self.prior else 1.0)
        for option in (*_WHOLE, "epochs"):
            value, least = getattr(self, option), 0 if option == "epochs" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"{option}={value!r} must be a whole number, {least} or more.")
        for option in _POSITIVE:
            if not is_number(getattr(self, option)) or not 0 < getattr(self, option) <= 1e6:
                raise OptionError(f"{option}={getattr(self, option)!r} must be a number above 0, at most 1e6.")
        for option, low in (("rate", "above 0"), ("momentum", "from 0"), ("centre", "from 0")):
            value = getattr(self, option)
            if not is_number(value) or not 0 <= value <= 1 or (value == 0 and low != "from 0"):
                raise OptionError(f"{option}={value!r} must be a number {low} to 1.")
        check_seed(self.seed)
        if not isinstance(self.prior, bool):
            raise OptionError(f"prior={self.prior!r} must be True or False.")
        # JSON, on the command line and in certificates, knows lists only.
        put_widths(self, ("hidden",))
        if self.image is not None:
            object.__setattr__(self, "image", astuple(read_shape(self.image)))
        if self.prior and (self.image is None or self.image[0] % 4 or self.image[1] % 4):
            raise OptionError(f"prior=True needs images whose sides are multiples of 4, not image={self.image!r}.")

    def plan(self, schema: Schema, budget: Budget) -> CalibratedGradientPlan:
        """Returns the calibrated plan: how many gradients will be asked for, and with what noise. Reads no data.

        Raises:
            SchemaError: if the schema has no label with two levels, or nothing besides it.
            OptionError: if records are no images of the shape that was given, or the set is too large.
            CalibrationError: if no noise can give the guarantee.
        """
        inputs, records = self._inputs(schema), self.samples_per_class * label_of(schema).size
        if records * len(inputs.names) > MOST_NUMBERS:
            raise OptionError(
                f"samples_per_class={self.samples_per_class}: a set of {records:,} records of {len(inputs.names):,} "
                f"numbers each is more than the {MOST_NUMBERS:,} that are held in memory; lower it."
            )
        shapes = {name: tuple(value.shape) for name, value in self.network(schema, 0).named_parameters()}
        plan = GradientPlan(
            name=SET,
            steps=self.steps,
            rate=self.rate,
            norm=self.norm,
            parameters=shapes,
            trained={SET: (records, len(inputs.names))},
        )
        return plan.calibrate(budget)

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one record: the cross-entropy of its label, by the network."""
        from noisegate.gate.losses import module_loss

        inputs, label = self._inputs(schema), schema.layout.label
        others = [j for j in range(len(schema.layout.coded)) if j != label]

        def criterion(run: Callable[[Tensor], Tensor], numeric: Tensor, codes: Tensor) -> Tensor:
            import torch

            scores = run((inputs(numeric, codes[..., others]) / inputs.scale)[None])[0]
            wanted = torch.arange(len(scores), device=scores.device) == codes[label]
            return torch.logsumexp(scores, dim=0) - torch.where(wanted, scores, 0.0).sum()

        return module_loss(self.network(schema, 0), criterion)

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> Training:
        """Returns the set at its start; `batch` does not matter, as only the directions of gradients do."""
        import torch

        from noisegate.fitting.synthetic_set import FreeRecords, GeneratedImages, SyntheticSet
        from noisegate.generators.image import build_image_generator
        from noisegate.generators.image_network import ImageNetwork

        schedule = Schedule(
            batches=self.batches,
            outer=self.outer,
            epochs=self.epochs,
            learning_rate=self.network_rate,
            seed=self.seed,
        )
        classes, seed = label_of(schema).size, schedule.drawn(_START, 0)
        labels = torch.arange(classes).repeat_interleave(self.samples_per_class).to(device)
        made: SyntheticSet
        if self.prior:
            network = ImageNetwork(
                shape=read_shape(self.image), kind="convolutional", latent=_LATENT, hidden=_HIDDEN, channels=_CHANNELS
            )
            generator = build_image_generator(network, classes, seed=schedule.drawn(_PRIOR, 0))
            made = GeneratedImages(
                generator, labels, centre=self.centre, learning_rate=self.learning_rate, seed=seed, device=device
            )
        else:
            made = FreeRecords(
                self._inputs(schema),
                len(labels),
                spread=self.spread,
                learning_rate=self.learning_rate,
                momentum=self.momentum,
                seed=seed,
                device=device,
            )
        return SetTraining(
            schedule, plan.plan.steps, made, labels, lambda drawn: self.network(schema, drawn).to(device)
        )

    def network(self, schema: Schema, seed: int) -> nn.Module:
        """Returns the classifier with fresh weights, from rows of inputs to logits, in float32 on the CPU."""
        from noisegate.networks.perceptron import build_perceptron

        classes = label_of(schema).size
        if self.image is not None:
            from torch import nn

            from noisegate.networks.convnet import build_convnet
            from noisegate.networks.rows import RowsToImages

            shape = read_shape(self.image)
            convnet = build_convnet(shape, classes, width=self.width, depth=self.depth, seed=seed)
            return nn.Sequential(RowsToImages(shape), convnet)
        row = ImageShape(height=1, width=len(self._inputs(schema).names))
        return build_perceptron(row, classes, hidden=self.hidden, seed=seed)

    def synthesizer(self, release: Release, fitting: Finished) -> Synthesizer:
        """Returns the released set, to be drawn from; post-processing, which costs no privacy.

        Raises:
            ModelError: if the release is of another method, or its set does not fit its schema and settings.
        """
        from noisegate.generators.point_set import PointSet
        from noisegate.synthesizer import FitSummary, Synthesizer

        schema, values = release.schema, release.values.get(SET)
        inputs, records = self._inputs(schema), self.samples_per_class * label_of(schema).size
        if values is None or values.size != records * len(inputs.names):
            raise ModelError(
                f"the release has no set of {records} records of {len(inputs.names)} numbers: it was made by another "
                "method or settings."
            )
        model = PointSet(
            records=records_of(values.reshape(records, -1), inputs, schema, self.samples_per_class),
            label=schema.layout.label,
        )
        summary = FitSummary(step=self.steps, steps=self.steps, discrepancy=float("inf"))
        return Synthesizer(release=release, model=model, summary=summary)

    def _inputs(self, schema: Schema) -> Inputs:
        if self.image is not None:
            check_image_schema(schema, read_shape(self.image))
        label_of(schema)
        inputs = inputs_of(schema, centre=self.centre)
        if not inputs.names:
            raise SchemaError("the schema has no column besides the label; there is nothing to make a set of.")
        return inputs
