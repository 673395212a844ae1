"""What methods share that match a generator's expected embedding to noisy class-wise sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from noisegate.features.feature_map import FeatureMap
from noisegate.generators.image_network import ImageNetwork
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from noisegate.fitting.loop import FitSettings, Fitting
    from noisegate.generators.generator import Generator
    from noisegate.synthesizer import Synthesizer


class Matched(Protocol):
    """A method that asks for mean embeddings and, as the question "counts", for the number of records of each label."""

    @property
    def generator(self) -> str: ...  # noqa: D102 - "mixture", "table" or the kind of an image generator

    @property
    def components(self) -> int: ...  # noqa: D102 - a setting of the generator

    @property
    def latent(self) -> int: ...  # noqa: D102 - a setting of the generator

    @property
    def hidden(self) -> tuple[int, ...]: ...  # noqa: D102 - a setting of the generator

    @property
    def seed(self) -> int: ...  # noqa: D102 - of the public randomness

    def maps(self, schema: Schema) -> dict[str, FeatureMap]:
        """Returns the feature map of each question."""
        ...

    def network(self) -> ImageNetwork | None:
        """Returns the design of the image generator; None for a table."""
        ...

    def fit_settings(self) -> FitSettings:
        """Returns how to fit."""
        ...


def matched_fitting(method: Matched, release: Release, *, device: str, counts: str = "counts") -> Fitting:
    """Returns the fit of a release, ready to run, to save and to restore."""
    from noisegate.fitting.device import choose_device
    from noisegate.fitting.loop import Fitting
    from noisegate.fitting.matching import expected_embeddings, point_embeddings
    from noisegate.fitting.target import read_target
    from noisegate.generators.components import build_component_generator
    from noisegate.generators.image import build_image_generator
    from noisegate.generators.table import build_table_generator

    layout, maps, network = release.schema.layout, method.maps(release.schema), method.network()
    target = read_target(release, counts=counts)
    generator: Generator
    if network:
        generator = build_image_generator(network, len(target.weights), seed=method.seed)
        embeddings = point_embeddings(maps)
    elif method.generator == "mixture":
        generator = build_component_generator(layout, components=method.components, seed=method.seed)
        embeddings = expected_embeddings(maps, layout)
    else:
        generator = build_table_generator(layout, latent=method.latent, hidden=method.hidden, seed=method.seed)
        embeddings = expected_embeddings(maps, layout)
    return Fitting(generator, target, embeddings, method.fit_settings(), seed=method.seed, device=choose_device(device))


def matched_synthesizer(release: Release, fitting: Fitting, *, counts: str = "counts") -> Synthesizer:
    """Returns the synthesizer that a fit, made by `matched_fitting`, has reached."""
    from noisegate.fitting.target import read_target
    from noisegate.generators.components import ComponentGenerator
    from noisegate.generators.image import ImageGenerator
    from noisegate.generators.neural import NeuralTable
    from noisegate.generators.neural_image import NeuralImage
    from noisegate.generators.table import TableGenerator
    from noisegate.synthesizer import FitSummary, Synthesizer

    generator, weights = fitting.average.cpu().eval(), read_target(release, counts=counts).weights
    model: NeuralImage | NeuralTable
    if isinstance(generator, ImageGenerator):
        model = NeuralImage(generator=generator, weights=weights)
    else:
        assert isinstance(generator, TableGenerator | ComponentGenerator)
        model = NeuralTable(generator=generator, weights=weights, layout=release.schema.layout)
    return Synthesizer(
        release=release,
        model=model,
        summary=FitSummary(step=fitting.step, steps=fitting.settings.steps, discrepancy=fitting.discrepancy),
    )
