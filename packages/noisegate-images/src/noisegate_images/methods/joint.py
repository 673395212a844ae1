"""The joint embedding of images: features of pixels and of edges in one release; the default method for images.

One plan has counts and class-wise sums of random Fourier features of each image: of its pixels, the orientations of its
gradients, its wavelet energies and, for grey images, the features of an encoder of drawn strokes. Optionally, it also
has sums of the activations of a public network. Length scales are public and depend on the side of the images.

A generator is fitted to the sums (`noisegate_images.training.moment_matching`). When records are drawn, an image that
fits the released mean of another class better than its own is replaced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np

from noisegate.answers.verdict import Verdict
from noisegate.errors import OptionError
from noisegate.methods.abilities import (
    ChangesFitDefaults,
    ChosenByAuto,
    UsesPublicFiles,
)
from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod
from noisegate.methods.fitted import ended_far, fitted_synthesizer
from noisegate.methods.registry import register
from noisegate.models.checkpoint import Fit
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate.seeds import public_random
from noisegate.settings import (
    Count,
    ReadsEarlierSettings,
    Share,
    Unit,
    Widths,
    Within,
    derived,
    settings,
)
from noisegate_images.methods.generators import (
    IMAGE_FIT,
    ImageGeneratorSettings,
    fitted_generator,
    generator_fit,
    initial_image_generator,
    released_target,
)
from noisegate_images.methods.public_network import NetworkLayers
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
from noisegate_images.training.fit import FitSettings, even_noise, image_verdict

if TYPE_CHECKING:
    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate_images.models.image import ImageGenerator, NeuralImage
    from noisegate_images.networks.named import FrozenNetwork

PIXELS: Seen = "pixels"
ORIENTATIONS: Seen = "orientations"
WAVELETS: Seen = "wavelets"
STROKES: Seen = "strokes"
PERCEPTUAL = "perceptual"
"""The query of the activations of a public network."""

_STREAMS: Mapping[Seen, int] = MappingProxyType(
    {PIXELS: 0, ORIENTATIONS: 1, WAVELETS: 3, STROKES: 2}
)
"""The stream of random numbers of each map, a multiple of 2^62 from the seed: the next seed of a run would draw the
same frequencies as the next map otherwise."""

Frequencies = Annotated[int, Within(ge=0, lt=2**62), "a whole number, 0 or more"]
Pose = Annotated[float, Within(ge=0, le=4), "a number from 0 to 4"]
ShareOrNone = Annotated[
    float, Within(ge=0, le=1000), "a number, 0 or more, at most 1000"
]

REFERENCE = ImageShape(height=28, width=28)
"""The images that the length scales below were chosen for: simulated digits (see benchmarks/images)."""
_REFERENCE_CELL = 4
PIXEL_SCALE = 5.0
ORIENTATION_SCALE = 0.5
UNIT_SCALE = 0.4
"""Length scale of orientations that are divided by their length and `DAMPING`."""
DAMPING = 0.3
WAVELETS_SCALE = 0.3
STROKES_SCALE = 0.5

_DROPPED_SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "pixel_scale": None,
        "orientation_scale": None,
        "wavelets_scale": WAVELETS_SCALE,
        "strokes_scale": STROKES_SCALE,
        "directions": 8,
        "pool": True,
        "pixels_share": 1.0,
        "orientations_share": 1.0,
        "strokes_share": 1.0,
    }
)
"""Settings that there were and that did not pay (benchmarks/images), with the value that certificates hold."""
_BEFORE_IT_WAS_A_SETTING: Mapping[str, Any] = MappingProxyType(
    {
        "strokes": 0,
        "wavelets": 0,
        "unit_orientations": False,
        "pose": 0.0,
        "tone": 0.0,
    }
)
"""What versions did that had not yet such a setting."""

_BATCH = 200
"""Images in a step of the fit, of up to 4 times the numbers of a reference image."""
_MIN_BATCH = 40
"""Images in a step, of the largest."""
_STEPS = 6000
_STEPS_OF_DRAWING = 2000
"""Fewer steps are enough for a generator that was pretrained on strokes."""

_JUDGED_IMAGES = 1000
"""Number of generated images whose classes are compared with the released means after the fit."""
_MIN_AGREEMENT = 0.3
"""Share of them that must agree for released means to have a say in what is drawn."""
_MAX_CLASSES_WITHOUT_RIVAL = 4
"""Up to so many classes an image must fit its own best; of more it may fit one other better: some digits look alike."""
_HIDING_NOISE = 0.04
"""Noise on a class's mean that hides contrast and sharpness (benchmarks/images)."""
_MAX_MISSED_PART = 0.1
"""Part of the released means' energy from which on a fit is far from them; of digits it misses 0.02 to 0.03."""


@register("joint")
@settings
class JointEmbedding(
    ImageGeneratorSettings,
    NetworkLayers,
    MeanEmbeddingMethod,
    ChosenByAuto,
    ChangesFitDefaults,
    UsesPublicFiles,
    ReadsEarlierSettings,
):
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
    fit_class = FitSettings

    pixels: Frequencies = 750
    """Number of random frequencies for the pixels; 0 leaves them out."""
    orientations: Frequencies = 750
    """Number of random frequencies for the orientations of gradients; 0 leaves them out."""
    wavelets: Frequencies = 750
    """Number of random frequencies for the wavelet energies; 0 leaves them out."""
    strokes: Frequencies = derived(
        lambda given: (
            750
            if isinstance(given["image"], tuple | list)
            and tuple(given["image"][2:]) == (1,)
            else 0
        )
    )
    """Number of random frequencies for the features of the encoder of drawn strokes (750 for grey images, else 0); 0
    leaves them out."""
    unit_orientations: bool = True
    """Whether to divide the orientations of an image by slightly more than their norm. Otherwise, faint drawings have
    less weight."""
    strokes_sha256: str | None = None
    """SHA-256 of the file of the encoder of drawn strokes; None for that of this version."""
    cell: Count = 4
    """Side of the squares in which orientations are averaged, in pixels."""
    wavelets_share: Share = 1.0
    """Share of the budget for the wavelet energies. Pixels, orientations and strokes have a share of 1 each."""
    perceptual_share: ShareOrNone = 0.0
    """Share of the budget for the activations of a public network; 0 leaves them out."""
    counts_share: Share = 0.01
    """Share of the budget for the counts of images."""
    generator: ImageKind = "sub-pixel"
    """"sub-pixel", "convolutional", "fully-connected", "residual", or "drawing". The decoder of "drawing" is pretrained
    on strokes and makes grey images with sides of 12 to 32 pixels."""
    hidden: Widths = derived(
        lambda given: (256,) if given["generator"] in ("drawing", "sub-pixel") else ()
    )
    """Widths of the fully connected layers before the image."""
    channels: Widths = ()
    """Channels of the generator's convolutions; empty for (32, 16), and one more convolution for each doubling of the
    side beyond 56 pixels."""
    pose: Pose = 2.0
    """How far images are rotated, slanted, stretched and moved at random: 1 for up to 0.15 radians; 0 for not at all.
    """
    tone: Unit | None = None
    """How much contrast and sharpness of each image vary at random. 1: contrast between 0.6 and 1.6 times the original,
    and blurring by up to 70% of the average of neighbouring pixels. 0: not at all. None: as much as the noise of the
    release leaves undetermined."""
    tries: Count = 10
    """Largest number of candidates for each generated image. The method uses the first candidate whose class is among
    the two classes with the best-fitting released means; with four classes or fewer, the first candidate whose class is
    the best-fitting one. 1 always uses the first candidate."""

    def __post_init__(self) -> None:
        asks_something = (
            self.pixels
            or self.orientations
            or self.wavelets
            or self.strokes
            or self.perceptual_share
        )
        if not asks_something:
            raise OptionError(
                "pixels=0, orientations=0, wavelets=0, strokes=0 and "
                "perceptual_share=0: there is nothing to query; give one of them."
            )
        if not self.channels:
            object.__setattr__(self, "channels", self._default_channels())
        if self.orientations:
            # Refuses cells that images of this size cannot have.
            Orientations(image=self.shape, cell=self.cell)
        self.posed_network()

    def _default_channels(self) -> tuple[int, ...]:
        if self.generator == "sub-pixel":
            return designs.sub_pixel_channels(self.shape)
        return (16, 8)

    @classmethod
    def upgraded(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Converts stored settings of earlier versions, with the values that they had then."""
        settings = {
            name: value
            for name, value in stored.items()
            if name not in _DROPPED_SETTINGS or value != _DROPPED_SETTINGS[name]
        }
        if settings.get("generator") == "auto":
            settings["generator"] = "sub-pixel"
        return {**_BEFORE_IT_WAS_A_SETTING, **settings}

    # What is asked.

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of all kinds of features that are in use."""
        designs.check_image_schema(schema, self.shape, labelled=False)
        embeddings: dict[str, Embedding] = {}
        for seen, image_map in self.image_maps().items():
            share = self.wavelets_share if seen == WAVELETS else 1.0
            embeddings[seen] = Embedding(image_map.feature_map(), share)
        if self.perceptual_share:
            activations = self.activations(self.shape, pool=True)
            perceptual = Perceptual(activations=activations)
            embeddings[PERCEPTUAL] = Embedding(perceptual, self.perceptual_share)
        return embeddings

    def image_maps(self) -> dict[str, ImageMap]:
        """Returns the map of each kind of feature that is in use."""
        options: dict[Seen, dict[str, Any]] = {
            PIXELS: {
                "length_scale": PIXEL_SCALE
                * math.sqrt(self.shape.size / REFERENCE.size)
            },
            WAVELETS: {"length_scale": WAVELETS_SCALE},
        }
        if self.orientations:
            options[ORIENTATIONS] = self._orientation_options()
        if self.strokes:
            options[STROKES] = {
                "length_scale": STROKES_SCALE,
                "sha256": self._stroke_network().sha256,
            }
        frequency_counts: dict[Seen, int] = {
            PIXELS: self.pixels,
            ORIENTATIONS: self.orientations,
            WAVELETS: self.wavelets,
            STROKES: self.strokes,
        }
        return {
            seen: ImageMap(
                seen=seen,
                image=self.shape,
                count=frequency_counts[seen],
                seed=self.seed + stream * 2**62,
                **options[seen],
            )
            for seen, stream in _STREAMS.items()
            if frequency_counts[seen]
        }

    def _orientation_options(self) -> dict[str, Any]:
        """Returns the cell and the length scale of the map of orientations.

        The length of an image's orientations grows with the root of the number of its
        cells, and the length scale with it.
        """
        cells = Orientations(image=self.shape, cell=self.cell).grid
        reference_cells = Orientations(image=REFERENCE, cell=_REFERENCE_CELL).grid
        width_ratio = math.sqrt(math.prod(cells) / math.prod(reference_cells))
        if self.unit_orientations:
            return {
                "cell": self.cell,
                "length_scale": UNIT_SCALE,
                "damping": DAMPING * width_ratio,
            }
        return {"cell": self.cell, "length_scale": ORIENTATION_SCALE * width_ratio}

    def _stroke_network(self) -> FrozenNetwork:
        from noisegate_images.networks.named import load_network

        return load_network("strokes", None, self.strokes_sha256)

    def file_digests(self) -> dict[str, str]:
        """Returns the SHA-256 of each network in use, by the setting that states it."""
        digests = {}
        if self.perceptual_share:
            digests["sha256"] = self.encoder().sha256
        if self.strokes:
            digests["strokes_sha256"] = self._stroke_network().sha256
        return digests

    # What to expect.

    def why(self, schema: Schema, epsilon: float) -> str:
        """Explains in one sentence what "auto" does with images."""
        labels = f"with {schema.layout.classes}" if schema.layout.classes else "without"
        return f"{self.name}: the records are images of {self.shape} pixels {labels} labels."

    def verdict(
        self, schema: Schema, budget: Budget, records: int | None = None
    ) -> Verdict | None:
        """Returns the predicted verdict on images with labels; see `ChosenByAuto`."""
        maps = self.image_maps()
        if not maps or not schema.layout.classes:
            return None
        plan = self.plan(schema, budget)
        noise = even_noise(plan.release(name).noise_std_natural for name in maps)
        return image_verdict(noise, schema.layout.classes, records, "plan")

    # What is fitted.

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """Changes to the defaults of the fit."""
        # A step on large images takes long, and a smaller batch loses less than fewer
        # steps do. The batch is even: its halves are compared apart.
        affordable = 4 * _BATCH * REFERENCE.size // self.shape.size // 2 * 2
        return {
            "learning_rate": 1e-2,
            "independent_halves": True,
            "total_variation": 0.2,
            **IMAGE_FIT,
            "steps": _STEPS_OF_DRAWING if self.generator == "drawing" else _STEPS,
            "batch": max(_MIN_BATCH, min(_BATCH, affordable)),
        }

    def posed_network(self) -> ImageNetwork:
        """Returns the design of the generator, with its poses."""
        return self.generator_network(self.shape, pose=self.pose)

    def initial_generator(self, release: Release, class_count: int) -> ImageGenerator:
        """Returns the generator before the fit. If `tone` is None, the noise of the release determines the tone.

        Args:
            release: The release that the generator is fitted to.
            class_count: Number of labels; 1 if the images have no label.
        """
        generator = initial_image_generator(
            self.posed_network(), class_count, seed=self.seed
        )
        tone = self.tone
        if tone is None:
            noise_stds = released_target(release, {}).noise_std.values()
            noise = even_noise(float(np.median(stds)) for stds in noise_stds)
            tone = min(noise / _HIDING_NOISE, 1.0)
        generator.network = replace(generator.network, tone=tone)
        return generator

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns the fit of the generator to the released means, ready to run."""
        maps = plan.maps if plan else self.maps(release.schema)
        target = released_target(release, maps)
        return generator_fit(
            self.initial_generator(release, len(target.weights)),
            target,
            maps,
            self.fit_settings(),
            seed=self.seed,
            device=device,
        )

    def synthesizer(self, release: Release, fitting: Any) -> Synthesizer:
        """Returns the synthesizer of a fit.

        It replaces images that fit the released means of another class better.
        """
        target = fitting.target
        image_model = self.model(release, fitting)
        synthesizer = fitted_synthesizer(
            release, fitting, image_model, is_far=_misses_too_much(fitting)
        )
        maps = self.image_maps()
        present_count = len(target.present)
        if self.tries == 1 or not maps or present_count < 2:
            return synthesizer

        has_few_classes = present_count <= _MAX_CLASSES_WITHOUT_RIVAL
        choosing_model = replace(
            cast("NeuralImage", image_model),
            nearest=NearestMeans.of_release(maps, target.means, target.noise_std),
            rivals=1 if has_few_classes else 2,
            tries=self.tries,
        )
        agreement = choosing_model.agreement(_JUDGED_IMAGES, public_random(self.seed))
        chooses = agreement >= _MIN_AGREEMENT
        noise = even_noise(release.noise_std[name] for name in maps)
        class_count = release.schema.layout.classes
        summary = synthesizer.summary.with_verdict(
            image_verdict(noise, class_count, target.records, "fit")
        )
        summary = summary.with_agreement(
            agreement, present_count, only_agreeing=chooses
        )
        model = choosing_model if chooses else image_model
        return replace(synthesizer, model=model, summary=summary)

    def model(self, release: Release, fitting: Any) -> RecordModel:
        """Returns the fitted generator.

        Unlike the synthesizer, it does not replace images that fit another class better.
        """
        return fitted_generator(release, fitting)


def _misses_too_much(fitting: Any) -> bool:
    """Returns whether a fit misses more of its release than its noise explains.

    What random poses alone miss is allowed for.
    """
    from noisegate_images.training.target import missed_part

    if not ended_far(fitting.discrepancy):
        return False
    return missed_part(fitting.target, fitting.discrepancy) > _MAX_MISSED_PART
