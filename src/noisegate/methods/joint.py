"""The joint embedding of images: what pixels say and what edges say, in one release; the default method for images.

One pass over the records releases class-wise sums in one plan: random Fourier features of the pixels, as DP-MERF's,
random Fourier features of gradient orientations (`features.orientation`), and counts. A convolutional generator is
then fitted so that its mean embedding matches. Pixels alone leave strokes blurred, orientations alone leave the
background and the polarity open; each fixes the other's gap. Where a public network knows such images, its activations
(`features.perceptual`, as DP-MEPF's) can stand beside them.

Nothing here looks at private records: length scales are public numbers, in proportion to the side of an image.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.features.fourier import draw_points
from noisegate.features.labels import Counts
from noisegate.features.orientation import Orientations, OrientedFourier
from noisegate.generators.image_network import IMAGE_KINDS, ImageKind
from noisegate.methods.activations import chosen_activations
from noisegate.methods.generator_choice import check_image_schema, read_shape
from noisegate.methods.joint_settings import (
    FIT,
    ORIENTATION_SCALE,
    PIXEL_SCALE,
    REFERENCE,
    check_settings,
    default_channels,
)
from noisegate.methods.matched import COUNTS, Matched
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan, Question
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from noisegate.features.perceptual import Perceptual
    from noisegate.gate.gate import Gate
    from noisegate.networks.named import FrozenNetwork

PIXELS, ORIENTATIONS, PERCEPTUAL = "pixels", "orientations", "perceptual"


@dataclass(frozen=True, kw_only=True)
class JointEmbedding(Matched):
    """Settings of the joint embedding; none of them depends on private data.

    Attributes:
        image: Height, width and channels of the images.
        pixels: Number of random frequencies of the pixels; 0 to leave them out.
        orientations: Number of random frequencies of the gradient orientations; 0 to leave them out.
        pixel_scale: Length scale of the pixels, as Euclidean distance of images with intensities in [0, 1]; None for
            5 at 28 x 28 x 1 and in proportion to the root of the number of intensities.
        orientation_scale: Length scale of the orientations; None for 0.5 at 28 x 28, in the same proportion to cells.
        cell: Side of an orientation's cell in pixels.
        directions: Number of directions.
        pixels_share: Budget share of the pixels.
        orientations_share: Budget share of the orientations.
        perceptual_share: Budget share of the activations of a public network; 0 to leave them out.
        network: That network; "encoder" is the one of the package, see `noisegate.methods.mepf.method.DPMEPF`.
        weights: File of its weights; never downloaded.
        sha256: What that file hashes to.
        layers: Modules of it; empty for the encoder's four, or all convolutions of another network.
        pool: Take the mean over the picture of each channel only.
        counts_share: Budget share of the counts.
        generator: "sub-pixel", "convolutional" or "fully-connected".
        latent: Length of the noise vector.
        hidden: Widths of fully connected layers before the picture.
        channels: Of the generator's convolutions; empty for (32, 16), with a further doubling in front for every
            doubling of the side beyond 56.
        fit_options: Changes to `noisegate.fitting.loop.FitSettings`; they cannot change the privacy.
        seed: Of the public randomness: features, initial weights, fitting. Never of the private noise.
    """

    image: tuple[int, int, int] | None = None
    pixels: int = 750
    orientations: int = 750
    pixel_scale: float | None = None
    orientation_scale: float | None = None
    cell: int = 4
    directions: int = 8
    pixels_share: float = 1.0
    orientations_share: float = 1.0
    perceptual_share: float = 0.0
    network: str = "encoder"
    weights: str | None = None
    sha256: str | None = None
    layers: tuple[str, ...] = ()
    pool: bool = True
    counts_share: float = 0.01
    generator: ImageKind = "sub-pixel"
    latent: int = 32
    hidden: tuple[int, ...] = ()
    channels: tuple[int, ...] = ()
    fit_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    name: Literal["joint"] = field(default="joint", init=False)
    components: int = field(default=1, init=False, repr=False)

    def __post_init__(self) -> None:
        shape = read_shape(self.image)
        if self.generator not in IMAGE_KINDS:
            raise OptionError(f"generator={self.generator!r} makes no images; choose one of {', '.join(IMAGE_KINDS)}.")
        object.__setattr__(self, "image", (shape.height, shape.width, shape.channels))
        check_settings(vars(self))
        object.__setattr__(self, "hidden", tuple(self.hidden))
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "channels", tuple(self.channels) or default_channels(shape, self.generator))
        if self.orientations:
            self._orientations()
        self.generator_network()

    def maps(self, schema: Schema) -> dict[str, FeatureMap]:
        """Returns the feature map of each question; the same for the same schema, settings and seed."""
        shape = read_shape(self.image)
        check_image_schema(schema, shape, labelled=False)
        maps: dict[str, FeatureMap] = {}
        if self.pixels:
            scale = self.pixel_scale or PIXEL_SCALE * math.sqrt(shape.size / REFERENCE.size)
            maps[PIXELS] = draw_points(shape.size, count=self.pixels, length_scale=scale, seed=self.seed)
        if self.orientations:
            of = self._orientations()
            cells = math.prod(of.grid) / math.prod(Orientations(image=REFERENCE).grid)
            scale = self.orientation_scale or ORIENTATION_SCALE * math.sqrt(cells)
            # Another stream than the pixels': the next seed of a run would draw the same frequencies.
            fourier = draw_points(of.size, count=self.orientations, length_scale=scale, seed=self.seed + 2**62)
            maps[ORIENTATIONS] = OrientedFourier(orientations=of, fourier=fourier)
        if self.perceptual_share:
            maps[PERCEPTUAL] = self._perceptual()
        return maps | {COUNTS: Counts()}

    def plan(self, schema: Schema, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan: what will be asked, and with what noise. Reads no data."""
        label = schema.layout.label
        columns = 1 if label is None else schema.layout.coded[label].size
        shares = {PIXELS: self.pixels_share, ORIENTATIONS: self.orientations_share, COUNTS: self.counts_share}
        shares[PERCEPTUAL] = self.perceptual_share
        questions = [
            Question(
                name=name,
                dim=feature_map.dim,
                columns=columns,
                norm=feature_map.norm,
                share=shares[name],
                nonnegative=feature_map.nonnegative,
            )
            for name, feature_map in self._asked(schema, budget).items()
        ]
        return Plan(questions=tuple(questions)).calibrate(budget)

    def ask(self, gate: Gate) -> Release:
        """Returns the release: the one time that private records are used."""
        plan = self.plan(gate.schema, gate.budget)
        maps = self._asked(gate.schema, gate.budget)
        settings = self.to_json()
        if self.perceptual_share:
            # Whichever they are: a certificate names the network that was used.
            settings["sha256"] = self._network().sha256
        return gate.sum(plan, maps, method=self.name, public={"settings": settings})

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the generator's fit has otherwise than `noisegate.fitting.loop.FitSettings`."""
        return FIT

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object."""
        settings = {name: value for name, value in asdict(self).items() if name not in ("name", "components")}
        assert self.image is not None
        lists = {name: list(getattr(self, name)) for name in ("image", "layers", "hidden", "channels")}
        return settings | lists | {"fit_options": dict(self.fit_options)}

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent; see `Matched`."""
        super().check_fit(device)
        if self.perceptual_share:
            self._network()

    def _network(self) -> FrozenNetwork:
        from noisegate.networks.named import load_network

        return load_network(self.network, self.weights, self.sha256)

    def _perceptual(self) -> Perceptual:
        from noisegate.features.perceptual import Perceptual

        activations = chosen_activations(self._network(), self.layers, read_shape(self.image), pool=self.pool)
        return Perceptual(activations=activations)

    def _orientations(self) -> Orientations:
        return Orientations(image=read_shape(self.image), cell=self.cell, directions=self.directions)

    def _asked(self, schema: Schema, budget: Budget) -> dict[str, FeatureMap]:
        maps = self.maps(schema)
        # Under replace-one the number of records is public; without a label there is nothing else to count.
        if schema.layout.label is None and budget.adjacency is Adjacency.REPLACE_ONE:
            maps.pop(COUNTS)
        return maps
