"""The joint embedding of images: what pixels say and what edges say, in one release; the default method for images.

One plan has counts and class-wise sums of random Fourier features: of pixels, gradient
orientations, wavelet energies and, of grey images, of what an encoder of drawn signs
gives. Length scales are public and follow an image's side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import numpy as np

from noisegate.answers.verdict import Verdict
from noisegate.errors import OptionError
from noisegate.methods.abilities import ChosenByAuto
from noisegate.methods.embedding import COUNTS, Embedding
from noisegate.methods.fitted import ended_far, fitted_synthesizer
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate.seeds import public_random
from noisegate.settings import Count, Share, Unit, Widths, Within, derived, settings
from noisegate_images.methods.matched import IMAGE_FIT, MatchedMethod, NetworkMethod
from noisegate_images.models import image_network as designs
from noisegate_images.models.image_network import (
    ImageKind,
    ImageMap,
    ImageNetwork,
    NearestMeans,
    Seen,
)
from noisegate_images.queries.orientation import Orientations
from noisegate_images.queries.perceptual import Perceptual
from noisegate_images.training.fit import even_noise, image_verdict

if TYPE_CHECKING:
    from noisegate.models.synthesizer import Synthesizer
    from noisegate_images.models.image import ImageGenerator, NeuralImage
    from noisegate_images.networks.named import FrozenNetwork

PIXELS, ORIENTATIONS, WAVELETS, STROKES, PERCEPTUAL = (
    "pixels",
    "orientations",
    "wavelets",
    "strokes",
    "perceptual",
)
_STREAMS: Mapping[Seen, int] = {
    "pixels": 0,
    "orientations": 1,
    "wavelets": 3,
    "strokes": 2,
}
Frequencies = Annotated[int, Within(ge=0, lt=2**62), "a whole number, 0 or more"]
Pose = Annotated[float, Within(ge=0, le=4), "a number from 0 to 4"]
ShareOrNone = Annotated[
    float, Within(ge=0, le=1000), "a number, 0 or more, at most 1000"
]

REFERENCE = ImageShape(height=28, width=28)
"""The images that the length scales below were chosen for: simulated digits (benchmarks/images says how)."""
PIXEL_SCALE, ORIENTATION_SCALE = 5.0, 0.5
UNIT_SCALE, DAMPING, WAVELETS_SCALE, STROKES_SCALE = 0.4, 0.3, 0.3, 0.5
"""Length scale of orientations divided by their length plus the second number, and of vectors of length 1."""
_SETTLED: Mapping[str, Any] = {
    **dict.fromkeys(("pixel_scale", "orientation_scale")),
    **{
        "wavelets_scale": WAVELETS_SCALE,
        "strokes_scale": STROKES_SCALE,
        "directions": 8,
        "pool": True,
    },
    **dict.fromkeys(("pixels_share", "orientations_share", "strokes_share"), 1.0),
}
"""Settings that there were and that did not pay (benchmarks/images), as certificates hold them."""
_EARLIER: Mapping[str, Any] = {
    "strokes": 0,
    "wavelets": 0,
    "unit_orientations": False,
    "pose": 0.0,
    "tone": 0.0,
}
_BATCH, _LEAST_BATCH = (
    200,
    40,
)  # images a step: of up to 4 times the numbers of a reference image, and of the largest
_JUDGED, _LEAST_AGREEMENT = 1000, 0.3
"""Images whose classes the released means are asked for, and the share that must agree for them to have a say."""
_FEW = 4  # classes of which an image must fit its own best; of more it may fit one other better: some digits look alike
_HIDES = 0.04  # noise on a class's mean that hides contrast and sharpness (benchmarks/images)
_MISSED = 0.1
"""Part of the released means' energy from which on a fit is far from them; of digits it misses 0.02 to 0.03."""


@register("joint")
@settings
class JointEmbedding(NetworkMethod, MatchedMethod, ChosenByAuto):
    """The default for images: mean embeddings of pixels, orientations, wavelets and strokes.

    Examples:
        >>> from noisegate import Budget, JointEmbedding
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=("cat", "dog"))
        >>> method = JointEmbedding.for_schema(schema, {"pixels": 50, "orientations": 50, "wavelets": 0, "strokes": 0})
        >>> plan = method.plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'pixels': (200, 5.29), 'orientations': (200, 5.29), 'counts': (2, 52.89)}
    """

    audit_on = "images"
    audit_settings = MappingProxyType(
        {"pixels": 50, "orientations": 50, "wavelets": 50, "strokes": 50}
    )
    pixels: Frequencies = 750
    orientations: Frequencies = 750
    wavelets: Frequencies = 750
    strokes: Frequencies = derived(
        lambda given: (
            750
            if isinstance(given["image"], tuple | list)
            and tuple(given["image"][2:]) == (1,)
            else 0
        )
    )
    """Random frequencies of each: pixels, gradient orientations, wavelet energies, and what the encoder of drawn signs
    gives, 750 of grey images; 0 to leave one out."""
    unit_orientations: bool = True
    """Divide an image's orientations by their length, and a bit; else a faint drawing counts as less of one."""
    strokes_sha256: str | None = None
    """What the file of that encoder hashes to; None for that of this version."""
    cell: Count = 4
    """Side of an orientation's cell in pixels."""
    wavelets_share: Share = 1.0
    """Budget share of the wavelet energies; of pixels, of orientations and of signs it is 1."""
    perceptual_share: ShareOrNone = 0.0
    """Budget share of the activations of a public network; 0 to leave them out."""
    counts_share: Share = 0.01
    """Budget share of the counts."""
    generator: ImageKind = "sub-pixel"
    """"sub-pixel", "convolutional", "fully-connected", "residual", or "drawing", whose decoder knows strokes before it
    has seen any release and makes grey images of sides of 12 to 32 pixels."""
    hidden: Widths = derived(
        lambda given: (256,) if given["generator"] in ("drawing", "sub-pixel") else ()
    )
    """Widths of fully connected layers before the picture."""
    channels: Widths = ()
    """Of the generator's convolutions; empty for (32, 16), and one more for every doubling of the side beyond 56."""
    pose: Pose = 2.0
    """How far images are turned, slanted, stretched and moved at random: 1 for up to 0.15 radians; 0 for not at all."""
    tone: Unit | None = None
    """How much contrast and sharpness of each image vary at random: 1 for contrasts from 0.6 to 1.6 times its own and
    up to 0.7 of the mean of neighbouring pixels; 0 for not at all; None for as far as noise hides them."""
    tries: Count = 10
    """How often an image is made at most until its own class is one of the two whose released means fit it best, of
    four classes or fewer the one; 1 takes what comes."""
    components: int = field(default=1, init=False, repr=False)

    def __post_init__(self) -> None:
        if not (
            self.pixels
            or self.orientations
            or self.wavelets
            or self.strokes
            or self.perceptual_share
        ):
            none = (
                "pixels=0, orientations=0, wavelets=0, strokes=0 and perceptual_share=0"
            )
            raise OptionError(f"{none}: there is nothing to ask; give one of them.")
        default = (
            designs.sub_pixel_channels(self.shape)
            if self.generator == "sub-pixel"
            else (16, 8)
        )
        object.__setattr__(self, "channels", self.channels or default)
        if self.orientations:
            Orientations(image=self.shape, cell=self.cell)
        super().__post_init__()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object; those of an earlier version mean what they meant there."""
        open_then = (
            {"generator": "sub-pixel"} if data.get("generator") == "auto" else {}
        )
        left = {
            name: value
            for name, value in data.items()
            if name not in _SETTLED or value != _SETTLED[name]
        }
        return super().from_json({**_EARLIER, **left, **open_then})

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings, with the digest of each network that was used."""
        facts = super().public_facts(schema)
        if self.strokes:
            facts["settings"] |= {"strokes_sha256": self._stroke_network().sha256}
        return facts

    def why(self, schema: Schema, epsilon: float) -> str:
        """Returns in one sentence what "auto" does with images."""
        labels = f"with {schema.layout.classes}" if schema.layout.classes else "without"
        return f"{self.name}: the records are images of {self.shape} pixels {labels} labels."

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the fit has otherwise."""
        # A step on large images takes long; fewer of them a step, and as many steps, lose less than fewer steps.
        batch = max(
            _LEAST_BATCH,
            min(_BATCH, 4 * _BATCH * REFERENCE.size // self.shape.size // 2 * 2),
        )
        steps = (
            2000 if self.generator == "drawing" else 6000
        )  # what knows strokes is at the noise soon
        options = {
            "learning_rate": 1e-2,
            "independent_halves": True,
            "total_variation": 0.2,
            **IMAGE_FIT,
        }
        return {**options, "steps": steps, "batch": batch}

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of what is seen in images, as far as they are asked for."""
        designs.check_image_schema(schema, self.shape, labelled=False)
        shares = {WAVELETS: self.wavelets_share}
        embeddings = {
            n: Embedding(m.feature_map(), shares.get(n, 1.0))
            for n, m in self.image_maps().items()
        }
        if self.perceptual_share:
            activations = self.activations(pool=True)
            embeddings[PERCEPTUAL] = Embedding(
                Perceptual(activations=activations), self.perceptual_share
            )
        return embeddings

    def public_network(self) -> FrozenNetwork | None:
        """Returns the public network, or None if no activations are asked for."""
        return super().public_network() if self.perceptual_share else None

    def image_maps(self) -> dict[str, ImageMap]:
        """Returns the maps of what is seen, as far as they are asked for."""
        scale = PIXEL_SCALE * math.sqrt(self.shape.size / REFERENCE.size)
        more: dict[str, dict[str, Any]] = {
            PIXELS: {"length_scale": scale},
            WAVELETS: {"length_scale": WAVELETS_SCALE},
        }
        if self.orientations:
            sides = (
                (self.shape, self.cell),
                (REFERENCE, 4),
            )  # scales were chosen for the second
            grid, most = (
                math.prod(Orientations(image=image, cell=cell).grid)
                for image, cell in sides
            )
            wider = math.sqrt(grid / most)
            unit = {"length_scale": UNIT_SCALE, "damping": DAMPING * wider}
            own = (
                unit
                if self.unit_orientations
                else {"length_scale": ORIENTATION_SCALE * wider}
            )
            more[ORIENTATIONS] = {"cell": self.cell, **own}
        if self.strokes:
            more[STROKES] = {
                "length_scale": STROKES_SCALE,
                "sha256": self._stroke_network().sha256,
            }
        maps: dict[str, ImageMap] = {}
        # Each from a stream of its own: the next seed of a run would draw the same frequencies.
        for seen, stream in _STREAMS.items():
            if count := getattr(self, seen):
                given = {
                    "image": self.shape,
                    "count": count,
                    "seed": self.seed + stream * 2**62,
                }
                maps[seen] = ImageMap(seen=seen, **given, **more[seen])
        return maps

    def generator_network(self) -> ImageNetwork | None:
        """Returns the design of the generator, with its poses."""
        return (design := super().generator_network()) and replace(
            design, pose=self.pose
        )

    def initial_generator(self, release: Release, classes: int) -> ImageGenerator:
        """Returns the generator with its initial weights, and tones by the noise of the release."""
        from noisegate_images.training.moment_matching import read_target

        made = cast("ImageGenerator", super().initial_generator(release, classes))
        noise = even_noise(
            float(np.median(stds))
            for stds in read_target(release, counts=COUNTS).noise_std.values()
        )
        tone = min(noise / _HIDES, 1.0) if self.tone is None else self.tone
        made.network = replace(made.network, tone=tone)
        return made

    def verdict(
        self, schema: Schema, budget: Budget, records: int | None = None
    ) -> Verdict | None:
        """Returns in words what to expect of images with labels; see `Method`."""
        maps = self.image_maps()
        if not maps or not schema.layout.classes:
            return None
        noise = even_noise(
            one.noise_std_natural
            for one in map(self.plan(schema, budget).release, maps)
        )
        return image_verdict(noise, schema.layout.classes, records, "plan")

    def synthesizer(self, release: Release, fitting: Any) -> Synthesizer:
        """Returns the synthesizer, which makes images again that fit other classes' released means better."""
        maps = self.image_maps()
        target = fitting.target
        made = fitted_synthesizer(
            release,
            fitting,
            self.model(release, fitting),
            is_far=_misses_too_much(fitting),
        )
        if self.tries == 1 or not maps or len(target.present) < 2:
            return made
        nearest = NearestMeans.of_release(maps, target.means, target.noise_std)
        rivals = 1 if len(target.present) <= _FEW else 2
        model = replace(
            cast("NeuralImage", made.model),
            nearest=nearest,
            rivals=rivals,
            tries=self.tries,
        )
        agreement = model.agreement(_JUDGED, public_random(self.seed))
        kept = agreement >= _LEAST_AGREEMENT
        noise, classes = (
            even_noise(release.noise_std[name] for name in maps),
            release.schema.layout.classes,
        )
        summary = made.summary.with_verdict(
            image_verdict(noise, classes, target.records, "fit")
        )
        summary = summary.with_agreement(
            agreement, len(target.present), only_agreeing=kept
        )
        return replace(made, model=model if kept else made.model, summary=summary)

    def _stroke_network(self) -> FrozenNetwork:
        from noisegate_images.networks.named import load_network

        return load_network("strokes", None, self.strokes_sha256)


def _misses_too_much(fitting: Any) -> bool:
    """Returns whether a fit misses more of its release than noise hides.

    What random poses alone miss is allowed for.
    """
    from noisegate_images.training.moment_matching import missed_part

    if not ended_far(fitting.discrepancy):
        return False
    return missed_part(fitting.target, fitting.discrepancy) > _MISSED
