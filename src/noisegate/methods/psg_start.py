"""Where PSG's images begin: in noise, as in the paper, or as draws from Gaussians whose moments are bought in the plan.

The warm start is not in the paper. One query asks, for each class, for the sum of outer products of small images, for a
small part of the budget; what is drawn from it is public, and so is what is matched to the draws. Steps then begin
where a classifier is already right for most images, instead of spending hundreds of noisy gradients on the way there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.thumbnails import Thumbnails
from noisegate.features.transforms import OuterProducts
from noisegate.methods.generative import GenerativeMethod
from noisegate.privacy.plan import Query
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate.settings import Fraction, Positive, Share, Unit, Whole, settings
from noisegate.training.schedules import SetSchedule

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.training.synthetic_set import SetTraining

Array = npt.NDArray[np.float64]

START = "start"
"""The query for the moments of small images."""
MOST_PIXELS = 256
"""Of a small image: its outer product has half the square of that many numbers, for each class."""
_DRAWS, _FEATURES = 4, 5


@settings
class SetStart(SetSchedule, GenerativeMethod):
    """Base of PSG: settings of the set's start, and the query before the steps."""

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

    def check_start(self, possible: bool) -> None:
        """Refuses a start other than noise for what is no set of images that are moved by themselves."""
        if self.start == "noise":
            return
        if not possible:
            raise OptionError(
                f"start={self.start!r} is for images that are moved by themselves: give image=(height, width, "
                "channels) and prior=False, or use start='noise'."
            )
        if small_images(self.shape).dim > MOST_PIXELS + 1:
            raise OptionError(
                f"start={self.start!r}: images of {self.shape.height} x {self.shape.width} pixels cannot be made "
                f"small, to {MOST_PIXELS} numbers, by whole squares; use start='noise'."
            )

    def start_queries(self, schema: Schema) -> tuple[Query, ...]:
        """Returns the query for the moments of each class; none where the start is noise."""
        if self.start == "noise":
            return ()
        asked = OuterProducts(of=small_images(self.shape))
        options: dict[str, Any] = {"columns": schema.layout.classes, "bound": self.start_bound}
        return (Query.of(START, asked, share=self.start_share, **options),)

    def before_steps(self, gate: Gate, session: Any, training: Any) -> None:
        """Asks for the moments, and starts the set with images that stand for draws from them."""
        for release in session.plan.releases:
            session.prepare(training.parameters())
            sums = session.ask({START: release.query.feature_map})[START].T
            images = self._drawn(sums, release.noise_std_natural, training)
            training.begin(2 * (images - self.centre))

    def _drawn(self, sums: Array, noise_std: float, training: SetTraining) -> Float[Tensor, "rows pixels"]:
        """Returns draws from the Gaussians of noisy moments, matched to more draws by features of fresh networks."""
        from torch import nn

        from noisegate.training.distribution_matching import matched_images
        from noisegate.training.image_gaussians import image_gaussians

        def features_of(step: int) -> Callable[[Tensor], Tensor]:
            pictures, network = training.build(self.stream(_FEATURES, step)).children()
            features = nn.Sequential(*list(network.children())[:-1])  # all but the linear layer
            return lambda images: features(pictures(2 * (images - self.centre)))

        gaussians = image_gaussians(sums, small_images(self.shape), noise_std=noise_std)
        draw = partial(gaussians.draw, random=np.random.default_rng(self.stream(_DRAWS, 0)))
        images = draw(training.records // len(sums))
        return matched_images(images, draw, features_of, steps=self.start_steps).flatten(0, 1)


def small_images(shape: ImageShape) -> Thumbnails:
    """Returns the map to the largest small images of at most `MOST_PIXELS` numbers, led by a quarter of white's length.

    Images themselves where no square of a whole number of pixels makes them as small.
    """
    sides = range(1, min(shape.height, shape.width) // 4 + 1)
    whole = [side for side in sides if not (shape.height % side or shape.width % side)]
    fitting = [side for side in whole if shape.size // side**2 <= MOST_PIXELS]
    size = shape.size // (side := min(fitting, default=1)) ** 2
    return Thumbnails(image=shape, side=side, lead=math.sqrt(size) / 4)
