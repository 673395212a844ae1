"""What methods share that match a generator's expected embedding to noisy class-wise sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.generators.image_network import ImageNetwork
from noisegate.methods.fitted import Fitted
from noisegate.methods.from_json import method_from_json
from noisegate.methods.generator_choice import Generator as Choice
from noisegate.methods.generator_choice import read_shape
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from noisegate.fitting.loop import FitSettings, Fitting
    from noisegate.generators.generator import Generator
    from noisegate.synthesizer import Synthesizer

COUNTS = "counts"
"""The question that asks for the number of records of each label."""


class Matched(Fitted, ABC):
    """Mixed into a method that asks for mean embeddings and counts: its generator, its fit and its synthesizer.

    The attributes are fields of the methods; see there.
    """

    name: str
    generator: Choice
    image: tuple[int, int, int] | None
    components: int
    latent: int
    hidden: tuple[int, ...]
    channels: tuple[int, ...]
    fit_options: Mapping[str, Any]
    seed: int

    @abstractmethod
    def maps(self, schema: Schema) -> dict[str, FeatureMap]:
        """Returns the feature map of each question."""

    @property
    @abstractmethod
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the generator's fit has otherwise than `noisegate.fitting.loop.FitSettings`."""

    def generator_network(self) -> ImageNetwork | None:
        """Returns the design of the image generator; None for a table."""
        if self.generator == "mixture" or self.generator == "table":
            return None
        return ImageNetwork(
            shape=read_shape(self.image),
            kind=self.generator,
            latent=self.latent,
            hidden=self.hidden,
            channels=self.channels,
        )

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent.

        Raises:
            OptionError: if the device is not here or a fit option is unusable.
        """
        from noisegate.fitting.device import choose_device

        choose_device(device)
        self.fit_settings()

    def fit_settings(self) -> FitSettings:
        """Returns how to fit: the defaults of the generator with `fit_options` on top."""
        from noisegate.fitting.loop import FitSettings

        try:
            return replace(FitSettings(), **{**self.fit_defaults, **self.fit_options})
        except TypeError as error:
            raise OptionError(f"fit_options={dict(self.fit_options)!r}: {error}") from None

    def fitting(self, release: Release, *, device: str = "auto") -> Fitting:
        """Returns the fit of a release, ready to run, to save and to restore."""
        from noisegate.fitting.device import choose_device
        from noisegate.fitting.loop import Fitting
        from noisegate.fitting.matching import expected_embeddings, point_embeddings
        from noisegate.fitting.target import read_target
        from noisegate.generators.components import build_component_generator
        from noisegate.generators.image import build_image_generator
        from noisegate.generators.table import build_table_generator

        layout, maps, network = release.schema.layout, self.maps(release.schema), self.generator_network()
        target = read_target(release, counts=COUNTS)
        generator: Generator
        if network:
            generator = build_image_generator(network, len(target.weights), seed=self.seed)
            embeddings = point_embeddings(maps)
        elif self.generator == "mixture":
            generator = build_component_generator(layout, components=self.components, seed=self.seed)
            embeddings = expected_embeddings(maps, layout)
        else:
            generator = build_table_generator(layout, latent=self.latent, hidden=self.hidden, seed=self.seed)
            embeddings = expected_embeddings(maps, layout)
        return Fitting(generator, target, embeddings, self.fit_settings(), seed=self.seed, device=choose_device(device))

    def synthesizer(self, release: Release, fitting: Fitting) -> Synthesizer:
        """Returns the synthesizer that a fit, made by `fitting`, has reached."""
        from noisegate.fitting.target import read_target
        from noisegate.generators.components import ComponentGenerator
        from noisegate.generators.image import ImageGenerator
        from noisegate.generators.neural import NeuralTable
        from noisegate.generators.neural_image import NeuralImage
        from noisegate.generators.table import TableGenerator
        from noisegate.synthesizer import FitSummary, Synthesizer

        generator, weights = fitting.average.cpu().eval(), read_target(release, counts=COUNTS).weights
        model: NeuralImage | NeuralTable
        if isinstance(generator, ImageGenerator):
            labelled = release.schema.layout.label is not None
            model = NeuralImage(generator=generator, weights=weights, labelled=labelled)
        else:
            assert isinstance(generator, TableGenerator | ComponentGenerator)
            model = NeuralTable(generator=generator, weights=weights, layout=release.schema.layout)
        return Synthesizer(
            release=release,
            model=model,
            summary=FitSummary(step=fitting.step, steps=fitting.settings.steps, discrepancy=fitting.discrepancy),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object.

        Raises:
            ModelError: if a setting is missing or not known.
        """
        return method_from_json(cls, data)
