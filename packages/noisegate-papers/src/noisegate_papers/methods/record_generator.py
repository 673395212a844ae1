"""The generator of records that private GANs, DP-Sinkhorn and methods on shards have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from noisegate.gate.per_example.gradients import RowInputs
from noisegate.schema import Schema
from noisegate.schema.pixels import read_shape
from noisegate.settings import Count, ImageSize, Widths, derived, settings
from noisegate_images.models.image_network import (
    ImageKind,
    ImageNetwork,
    check_image_schema,
)
from noisegate_papers.models.inputs import (
    Inputs,
    TableInput,
    encode_images,
    inputs_of,
    scaled_inputs,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisegate.models.record_model import RecordModel
    from noisegate_images.models.generator import DrawsRecords, Generator
    from noisegate_papers.models.inputs import DiscriminatorInput


def by_records(*, table: Any, images: Any) -> Any:
    """Returns a field whose default depends on whether records are rows or images."""
    return derived(lambda given: table if given["image"] is None else images)


@settings
class RecordGenerator:
    """Which network makes the records, and how a discriminator sees them."""

    image: ImageSize | None = None
    """Height, width and channels of the images; None for a table."""
    network: ImageKind = "convolutional"
    """Generator of images: "convolutional" or "fully-connected"."""
    latent: Count = 32
    """Length of the generator's noise vector."""
    hidden: Widths = by_records(table=(128, 128), images=(200,))
    """Widths of the generator's hidden layers."""
    channels: Widths = (16, 8)
    """Channels of the convolutional generator, at a quarter and at half of the image's size."""

    def image_network(self) -> ImageNetwork:
        """Returns the design of a generator of images.

        Raises:
            OptionError: if such a network cannot make such images.
        """
        return ImageNetwork(
            shape=read_shape(self.image),
            kind=self.network,
            latent=self.latent,
            hidden=self.hidden,
            channels=self.channels,
        )

    def check_generator(self) -> None:
        """Refuses a generator that cannot make such images; one of tables makes any."""
        if self.image is not None:
            self.image_network()

    def initial_generator(self, schema: Schema, *, seed: int) -> Generator:
        """Returns the generator at its start, on the CPU.

        Args:
            schema: Public schema of the records.
            seed: Seed of its weights.
        """
        from noisegate_images.models.image import build_image_generator
        from noisegate_papers.models.table_generators import build_table_generator

        if self.image is None:
            return build_table_generator(
                schema.layout, latent=self.latent, hidden=self.hidden, seed=seed
            )
        class_count = max(schema.layout.classes, 1)
        return build_image_generator(self.image_network(), class_count, seed=seed)

    def record_inputs(self, schema: Schema) -> Inputs:
        """Returns what a record is to a discriminator, the label left out.

        Raises:
            UserError: if the schema has nothing but a label, or images of another shape.
        """
        if self.image is not None:
            check_image_schema(schema, read_shape(self.image), labelled=False)
        return inputs_of(schema, centre=0.5, otherwise="there is nothing to make")

    def real_inputs(self, schema: Schema) -> RowInputs:
        """Returns the map from a real record to its inputs, over their scale."""
        return scaled_inputs(self.record_inputs(schema), schema)

    def generated_inputs(self, schema: Schema) -> DiscriminatorInput:
        """Returns the map from the generator to the inputs of what it makes."""
        return encode_images if self.image is not None else TableInput(schema.layout)


def record_model(
    schema: Schema, generator: Generator, label_shares: npt.NDArray[np.float64]
) -> RecordModel:
    """Returns the model of a trained generator of records.

    Args:
        schema: Public schema of the records.
        generator: What `RecordGenerator.initial_generator` returned, trained.
        label_shares: Share of each label, (labels,); one 1 without any.
    """
    return cast("DrawsRecords", generator).record_model(label_shares, schema.layout)
