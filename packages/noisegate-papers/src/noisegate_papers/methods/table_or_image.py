"""Settings of methods of mean embeddings whose generator makes tables or images, and the defaults of its fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

from noisegate.errors import OptionError
from noisegate.methods.method import Method
from noisegate.models.checkpoint import Fit
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Layout
from noisegate.schema.pixels import read_shape
from noisegate.settings import (
    Count,
    ImageSize,
    Options,
    Settings,
    Widths,
    derived,
    settings,
)
from noisegate_images.methods.generators import (
    IMAGE_FIT,
    FitsGenerator,
    generator_fit,
    initial_image_generator,
    released_target,
)
from noisegate_images.models.image_network import IMAGE_KINDS, ImageKind, ImageNetwork
from noisegate_images.training.fit import FitSettings

if TYPE_CHECKING:
    from noisegate_images.models.generator import Generator as Network

Generator: TypeAlias = Literal[
    "mixture",
    "table",
    "convolutional",
    "fully-connected",
    "sub-pixel",
    "residual",
    "drawing",
]
TABLES: tuple[Generator, ...] = ("mixture", "table")
"""The generators that make tables; the others make images."""


def by_generator(*, table: Any, images: Any, **kinds: Any) -> Any:
    """Returns a field whose default follows from the generator.

    Args:
        table: The default for generators of tables.
        images: The default for generators of images.
        kinds: The default for one of these, by its name; "sub-pixel" is written
            `sub_pixel`.
    """
    defaults = {**dict.fromkeys(TABLES, table), **dict.fromkeys(IMAGE_KINDS, images)}
    for name, value in kinds.items():
        defaults[cast("Generator", name.replace("_", "-"))] = value
    return derived(lambda given: defaults.get(given["generator"], table))


@settings
class TableOrImageGenerator(FitsGenerator):
    """Settings of the generator of the records, and of its fit."""

    fit_class: ClassVar[type[Settings] | None] = FitSettings
    image_defaults: ClassVar[Mapping[str, Any]] = {"generator": "convolutional"}
    table_values: ClassVar[Mapping[str, Collection[Any]]] = {"generator": TABLES}

    generator: Generator = "table"
    """For tables "table" (a network) or "mixture" (of products); for images "convolutional", "fully-connected",
    "sub-pixel", "residual" or "drawing"."""
    components: Count = 100
    """Number of components of a mixture, for each label value."""
    latent: Count = 32
    """Length of the noise vector of a network."""
    hidden: Widths = by_generator(table=(256, 256), images=(200,))
    """Widths of the generator's hidden layers."""
    channels: Widths = (16, 8)
    """Channels of the generator's convolutions; see `noisegate_images.models.image_network.ImageNetwork`."""
    fit_options: Options = field(default_factory=dict)
    """Changes to `noisegate_images.training.fit.FitSettings`; they cannot change the privacy."""

    @property
    def makes_tables(self) -> bool:
        """Whether the generator makes tables; if not, it makes images."""
        return self.generator in TABLES

    def check_generator(self, image: ImageSize | None) -> None:
        """Checks that the generator can make the requested records.

        Args:
            image: Height, width and channels of the images; None for a table.

        Raises:
            OptionError: if the generator makes tables and images are requested, or the reverse, or it makes no images
                of this size.
        """
        if not self.makes_tables:
            self.image_network(image)
        elif image is not None:
            raise OptionError(
                f"image={image!r} needs a generator of images; add "
                "generator='convolutional'."
            )

    def image_network(self, image: ImageSize | None) -> ImageNetwork:
        """Returns the design of a generator of images.

        Args:
            image: Height, width and channels of the images.

        Raises:
            OptionError: if such a network cannot make such images.
        """
        return ImageNetwork(
            shape=read_shape(image),
            kind=cast("ImageKind", self.generator),
            latent=self.latent,
            hidden=self.hidden,
            channels=self.channels,
        )

    def initial_generator(
        self, layout: Layout, image: ImageSize | None, class_count: int, *, seed: int
    ) -> Network:
        """Returns the generator with its weights before the fit.

        Args:
            layout: Columns of the records.
            image: Height, width and channels of the images; None for a table.
            class_count: Number of labels; 1 if the records have no label.
            seed: Seed of the weights.
        """
        from noisegate_papers.models.table_generators import (
            build_component_generator,
            build_table_generator,
        )

        if not self.makes_tables:
            network = self.image_network(image)
            return initial_image_generator(network, class_count, seed=seed)
        if self.generator == "mixture":
            return build_component_generator(
                layout, components=self.components, seed=seed
            )
        return build_table_generator(
            layout, latent=self.latent, hidden=self.hidden, seed=seed
        )

    def fit_defaults_for(self, images: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what is changed in the defaults of the fit.

        Args:
            images: Changes where the records are images, beside those of all images.
        """
        if self.generator == "mixture":
            return {"steps": 1000, "learning_rate": 0.1}
        if self.generator == "table":
            return {}
        return {**images, "learning_rate": 5e-3, **IMAGE_FIT}

    def fit_to_means(
        self,
        release: Release,
        maps: Mapping[str, FeatureMap],
        method: Method,
        *,
        seed: int,
        device: str,
        clipped: Sequence[str] = (),
        matching: Callable[..., Fit] | None = None,
    ) -> Fit:
        """Returns the fit of the generator to the means in a release, ready to run.

        Args:
            release: The release.
            maps: The feature map of each query.
            method: The method of the release, for the settings of its fit.
            seed: Seed of weights and noise vectors.
            device: "auto", "cpu", "cuda" or "mps".
            clipped: Queries whose vectors may be clipped: a shorter vector counts for
                less than one record, so that their sums do not count records.
            matching: What makes the fit; None for `HalvesMatching`.
        """
        layout = release.schema.layout
        counting_maps = {
            name: feature_map
            for name, feature_map in maps.items()
            if name not in clipped
        }
        target = released_target(release, counting_maps)
        image = None if self.makes_tables else method.shape.axes
        class_count = len(target.weights)
        return generator_fit(
            self.initial_generator(layout, image, class_count, seed=seed),
            target,
            maps,
            method.fit_settings(),
            seed=seed,
            device=device,
            layout=layout if self.makes_tables else None,
            matching=matching,
        )


def values_by_column(
    layout: Layout, setting: str, values: Mapping[str, Any]
) -> list[Any]:
    """Returns the value of a setting for each numeric column; None for columns without one.

    Args:
        layout: Columns of the records.
        setting: Name of the setting, for the message.
        values: The values of the setting, by the name of a column.

    Raises:
        OptionError: if the setting names a column that does not exist, or is not numeric.
    """
    names = [column.name for column in layout.numeric] if values else []
    for name in values:
        if name not in names:
            raise OptionError(
                f"{setting} names {name!r}, which is not a numeric column of the "
                "schema."
            )
    if not values:
        return [None] * len(layout.numeric)
    return [values.get(name) for name in names]
