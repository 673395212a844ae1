"""Images to compare: reads them from records, arrays or tables of pixels, and computes their features."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError, OptionError, SchemaError, said
from noisegate.records import Images, Rows
from noisegate.schema import ImageForm, NumericColumn, Schema
from noisegate.schema.decode import as_images
from noisegate.schema.pixels import ImageShape
from noisegate_evaluate.metrics.result import as_json, metrics_of, printed
from noisegate_evaluate.reading import read_numbers

if TYPE_CHECKING:
    from torch import nn

    from noisegate_images.networks.encoder import Encoder

FEATURES = ("encoder", "inception-v3", "pixels")  # what can be asked for by name
_IMAGES_AT_ONCE = 250


class ImageFeatures(Protocol):
    """Features of images. Figures in two kinds of features are not comparable."""

    @property
    def name(self) -> str:
        """Name of the features, for reports. It states everything that the features depend on."""

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Returns finite float32 or float64, (rows, dim), of uint8, (rows, height, width, channels)."""


class Pixels:
    """Features of images that are the intensities themselves, in [0, 1]."""

    name = "pixels"

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Returns one row of intensities per image."""
        return pixels.reshape(len(pixels), -1).astype(np.float32) / 255


class EncoderFeatures:
    """Features of noisegate's small encoder: its last activations, averaged over the image.

    Args:
        encoder: An encoder that was trained on other public images; None for the one in the package, trained on
            CIFAR-10.
        name: Name of these features, required with `encoder`.

    Raises:
        OptionError: an encoder without a name.
        ModelError: the encoder in the package cannot be read.
    """

    def __init__(self, encoder: Encoder | None = None, *, name: str = "") -> None:
        if encoder is not None and not name:
            raise OptionError(
                "name is missing; figures in the features of an encoder of your own need one"
            )
        if encoder is None:
            from noisegate_images.networks.encoder import load_encoder

            encoder = load_encoder()
            name = "noisegate-encoder-cifar10"
        self.name = name
        self._encoder = encoder

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Returns 144 features per image."""
        from torch import nn

        return in_batches(
            nn.Sequential(self._encoder, nn.AdaptiveAvgPool2d(1), nn.Flatten()), pixels
        )


class Inception:
    """Features of Inception-v3, whose Fréchet distance is the "FID"; weights of a file, or of the cache of torch."""

    name = "inception-v3"

    def __init__(self, weights: Path | None = None) -> None:
        from noisegate_evaluate import inception

        path = inception.cached_weights() if weights is None else weights
        self._network = inception.build_inception()
        inception.load_weights(self._network, path)

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Returns 2,048 features per image."""
        return in_batches(self._network, pixels)


def named_features(name: str, weights: Path | None = None) -> ImageFeatures:
    """Returns the features called ``name``, which must be one of `FEATURES`.

    Args:
        name: Name of the features.
        weights: Weights of "inception-v3"; see `Inception`.

    Raises:
        OptionError: there are no such features, or ``weights`` are given for features other than "inception-v3".
        ModelError: the weights are missing, or their digest is not the expected one.
    """
    if name not in FEATURES:
        raise OptionError(
            f"features is {name!r}; expected one of {', '.join(map(repr, FEATURES))}"
        )
    if name == "inception-v3":
        return Inception(weights)
    if weights is not None:
        raise OptionError(
            f"weights is for the features 'inception-v3', not for {name!r}; leave it out"
        )
    return Pixels() if name == "pixels" else EncoderFeatures()


def check_pixels(pixels: np.ndarray) -> None:
    """Checks that an array holds images: uint8, (rows, height, width, channels), at least one row."""
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or not len(pixels):
        raise DataError(
            f"images have the shape {pixels.shape} and the type {pixels.dtype}; "
            "expected at least one, uint8 of shape (rows, height, width, "
            "channels)"
        )


def in_batches(network: nn.Module, pixels: np.ndarray) -> np.ndarray:
    """Returns what a network gives over uint8 images, (rows, height, width, channels): float32, (rows, dim)."""
    # It takes (rows, channels, height, width) in [0, 1]; it runs on a GPU if there is one, else on one thread.
    import torch

    from noisegate.devices import choose_device, one_thread

    check_pixels(pixels)
    device = choose_device("auto")
    network = network.to(device).eval()
    parts = []
    with one_thread(device), torch.inference_mode():
        for at in range(0, len(pixels), _IMAGES_AT_ONCE):
            batch = torch.from_numpy(
                np.ascontiguousarray(pixels[at : at + _IMAGES_AT_ONCE])
            ).to(device)
            parts.append(network(batch.permute(0, 3, 1, 2).float() / 255).float().cpu())
    return torch.cat(parts).numpy()


IMAGES = 10_000  # of either set, unless more are asked for


def images_of(batches: Iterable[Rows], schema: Schema) -> Images:
    """Converts encoded batches, as sources and generators of the library return them, to images.

    Args:
        batches: Images; or records with intensities in [0, 1], and the label, if there is one, as the only column with
            levels.
        schema: The schema of the images.

    Raises:
        SchemaError: the schema is not one of images.
        DataError: there are no images.
    """
    form = image_form(schema)
    found = [as_images(batch, form) for batch in batches]
    if not sum(map(len, found)):
        raise DataError("there are no images; expected at least one")
    images = Rows.concatenate(found)
    assert isinstance(images, Images)  # as all of them are
    return images


def image_form(schema: Schema) -> ImageForm:
    """Returns the image form of a schema; raises a SchemaError if the schema describes a table."""
    if schema.images is None:
        raise SchemaError(
            "the schema describes a table; describe images with noisegate.schema.pixel_schema(...)"
        )
    return schema.images


def check_images(images: Images, what: str, form: ImageForm) -> None:
    """Checks that these are images of a form, at least one; ``what`` names them in a DataError."""
    shape = form.shape
    if images.pixels.shape[1:] != shape.axes:
        raise DataError(
            f"the {what} images have the shape {images.pixels.shape} and the "
            f"type uint8; expected uint8 of shape (rows, {shape.height}, "
            f"{shape.width}, {shape.channels})"
        )
    if not len(images):
        raise DataError(f"there are no {what} images; expected at least one")
    if (images.labels is None) != (form.label is None):
        raise DataError(
            f"the {what} images and the schema do not agree about labels; give both or neither"
        )


def drawn(images: Images, count: int, *, seed: int) -> np.ndarray:
    """Returns the pixels of at most ``count`` images, drawn without replacement by a public seed if there are more."""
    if len(images) <= count:
        return images.pixels
    return np.asarray(
        images.pixels[
            np.random.default_rng(seed).choice(len(images), count, replace=False)
        ]
    )


@dataclass(frozen=True, kw_only=True)
class ImageDistances:
    """Figures between two sets of so many images, by name with features, ``kid(inception-v3)``; None of too few."""

    features: str
    synthetic: int
    real: int
    results: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """Returns the result of a metric, by its name without features: ``kid``."""
        return {
            full.partition("(")[0]: result for full, result in self.results.items()
        }[name]

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values."""
        return {
            "features": self.features,
            "synthetic_images": self.synthetic,
            "real_images": self.real,
            **as_json(self.results),
        }

    def page(self) -> dict[str, str]:
        """Returns the figures as they are printed, by name."""
        counts = {"images": f"{self.synthetic:,} vs {self.real:,}"}
        return printed(self.results) | counts


def image_distances(
    synthetic: Images,
    real: Images,
    features: ImageFeatures,
    *,
    images: int = IMAGES,
    seed: int = 0,
) -> ImageDistances:
    """Returns the figures of all metrics on at most so many images of either set, drawn by a public seed."""
    sets = [drawn(several, images, seed=seed) for several in (synthetic, real)]
    spaces = {"features": features, "pixels": Pixels()}
    values = {kind: list(map(space, sets)) for kind, space in spaces.items()}
    results = {
        metric.named(spaces[metric.KIND].name): metric.measured(
            *values[metric.KIND], seed=seed
        )
        for metric in metrics_of("features", "pixels")
    }
    return ImageDistances(
        features=features.name,
        synthetic=len(sets[0]),
        real=len(sets[1]),
        results=results,
    )


@dataclass(frozen=True, kw_only=True)
class PixelColumns:
    """The columns that are the intensities of an image, row by row from the top left, pixel by pixel."""

    shape: ImageShape
    columns: tuple[NumericColumn, ...]

    def read(self, table: pa.Table, schema: Schema, what: str) -> np.ndarray:
        """Returns intensities, float32 in [0, 1], (rows, height, width, channels): 0 the lower bound of a column."""
        images = np.empty((table.num_rows, len(self.columns)), dtype=np.float32)
        for place, column in enumerate(self.columns):
            images[:, place] = read_numbers(table, column, schema).unit
            if gaps := int(np.isnan(images[:, place]).sum()):
                raise DataError(
                    f"column {column.name!r} of the {what} table is missing or no "
                    f"number in {gaps} row(s); networks need every pixel: fill them, or "
                    "leave these rows out"
                )
        return images.reshape(-1, *self.shape.axes)


def find_pixels(schema: Schema, image: ImageShape | None = None) -> PixelColumns:
    """Returns the pixels among the columns of a schema: all but the label."""
    # Names as :func:`noisegate.schema.pixel_schema` gives them tell the shape and where each stands; with others,
    # ``image`` is the shape and columns stand row by row from the top left, with the channels of a pixel in turn.
    label = None if schema.label_column is None else schema.label_column.name
    columns: dict[str, NumericColumn] = {}
    for column in (one for one in schema.columns if one.name != label):
        if not column.numeric or column.scale != "numbers":
            raise OptionError(
                f"column {column.name!r} is {column.kind}, no intensity of a pixel; networks need images"
            )
        columns[column.name] = column
    named = _named_shape(columns)
    if image is not None and image.size != len(columns):
        raise OptionError(
            f"image {image} has {image.size} intensities, the schema "
            f"{len(columns)} columns besides the label; correct one of them"
        )
    if named is not None:
        if image not in (None, named):
            raise OptionError(
                f"image {image} does not fit the names of the columns, which are those of {named}"
            )
        return PixelColumns(
            shape=named,
            columns=tuple(
                columns[named.pixel_name(place)] for place in range(named.size)
            ),
        )
    if image is None:
        raise OptionError(
            f"the names of the {len(columns)} columns do not tell the shape of an image; give it as "
            f"{said('image')}, which has a height, a width and channels, or describe the images with "
            "noisegate.schema.pixel_schema"
        )
    return PixelColumns(shape=image, columns=tuple(columns.values()))


def read_image(text: str) -> ImageShape:
    """Returns a shape of height, width and channels, which may be left out, for instance of "28,28,1"."""
    parts = text.split(",")
    are_numbers = all(part.strip().isdecimal() and int(part) > 0 for part in parts)
    if len(parts) not in (2, 3) or not are_numbers:
        raise OptionError(
            f"image is {text!r}; expected HEIGHT,WIDTH,CHANNELS in pixels, for instance 28,28,1"
        )
    return _shape_of(map(int, parts))


def _shape_of(sides: Iterable[int]) -> ImageShape:
    """Returns a shape by its height, width and maybe channels."""
    names = ("height", "width", "channels")
    return ImageShape(**dict(zip(names, sides, strict=False)))


def _named_shape(names: Collection[str]) -> ImageShape | None:
    """Returns the shape whose pixels have these names, as in "pixel_27_27"; None where there is none."""
    indices = (
        [int(part) for part in name.split("_")[1:] if part.isdecimal()]
        for name in names
    )
    last = max(indices, default=[])
    if len(last) not in (2, 3):
        return None
    shape = _shape_of(index + 1 for index in last)
    expected_names = {shape.pixel_name(index) for index in range(shape.size)}
    return shape if expected_names == set(names) else None
