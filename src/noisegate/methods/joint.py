"""The joint embedding of images: what pixels say and what edges say, in one release; the default method for images.

One pass over the records releases class-wise sums in one plan: random Fourier features of the pixels, as DP-MERF's,
random Fourier features of gradient orientations (`features.orientation`) and of wavelet energies (`features.wavelets`),
and counts. A convolutional generator is then fitted so that its mean embedding matches. Pixels alone leave strokes
blurred, orientations alone leave the background and the polarity open, and neither knows a pattern that begins
anywhere; each fixes the others' gap. Beside them stand, of grey images, the same features of what an encoder of drawn
signs gives (`networks.strokes`), which hardly minds how a hand was held; and where a public network knows such images,
its activations may (`features.perceptual`, as DP-MEPF's).

Nothing here looks at private records: length scales are public numbers, in proportion to the side of an image.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, cast

import numpy as np
from pydantic import Field

from noisegate.errors import OptionError
from noisegate.features.orientation import Orientations
from noisegate.methods.embedding import COUNTS, Embedding
from noisegate.methods.encoders import NetworkMethod
from noisegate.methods.matched import IMAGE_FIT, MatchedMethod
from noisegate.methods.registry import register
from noisegate.models.image_maps import ImageMap
from noisegate.models.image_network import (
    ImageKind,
    ImageNetwork,
    check_image_schema,
    sub_pixel_channels,
)
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate.settings import Count, Share, Unit, Widths, derived, settings
from noisegate.training.image_verdict import image_verdict
from noisegate.verdict import Verdict

if TYPE_CHECKING:
    from noisegate.models.image import ImageGenerator, NeuralImage
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.networks.named import FrozenNetwork

PIXELS: Final = "pixels"
ORIENTATIONS: Final = "orientations"
WAVELETS: Final = "wavelets"
STROKES: Final = "strokes"
PERCEPTUAL: Final = "perceptual"
Frequencies = Annotated[int, Field(ge=0, lt=2**62), "a whole number, 0 or more"]
Pose = Annotated[float, Field(ge=0, le=4), "a number from 0 to 4"]
ShareOrNone = Annotated[float, Field(ge=0, le=1000), "a number, 0 or more, at most 1000"]

REFERENCE = ImageShape(height=28, width=28)
"""The images that the length scales below were chosen for: simulated digits (benchmarks/images says how)."""
PIXEL_SCALE, ORIENTATION_SCALE = 5.0, 0.5
UNIT_SCALE, DAMPING = 0.4, 0.3
"""Length scale of orientations that were divided by their length plus the second number."""
_EARLIER: Mapping[str, Any] = {"strokes": 0, "wavelets": 0, "unit_orientations": False, "pose": 0.0, "tone": 0.0}
"""What was so before there was a setting for it."""
_BATCH, _LEAST_BATCH = 200, 40
"""Images a step: of up to 4 times the numbers of a reference image, and of the largest."""
_JUDGED, _LEAST_AGREEMENT = 1000, 0.3
"""Images whose classes the released means are asked for, and the share that must agree for them to have a say."""
_FEW = 4
"""Classes of which an image must fit its own best; of more it may fit one other better, as means of digits do that
look alike, and the images that an eye doubts are those that a classifier learns most from."""
_HIDES = 0.04
"""Noise on a class's mean that hides contrast and sharpness: without tones a convolutional network learnt .29 from
images of digits, with them .71; at a fifth of it they are worth nothing (benchmarks/images)."""
_MISSED = 0.1
"""Part of the released means' energy from which on a fit is far from them: of digits it misses 0.02 to 0.03, which at
ε = 10 is two hundred times the noise, of classes with six signs each 0.05 to 0.1, and 0.5 where it went wrong."""


def _even(stds: Iterable[float]) -> float:
    """Returns the noise that each block would have if shares were equal; precisions are in proportion to them."""
    return 1 / math.sqrt(statistics.fmean(1 / std**2 for std in stds))


def _is_grey(image: Any) -> bool:
    """Whether a shape that is not checked yet has one channel."""
    return isinstance(image, tuple | list) and tuple(image[2:]) == (1,)


@register("joint")
@settings
class JointEmbedding(NetworkMethod, MatchedMethod):
    """Settings of the joint embedding; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, JointEmbedding
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=("cat", "dog"))
        >>> method = JointEmbedding.for_schema(schema, {"pixels": 50, "orientations": 50, "wavelets": 0, "strokes": 0})
        >>> plan = method.plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'pixels': (200, 5.29), 'orientations': (200, 5.29), 'counts': (2, 52.89)}
    """

    pixels: Frequencies = 750
    """Random frequencies of the pixels; 0 to leave them out."""
    orientations: Frequencies = 750
    """Random frequencies of the gradient orientations; 0 to leave them out."""
    wavelets: Frequencies = 750
    """Random frequencies of the wavelet energies; 0 to leave them out."""
    strokes: Frequencies = derived(lambda given: 750 if _is_grey(given["image"]) else 0)
    """Random frequencies of what the encoder of drawn signs gives, 750 of grey images; 0 to leave them out."""
    pixel_scale: Share | None = None
    """Length scale of the pixels, as Euclidean distance of images with intensities in [0, 1]; None for 5 at 28 x 28 x 1
    and in proportion to the root of the number of intensities."""
    orientation_scale: Share | None = None
    """Length scale of the orientations; None for 0.4 of unit ones, and of others for 0.5 at 28 x 28, in the same
    proportion to cells."""
    unit_orientations: bool = True
    """Divide an image's orientations by their length, and a bit; else a faint drawing counts as less of one."""
    wavelets_scale: Share = 0.3
    """Length scale of the wavelet energies, whose length is nearly 1."""
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
    wavelets_share: Share = 1.0
    """Budget share of the wavelet energies."""
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
    has seen any release and makes grey images of sides of 12 to 32 pixels."""
    hidden: Widths = derived(lambda given: (256,) if given["generator"] in ("drawing", "sub-pixel") else ())
    """Widths of fully connected layers before the picture; one of 256 in front of "sub-pixel" and "drawing"."""
    channels: Widths = ()
    """Of the generator's convolutions; empty for (32, 16), with a further doubling in front for every doubling of the
    side beyond 56."""
    pose: Pose = 2.0
    """How far each image is turned, slanted, stretched and moved at random: 1 for up to 0.15 radians, a slant of 0.15,
    a tenth of its size and a 40th of its sides; 0 to leave them as they are made."""
    tone: Unit | None = None
    """How much contrast and sharpness of each image vary at random: 1 for contrasts from 0.6 to 1.6 times its own and
    up to 0.7 of the mean of neighbouring pixels; 0 to leave them as they are made; None for as far as noise hides
    them, which is 1 where it is 0.04 or more on a class's mean, and in proportion where it is less."""
    tries: Count = 10
    """How often an image is made at most until its own class is one of the two whose released means fit it best, of
    four classes or fewer the one; 1 takes what comes."""
    components: int = field(default=1, init=False, repr=False)

    def __post_init__(self) -> None:
        if not (self.pixels or self.orientations or self.wavelets or self.strokes or self.perceptual_share):
            raise OptionError(
                "pixels=0, orientations=0, wavelets=0, strokes=0 and perceptual_share=0: there is nothing to ask; give "
                "one of them."
            )
        default = sub_pixel_channels(self.shape) if self.generator == "sub-pixel" else (16, 8)
        object.__setattr__(self, "channels", self.channels or default)
        if self.orientations:
            Orientations(image=self.shape, cell=self.cell, directions=self.directions)
        super().__post_init__()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object; those of an earlier version mean what they meant there."""
        # For a while, a generator that was left open was chosen by the noise: which one, the model says.
        open_then = {"generator": "sub-pixel"} if data.get("generator") == "auto" else {}
        return super().from_json({**_EARLIER, **data, **open_then})

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings, with the digest of each network that was used."""
        facts = super().public_facts(schema)
        if self.strokes:
            facts["settings"] |= {"strokes_sha256": self._stroke_network().sha256}
        return facts

    def why(self, schema: Schema, epsilon: float) -> str:
        """Returns in one sentence what "auto" does with images."""
        labels = f"with {schema.layout.classes} labels" if schema.layout.classes else "without labels"
        return f"{self.name}: the records are images of {self.shape} pixels {labels}."

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the fit has otherwise."""
        # A step on large images takes long; fewer of them a step, and as many steps, lose less than fewer steps.
        batch = max(_LEAST_BATCH, min(_BATCH, 4 * _BATCH * REFERENCE.size // self.shape.size // 2 * 2))
        return {
            "steps": 6000,
            "batch": batch,
            "learning_rate": 1e-2,
            "independent_halves": True,
            "total_variation": 0.2,
            **IMAGE_FIT,
            # What knows strokes is at the noise soon, and would follow it.
            **({"steps": 2000} if self.generator == "drawing" else {}),
        }

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of what is seen in images, as far as they are asked for."""
        check_image_schema(schema, self.shape, labelled=False)
        shares = {PIXELS: self.pixels_share, ORIENTATIONS: self.orientations_share}
        shares |= {WAVELETS: self.wavelets_share, STROKES: self.strokes_share}
        embeddings = {name: Embedding(one.feature_map(), shares[name]) for name, one in self.image_maps().items()}
        if self.perceptual_share:
            from noisegate.features.perceptual import Perceptual

            perceptual = Perceptual(activations=self.activations(pool=self.pool))
            embeddings[PERCEPTUAL] = Embedding(perceptual, self.perceptual_share)
        return embeddings

    def public_network(self) -> FrozenNetwork | None:
        """Returns the public network, or None if no activations are asked for."""
        return super().public_network() if self.perceptual_share else None

    def image_maps(self) -> dict[str, ImageMap]:
        """Returns the maps of pixels, orientations, wavelets and strokes, as far as they are asked for."""
        maps: dict[str, ImageMap] = {}
        image, seed = self.shape, self.seed
        if self.pixels:
            scale = self.pixel_scale or PIXEL_SCALE * math.sqrt(image.size / REFERENCE.size)
            maps[PIXELS] = ImageMap(seen=PIXELS, image=image, count=self.pixels, length_scale=scale, seed=seed)
        # Other streams than the pixels': the next seed of a run would draw the same frequencies.
        if self.orientations:
            maps[ORIENTATIONS] = self._orientations(seed + 2**62)
        if self.wavelets:
            scale, stream = self.wavelets_scale, seed + 3 * 2**62
            maps[WAVELETS] = ImageMap(seen=WAVELETS, image=image, count=self.wavelets, length_scale=scale, seed=stream)
        if self.strokes:
            maps[STROKES] = ImageMap(
                seen=STROKES,
                image=image,
                count=self.strokes,
                length_scale=self.strokes_scale,
                seed=seed + 2 * 2**62,
                sha256=self._stroke_network().sha256,
            )
        return maps

    def generator_network(self) -> ImageNetwork | None:
        """Returns the design of the generator, with its poses."""
        design = super().generator_network()
        return design and replace(design, pose=self.pose)

    def initial_generator(self, release: Release, classes: int) -> ImageGenerator:
        """Returns the generator with its initial weights, and tones by the noise of the release."""
        from noisegate.training.moment_matching import read_target

        made = cast("ImageGenerator", super().initial_generator(release, classes))
        noise = _even(float(np.median(stds)) for stds in read_target(release, counts=COUNTS).noise_std.values())
        hidden = min(noise / _HIDES, 1.0)
        made.network = replace(made.network, tone=hidden if self.tone is None else self.tone)
        return made

    def verdict(self, schema: Schema, budget: Budget, records: int | None = None) -> Verdict | None:
        """Returns in words what to expect of images with labels; see `Method`."""
        maps = self.image_maps()
        if not maps or not schema.layout.classes:
            return None
        plan = self.plan(schema, budget)
        noise = _even(plan.release(name).noise_std_natural for name in maps)
        return image_verdict(noise, schema.layout.classes, records, "plan")

    def is_far(self, fitting: Any) -> bool:
        """Returns whether a fit misses more of its release than noise hides and poses alone miss; see `Method`."""
        from noisegate.training.moment_matching import missed_part

        return super().is_far(fitting) and missed_part(fitting.target, fitting.discrepancy) > _MISSED

    def synthesizer(self, release: Release, fitting: Any) -> Synthesizer:
        """Returns the synthesizer, which makes images again that fit other classes' released means better."""
        made, maps, target = super().synthesizer(release, fitting), self.image_maps(), fitting.target
        if self.tries == 1 or not maps or len(target.present) < 2:
            return made
        from noisegate.models.nearest_means import NearestMeans
        from noisegate.seeds import public_random

        nearest = NearestMeans.of_release(maps, target.means, target.noise_std)
        rivals = 1 if len(target.present) <= _FEW else 2
        model = replace(cast("NeuralImage", made.model), nearest=nearest, rivals=rivals, tries=self.tries)
        agreement = model.agreement(_JUDGED, public_random(self.seed))
        kept = agreement >= _LEAST_AGREEMENT
        noise = _even(release.noise_std[name] for name in maps)
        expected = image_verdict(noise, release.schema.layout.classes, target.records, "fit")
        summary = made.summary.with_verdict(expected).with_agreement(agreement, len(target.present), kept=kept)
        return replace(made, model=model if kept else made.model, summary=summary)

    def _orientations(self, seed: int) -> ImageMap:
        image, cell = self.shape, self.cell
        # The root of how many cells there are to those of the images that scales were chosen for.
        grid, most = (math.prod(Orientations(image=of, cell=side).grid) for of, side in ((image, cell), (REFERENCE, 4)))
        wider = math.sqrt(grid / most)
        damping = DAMPING * wider if self.unit_orientations else None
        return ImageMap(
            seen=ORIENTATIONS,
            image=image,
            count=self.orientations,
            length_scale=self.orientation_scale or (UNIT_SCALE if damping else ORIENTATION_SCALE * wider),
            seed=seed,
            cell=cell,
            directions=self.directions,
            damping=damping,
        )

    def _stroke_network(self) -> FrozenNetwork:
        from noisegate.networks.named import load_network

        return load_network("strokes", None, self.strokes_sha256)
