"""Private Set Generation, PSG: a small set of records whose gradient points where the noisy private one does.

Chen, Kerkouche and Fritz (NeurIPS 2022), https://arxiv.org/abs/2211.04446; see docs/differences.md.

PSG: Private Set Generation.

Chen, Kerkouche and Fritz (NeurIPS 2022), https://arxiv.org/abs/2211.04446. A small set
of records is moved until the gradient of a classifier's loss on it points where the
noisy gradient on the private records does, and is released. What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.per_example.gradients import RecordLoss, label_loss
from noisegate.methods.gradient import Trainer
from noisegate.methods.method import AUDITED_STEPS
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.plan import Budget, Plan, Query
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate.settings import (
    Count,
    Fraction,
    ImageSize,
    Positive,
    Share,
    Unit,
    Whole,
    Widths,
    derived,
    settings,
)
from noisegate_images.models.image_network import check_image_schema
from noisegate_images.training.fit import PriorNetwork
from noisegate_papers.methods.generative import (
    GenerativeMethod,
    released_arrays,
    weight_shapes,
)
from noisegate_papers.models.inputs import (
    Inputs,
    class_label,
    decode_inputs,
    inputs_of,
    scaled_inputs,
)
from noisegate_papers.models.record_sets import PointSet
from noisegate_papers.models.released_classifier import ClassifierDesign
from noisegate_papers.queries.thumbnails import Thumbnails
from noisegate_papers.queries.transforms import OuterProducts
from noisegate_papers.training.schedules import SetSchedule

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor, nn

    from noisegate.gate.gate import Gate
    from noisegate_papers.training.synthetic_set import SetTraining

Array = npt.NDArray[np.float64]

START = "start"  # the query for the moments of small images
MOST_PIXELS = 256  # of a small image: its outer product has half the square of that many numbers, for each class


def small_images(shape: ImageShape) -> Thumbnails:
    """Returns the map to the largest small images of `MOST_PIXELS` numbers or fewer, led by a quarter of white."""
    sides = range(1, min(shape.height, shape.width) // 4 + 1)
    whole = [side for side in sides if not (shape.height % side or shape.width % side)]
    fitting = [side for side in whole if shape.size // side**2 <= MOST_PIXELS]
    size = shape.size // (side := min(fitting, default=1)) ** 2
    return Thumbnails(image=shape, side=side, lead=math.sqrt(size) / 4)


SET = "set"  # the event, and the released set
MOST_NUMBERS = 2**26  # in a set, records times inputs: about 1 GiB beside the network
_START, _PRIOR, _DRAWS, _FEATURES = 2, 3, 4, 5


@register("psg")
@settings
class PrivateSetGeneration(SetSchedule, GenerativeMethod):
    """Private Set Generation: a small set of records that trains classifiers (Chen et al. 2022).

    Examples:
        >>> from noisegate import Budget, PrivateSetGeneration, Schema
        >>> from noisegate.privacy.gradient_plan import steps_of
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
        >>> plan = PrivateSetGeneration(samples_per_class=5).plan(schema, Budget(epsilon=1.0))
        >>> steps_of(plan).query.released
        {'set': (10, 1)}
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_STEPS,
        **{
            "hidden": (16,),
            "samples_per_class": 2,
            "batches": 1,
            "outer": 1,
            "epochs": 1,
        },
    }

    init_std: Positive = 0.6
    """Standard deviation of the set at its start, in units of half a column's range."""
    centre: Unit = 0.0
    """Position between the bounds of a numeric column that counts as nothing: 0.5 if unknown, 0 for ink on a page."""
    start: Literal["noise", "gaussians"] = "noise"
    """What images are at first: noise of `init_std`, or draws from a Gaussian for each class, which are bought."""
    start_share: Share = 0.05
    """Budget share of the Gaussians' moments, where that of the steps is 1."""
    start_steps: Whole = 80
    """Steps that move the draws to what networks see in more of them (distribution matching); they cost no budget."""
    start_bound: Fraction = 0.25
    """What outer products of small images are clipped to, as a part of that of a white one; public knowledge."""
    renamed: ClassVar[Mapping[str, str]] = {
        "network_rate": "network_learning_rate",
        "spread": "init_std",
    }

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

    def start_queries(self, schema: Schema) -> tuple[Query, ...]:
        """Returns the query for the moments of each class; none where the start is noise."""
        if self.start == "noise":
            return ()
        asked = OuterProducts(of=small_images(self.shape))
        options: dict[str, Any] = {
            "columns": schema.layout.classes,
            "bound": self.start_bound,
        }
        return (Query.of(START, asked, share=self.start_share, **options),)

    def before_steps(self, gate: Gate, session: Any, training: Any) -> None:
        """Asks for the moments, and starts the set with images that stand for draws from them."""
        for release in session.plan.releases:
            session.prepare_steps(training.parameters())
            sums = session.ask({START: release.query.feature_map})[START].T
            images = self._drawn(sums, release.noise_std_natural, training)
            training.begin(2 * (images - self.centre))

    def _drawn(
        self, sums: Array, noise_std: float, training: SetTraining
    ) -> Float[Tensor, "rows pixels"]:
        """Returns draws from the Gaussians of noisy moments, matched to more draws by features of fresh networks."""
        from torch import nn

        from noisegate_papers.training.gaussians import image_gaussians, matched_images

        def features_of(step: int) -> Callable[[Tensor], Tensor]:
            pictures, network = training.build(self.stream(_FEATURES, step)).children()
            features = nn.Sequential(
                *list(network.children())[:-1]
            )  # all but the linear layer
            return lambda images: features(pictures(2 * (images - self.centre)))

        gaussians = image_gaussians(sums, small_images(self.shape), noise_std=noise_std)
        draw = partial(
            gaussians.draw, random=np.random.default_rng(self.stream(_DRAWS, 0))
        )
        images = draw(training.records // len(sums))
        return matched_images(
            images, draw, features_of, steps=self.start_steps
        ).flatten(0, 1)

    def __post_init__(self) -> None:
        if self.start != "noise" and (self.image is None or self.prior):
            cure = "give image=(height, width, channels) and prior=False, or use start='noise'."
            raise OptionError(
                f"start={self.start!r} is for images that are moved by themselves: {cure}"
            )
        if self.start != "noise" and small_images(self.shape).dim > MOST_PIXELS + 1:
            raise OptionError(
                f"start={self.start!r}: images of {self.shape.height} x {self.shape.width} pixels cannot be made "
                f"small, to {MOST_PIXELS} numbers, by whole squares; use start='noise'."
            )
        if not self.prior:
            return
        even = self.prior_network == "dcgan"
        if self.image is None or any(
            side % (2 if even else 4) or (even and side < 22) for side in self.image[:2]
        ):
            sides = "even and 22 or more" if even else "multiples of 4"
            raise OptionError(
                f"prior=True needs images whose sides are {sides}, not image={self.image!r}."
            )

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps; refuses a schema without a label of two levels, and sets that are too large."""
        inputs, records = (
            len(self._inputs(schema).names),
            self.samples_per_class * schema.layout.classes,
        )
        if records * inputs > MOST_NUMBERS:
            raise OptionError(
                f"samples_per_class={self.samples_per_class}: a set of {records:,} records of {inputs:,} "
                f"numbers each is more than the {MOST_NUMBERS:,} that are held in memory; lower it."
            )
        trained: dict[str, Any] = {SET: (records, inputs)}
        shapes = weight_shapes(self.network(schema, 0))
        return self.steps_of(
            SET, shapes, trained=trained, queries=self.start_queries(schema)
        )

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the cross-entropy of a record's label, by the network."""
        return label_loss(
            self.network(schema, 0), scaled_inputs(self._inputs(schema), schema), schema
        )

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns the set at its start; `batch` does not matter, as only the directions of gradients do."""
        import torch

        from noisegate_papers.training.synthetic_set import (
            FreeRecords,
            SetTraining,
            SyntheticSet,
            prior_images,
        )

        labels = (
            torch.arange(schema.layout.classes)
            .repeat_interleave(self.samples_per_class)
            .to(device)
        )
        options: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "device": device,
        }
        synthetic: SyntheticSet
        if self.prior:
            seeds = self.stream(_PRIOR, 0), self.stream(_START, 0)
            synthetic = prior_images(
                self.shape,
                labels,
                centre=self.centre,
                seeds=seeds,
                network=self.prior_network,
                **options,
            )
        else:
            options |= {
                "init_std": self.init_std,
                "momentum": self.momentum,
                "seed": self.stream(_START, 0),
            }
            synthetic = FreeRecords(self._inputs(schema), len(labels), **options)
        return SetTraining(
            self,
            self.steps,
            synthetic,
            labels,
            lambda seed: self.network(schema, seed).to(device),
        )

    def network(self, schema: Schema, seed: int) -> nn.Module:
        """Returns the classifier with fresh weights, from rows of inputs to logits, in float32 on the CPU."""
        design = ClassifierDesign(
            image=self.image, width=self.width, depth=self.depth, hidden=self.hidden
        )
        return design.build(
            len(self._inputs(schema).names), schema.layout.classes, seed=seed
        )

    def model(self, release: Release, fitting: Any = None) -> PointSet:
        """Returns the released set, to be drawn from."""
        schema, inputs = release.schema, self._inputs(release.schema)
        labels = np.repeat(np.arange(schema.layout.classes), self.samples_per_class)
        shape = len(labels), len(inputs.names)
        arrays = released_arrays(
            release,
            SET,
            {SET: shape},
            what="set of {} records of {} numbers".format(*shape),
        )
        records = decode_inputs(arrays[SET].double().numpy(), inputs, schema, labels)
        return PointSet(records=records, label=schema.layout.label)

    def _inputs(self, schema: Schema) -> Inputs:
        if self.image is not None:
            check_image_schema(schema, self.shape)
        class_label(
            schema,
            "psg makes a set for each label: name a column with levels as the label of the schema.",
        )
        return inputs_of(
            schema, centre=self.centre, otherwise="there is nothing to make a set of"
        )
