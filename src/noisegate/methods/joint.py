"""The joint embedding of images: what pixels say and what edges say, in one release; the default method for images.

One pass over the records releases class-wise sums in one plan: random Fourier features of the pixels, as DP-MERF's,
random Fourier features of gradient orientations (`features.orientation`), and counts. A convolutional generator is
then fitted so that its mean embedding matches. Pixels alone leave strokes blurred, orientations alone leave the
background and the polarity open; each fixes the other's gap. Where images are drawings, the same features of what an
encoder of drawn signs gives (`networks.strokes`) can stand beside them, and where a public network knows such images,
its activations (`features.perceptual`, as DP-MEPF's).

Nothing here looks at private records: length scales are public numbers, in proportion to the side of an image.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from noisegate.errors import OptionError
from noisegate.features.fourier import draw_points
from noisegate.features.orientation import Orientations, OrientedFourier
from noisegate.methods.embedding import Embedding, NetworkMethod
from noisegate.methods.matched import IMAGE_FIT, MatchedMethod
from noisegate.methods.registry import register
from noisegate.models.image_network import ImageKind, check_image_schema, sub_pixel_channels
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate.settings import Count, Share, Widths, derived, settings

if TYPE_CHECKING:
    from noisegate.features.encoded import EncodedFourier
    from noisegate.networks.named import FrozenNetwork

PIXELS, ORIENTATIONS, STROKES, PERCEPTUAL = "pixels", "orientations", "strokes", "perceptual"
Frequencies = Annotated[int, Field(ge=0, lt=2**62), "a whole number, 0 or more"]
ShareOrNone = Annotated[float, Field(ge=0, le=1000), "a number, 0 or more, at most 1000"]

REFERENCE = ImageShape(height=28, width=28)
"""The images that the length scales below were chosen for: simulated digits (benchmarks/images says how)."""
PIXEL_SCALE, ORIENTATION_SCALE = 5.0, 0.5


@register("joint")
@settings
class JointEmbedding(NetworkMethod, MatchedMethod):
    """Settings of the joint embedding; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, JointEmbedding
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=("cat", "dog"))
        >>> method = JointEmbedding.for_schema(schema, {"pixels": 50, "orientations": 50})
        >>> plan = method.plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'pixels': (200, 5.29), 'orientations': (200, 5.29), 'counts': (2, 52.89)}
    """

    pixels: Frequencies = 750
    """Random frequencies of the pixels; 0 to leave them out."""
    orientations: Frequencies = 750
    """Random frequencies of the gradient orientations; 0 to leave them out."""
    strokes: Frequencies = 0
    """Random frequencies of what the encoder of drawn signs gives; 0 to leave them out."""
    pixel_scale: Share | None = None
    """Length scale of the pixels, as Euclidean distance of images with intensities in [0, 1]; None for 5 at 28 x 28 x 1
    and in proportion to the root of the number of intensities."""
    orientation_scale: Share | None = None
    """Length scale of the orientations; None for 0.5 at 28 x 28, in the same proportion to cells."""
    strokes_scale: Share = 0.5
    """Length scale of the encoder's vectors, whose length is 1."""
    strokes_sha256: str | None = None
    """What the file of that encoder hashes to; None for that of this version."""
    cell: Count = 4
    """Side of an orientation's cell in pixels."""
    directions: Count = 8
    """Number of directions."""
    pixels_share: Share = 1.0
    """Budget share of the pixels."""
    orientations_share: Share = 1.0
    """Budget share of the orientations."""
    strokes_share: Share = 1.0
    """Budget share of the signs."""
    perceptual_share: ShareOrNone = 0.0
    """Budget share of the activations of a public network; 0 to leave them out."""
    pool: bool = True
    """Take the mean over the picture of each channel only."""
    counts_share: Share = 0.01
    """Budget share of the counts."""
    generator: ImageKind = "sub-pixel"
    """"sub-pixel", "convolutional", "fully-connected", "residual", or "drawing", whose decoder knows strokes before it
    has seen any release and makes 28 x 28 grey pixels."""
    hidden: Widths = derived(lambda given: (256,) if given["generator"] == "drawing" else ())
    """Widths of fully connected layers before the picture."""
    channels: Widths = ()
    """Of the generator's convolutions; empty for (32, 16), with a further doubling in front for every doubling of the
    side beyond 56."""
    components: int = field(default=1, init=False, repr=False)

    def __post_init__(self) -> None:
        if not (self.pixels or self.orientations or self.strokes or self.perceptual_share):
            raise OptionError(
                "pixels=0, orientations=0, strokes=0 and perceptual_share=0: there is nothing to ask; give one of them."
            )
        default = sub_pixel_channels(self.shape) if self.generator == "sub-pixel" else (16, 8)
        object.__setattr__(self, "channels", self.channels or default)
        if self.orientations:
            self._orientations()
        super().__post_init__()

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings, with the digest of each network that was used."""
        facts = super().public_facts(schema)
        if self.strokes:
            facts["settings"] |= {"strokes_sha256": self._stroke_network().sha256}
        return facts

    @classmethod
    def for_images(cls, shape: ImageShape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the shape, and a generator and cells that divide it."""
        cell = next((cell for cell in (4, 6, 2, 8) if not (shape.height % cell or shape.width % cell)), None)
        return super().for_images(shape, given) | ({"orientations": 0} if cell is None else {"cell": cell})

    usual_channels = staticmethod(sub_pixel_channels)

    def why(self, schema: Schema, epsilon: float) -> str:
        """Returns in one sentence what "auto" does with images."""
        labels = f"with {schema.layout.classes} labels" if schema.layout.classes else "without labels"
        return f"{self.name}: the records are images of {self.shape} pixels {labels}."

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the fit has otherwise."""
        smooth = {"total_variation": 0.1} if self.generator == "drawing" else {}
        return {"steps": 6000, "batch": 200, "learning_rate": 1e-2, "independent_halves": True, **IMAGE_FIT, **smooth}

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of pixels, orientations, strokes and activations, as far as they are asked for."""
        shape = self.shape
        check_image_schema(schema, shape, labelled=False)
        embeddings: dict[str, Embedding] = {}
        if self.pixels:
            scale = self.pixel_scale or PIXEL_SCALE * math.sqrt(shape.size / REFERENCE.size)
            pixels = draw_points(shape.size, count=self.pixels, length_scale=scale, seed=self.seed)
            embeddings[PIXELS] = Embedding(pixels, self.pixels_share)
        if self.orientations:
            of = self._orientations()
            cells = math.prod(of.grid) / math.prod(Orientations(image=REFERENCE).grid)
            scale = self.orientation_scale or ORIENTATION_SCALE * math.sqrt(cells)
            # Another stream than the pixels': the next seed of a run would draw the same frequencies.
            fourier = draw_points(of.size, count=self.orientations, length_scale=scale, seed=self.seed + 2**62)
            embeddings[ORIENTATIONS] = Embedding(
                OrientedFourier(orientations=of, fourier=fourier), self.orientations_share
            )
        if self.strokes:
            embeddings[STROKES] = Embedding(self._encoded_strokes(), self.strokes_share)
        if self.perceptual_share:
            from noisegate.features.perceptual import Perceptual

            perceptual = Perceptual(activations=self.activations(pool=self.pool))
            embeddings[PERCEPTUAL] = Embedding(perceptual, self.perceptual_share)
        return embeddings

    def public_network(self) -> FrozenNetwork | None:
        """Returns the public network, or None if no activations are asked for."""
        return super().public_network() if self.perceptual_share else None

    def _orientations(self) -> Orientations:
        return Orientations(image=self.shape, cell=self.cell, directions=self.directions)

    def _stroke_network(self) -> FrozenNetwork:
        from noisegate.networks.named import load_network

        return load_network("strokes", None, self.strokes_sha256)

    def _encoded_strokes(self) -> EncodedFourier:
        from noisegate.features.encoded import EncodedFourier
        from noisegate.features.perceptual import Perceptual
        from noisegate.methods.encoders import chosen_activations

        activations = chosen_activations(self._stroke_network(), (), self.shape, pool=False)
        scale, seed = self.strokes_scale, self.seed + 2 * 2**62
        fourier = draw_points(activations.dim, count=self.strokes, length_scale=scale, seed=seed)
        return EncodedFourier(encoding=Perceptual(activations=activations), fourier=fourier)
