"""Private Set Generation (PSG): a small set of records that trains classifiers as private records do.

Chen, Kerkouche and Fritz (NeurIPS 2022), https://arxiv.org/abs/2211.04446. A small set of records is changed until the
gradient of a classifier's loss on it has the direction of the noisy gradient on the private records. The set is then
released. For deviations see [differences](../../docs/differences.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.per_example.gradients import RecordLoss, label_loss
from noisegate.methods.gradient import (
    AsksBeforeSteps,
    GradientMethod,
    LearnsByGradients,
    Trainer,
    TrainsModel,
)
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
from noisegate_papers.methods.steps import (
    StepSettings,
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
    from jaxtyping import Float, Int64
    from torch import Tensor, nn

    from noisegate.gate.gate import Gate
    from noisegate.gate.session import Session
    from noisegate_papers.training.synthetic_set import SetTraining, SyntheticSet

Array = npt.NDArray[np.float64]

SET = "set"
"""The event of the steps, and the name of what is released."""
START = "start"
"""The query for the moments of small images."""
MAX_PIXELS = 256
"""Numbers of a small image: its outer product has half the square of that many, for each class."""
MAX_NUMBERS = 2**26
"""Records times inputs of a set: about 1 GiB beside the network."""

# Streams of public randomness; 0 and 1 are those of the networks and the orders.
_START_STREAM = 2
_PRIOR_STREAM = 3
_DRAW_STREAM = 4
_FEATURE_STREAM = 5


def small_images(shape: ImageShape) -> Thumbnails:
    """Returns the map to small images, led by a quarter of white.

    They are the largest of `MAX_PIXELS` numbers or fewer that whole squares give.

    Args:
        shape: Shape of the images.
    """
    sides = range(1, min(shape.height, shape.width) // 4 + 1)
    fitting_sides = [
        side
        for side in sides
        if not (shape.height % side or shape.width % side)
        and shape.size // side**2 <= MAX_PIXELS
    ]
    side = min(fitting_sides, default=1)
    small_size = shape.size // side**2
    return Thumbnails(image=shape, side=side, lead=math.sqrt(small_size) / 4)


@register("psg")
@settings
class PrivateSetGeneration(
    SetSchedule,
    StepSettings,
    TrainsModel,
    LearnsByGradients,
    GradientMethod,
    AsksBeforeSteps,
):
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

    audit_settings: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            **AUDITED_STEPS,
            "hidden": (16,),
            "samples_per_class": 2,
            "batches": 1,
            "outer": 1,
            "epochs": 1,
        }
    )

    init_std: Positive = 0.6
    """Standard deviation of the initial set, in units of half a column's range."""
    centre: Unit = 0.0
    """Position between the bounds of a numeric column that is encoded as 0: 0.5 if unknown, 0 for ink on a page."""
    start: Literal["noise", "gaussians"] = "noise"
    """Initial images: "noise" of `init_std`; or draws from "gaussians", one Gaussian for each class. The Gaussians use
    a share of the budget, `start_share`."""
    start_share: Share = 0.05
    """Share of the budget for the moments of the Gaussians. The steps have a share of 1."""
    start_steps: Whole = 80
    """Number of steps of distribution matching, which move the initial images until their network features match those
    of further draws. They do not add to the cost."""
    start_bound: Fraction = 0.25
    """Norm that outer products of small images are clipped to, relative to that of a white image; public knowledge."""
    renamed: ClassVar[Mapping[str, str]] = {
        "network_rate": "network_learning_rate",
        "spread": "init_std",
    }

    samples_per_class: Count = 10
    """Number of records of each label in the set."""
    image: ImageSize | None = None
    """Height, width and channels of the images; None for a table."""
    width: Count = 32
    """Channels of each block of the ConvNet; for images."""
    depth: Count = 3
    """Number of blocks of the ConvNet."""
    hidden: Widths = (128, 128)
    """Widths of the perceptron's hidden layers; for tables."""
    prior: bool = False
    """Whether a network makes the images from fixed noise (equation 8). They then look more like images, but train
    worse classifiers."""
    prior_network: PriorNetwork = "convolutional"
    """The network of `prior`: "convolutional", that of DP-MERF, or the paper's "dcgan", for even sides."""
    steps: Count = 700
    sampling_probability: Fraction = 256 / 60_000
    clip_norm: Positive = 0.1
    learning_rate: Positive = derived(lambda given: 0.01 if given["prior"] else 1.0)
    """Learning rate of the set; with `prior`, of Adam on the weights of the network that makes it."""
    momentum: Unit = 0.5
    """Momentum of the set."""

    def __post_init__(self) -> None:
        if self.start != "noise":
            self._check_start()
        if self.prior:
            self._check_prior()

    def _check_start(self) -> None:
        """Refuses draws from Gaussians of what is no image, or too large to be made small."""
        if self.image is None or self.prior:
            raise OptionError(
                f"start={self.start!r} is for images that are moved by themselves: give "
                "image=(height, width, channels) and prior=False, or use start='noise'."
            )
        if small_images(self.shape).dim > MAX_PIXELS + 1:
            raise OptionError(
                f"start={self.start!r}: images of {self.shape.height} x "
                f"{self.shape.width} pixels cannot be made small, to {MAX_PIXELS} "
                "numbers, by whole squares; use start='noise'."
            )

    def _check_prior(self) -> None:
        """Refuses images that the network of `prior` cannot make."""
        if self.prior_network == "dcgan":
            expected = "even and 22 or more"
            makes_side = _makes_dcgan_side
        else:
            expected = "multiples of 4"
            makes_side = _makes_convolutional_side
        if self.image is None or not all(makes_side(side) for side in self.image[:2]):
            raise OptionError(
                f"prior=True needs images whose sides are {expected}, not "
                f"image={self.image!r}."
            )

    # The steps.

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps, and the queries of moments before them.

        Raises:
            UserError: if the schema has no label of two levels, or the set is too large.
        """
        input_count = len(self._inputs(schema).names)
        record_count = self.samples_per_class * schema.layout.classes
        if record_count * input_count > MAX_NUMBERS:
            raise OptionError(
                f"samples_per_class={self.samples_per_class}: a set of "
                f"{record_count:,} records of {input_count:,} numbers each is more than "
                f"the {MAX_NUMBERS:,} that are held in memory; lower it."
            )
        return self.steps_of(
            SET,
            weight_shapes(self.network(schema, 0)),
            trained={SET: (record_count, input_count)},
            queries=self.start_queries(schema),
        )

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of a record: the cross-entropy of its label by the network."""
        inputs = scaled_inputs(self._inputs(schema), schema)
        return label_loss(self.network(schema, 0), inputs, schema)

    def network(self, schema: Schema, seed: int) -> nn.Module:
        """Returns the classifier with initial weights, from rows of inputs to logits, in float32 on the CPU."""
        design = ClassifierDesign(
            image=self.image, width=self.width, depth=self.depth, hidden=self.hidden
        )
        input_count = len(self._inputs(schema).names)
        return design.build(input_count, schema.layout.classes, seed=seed)

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns the training of the set in its initial state; see `GradientMethod`.

        The size of a sample has no effect, because only the directions of gradients are used.
        """
        import torch

        from noisegate_papers.training.synthetic_set import SetTraining

        classes = torch.arange(schema.layout.classes)
        labels = classes.repeat_interleave(self.samples_per_class).to(device)
        return SetTraining(
            self,
            self.steps,
            self._initial_set(schema, labels, device),
            labels,
            lambda seed: self.network(schema, seed).to(device),
        )

    def _initial_set(
        self, schema: Schema, labels: Int64[Tensor, " records"], device: str
    ) -> SyntheticSet:
        """Returns the set before the first step: moved by itself, or made by a network (equation 8)."""
        from noisegate_papers.training.synthetic_set import FreeRecords, prior_images

        start_seed = self.stream(_START_STREAM, 0)
        if self.prior:
            return prior_images(
                self.shape,
                labels,
                centre=self.centre,
                seeds=(self.stream(_PRIOR_STREAM, 0), start_seed),
                network=self.prior_network,
                learning_rate=self.learning_rate,
                device=device,
            )
        return FreeRecords(
            self._inputs(schema),
            len(labels),
            learning_rate=self.learning_rate,
            device=device,
            init_std=self.init_std,
            momentum=self.momentum,
            seed=start_seed,
        )

    def model(self, release: Release) -> PointSet:
        """Returns the released set, to sample from."""
        schema = release.schema
        inputs = self._inputs(schema)
        labels = np.repeat(np.arange(schema.layout.classes), self.samples_per_class)
        shape = (len(labels), len(inputs.names))
        what = f"set of {shape[0]} records of {shape[1]} numbers"
        arrays = released_arrays(release, SET, {SET: shape}, what=what)
        set_inputs = arrays[SET].double().numpy()
        records = decode_inputs(set_inputs, inputs, schema, labels)
        return PointSet(records=records, label=schema.layout.label)

    def _inputs(self, schema: Schema) -> Inputs:
        """Returns what a record is to the network, the label left out; refuses a schema that does not fit."""
        if self.image is not None:
            check_image_schema(schema, self.shape)
        class_label(
            schema,
            "psg makes a set for each label: name a column with levels as the label of "
            "the schema.",
        )
        return inputs_of(
            schema, centre=self.centre, otherwise="there is nothing to make a set of"
        )

    # What comes before the steps, where the set starts from Gaussians.

    def start_queries(self, schema: Schema) -> tuple[Query, ...]:
        """Returns the query for the moments of each class; none if the start is noise."""
        if self.start == "noise":
            return ()
        query = Query.of(
            START,
            OuterProducts(of=small_images(self.shape)),
            share=self.start_share,
            columns=schema.layout.classes,
            bound=self.start_bound,
        )
        return (query,)

    def before_steps(self, gate: Gate, session: Session, training: Any) -> None:
        """Releases the moments, and replaces the initial set by images drawn from their Gaussians."""
        for release in session.plan.releases:
            session.prepare_steps(training.parameters())
            sums = session.ask({START: release.query.feature_map})[START].T
            images = self._drawn_images(sums, release.noise_std_natural, training)
            training.begin(2 * (images - self.centre))

    def _drawn_images(
        self, sums: Array, noise_std: float, training: SetTraining
    ) -> Float[Tensor, "rows pixels"]:
        """Returns draws from the Gaussians of noisy moments.

        The draws are adapted to the network features of more draws.

        Args:
            sums: Noisy sums of outer products of small images, (classes, dim).
            noise_std: Standard deviation of the noise on each.
            training: The set in its initial state.
        """
        from torch import nn

        from noisegate_papers.training.gaussians import image_gaussians, matched_images

        def features_of(step: int) -> Callable[[Tensor], Tensor]:
            fresh_network = training.build(self.stream(_FEATURE_STREAM, step))
            to_pictures, layers = fresh_network.children()
            all_but_linear = list(layers.children())[:-1]
            features = nn.Sequential(*all_but_linear)
            return lambda images: features(to_pictures(2 * (images - self.centre)))

        gaussians = image_gaussians(sums, small_images(self.shape), noise_std=noise_std)
        random = np.random.default_rng(self.stream(_DRAW_STREAM, 0))
        draw = partial(gaussians.draw, random=random)
        images = draw(training.records // len(sums))
        matched = matched_images(images, draw, features_of, steps=self.start_steps)
        return matched.flatten(0, 1)


def _makes_dcgan_side(side: int) -> bool:
    return side % 2 == 0 and side >= 22


def _makes_convolutional_side(side: int) -> bool:
    return side % 4 == 0
