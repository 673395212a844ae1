"""What DP-MGE asks of each record: its feature, and the feature's squares or its outer product along public axes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from noisegate.errors import OptionError
from noisegate.methods.encoding import image_encoding
from noisegate.methods.generator_choice import read_shape

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisegate.features.feature_map import SharingMap
    from noisegate.features.perceptual import Perceptual
    from noisegate.schema import Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class Axes:
    """Public directions along which features are looked at.

    Attributes:
        values: Orthonormal columns, (features, axes).
        told: What a certificate says of them.
    """

    values: npt.NDArray[np.float64]
    told: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class MomentFeatures:
    """The settings of DP-MGE that say what a feature is; see there.

    Attributes:
        image: Height, width and channels of the images.
        network: Of the encoder.
        weights: File of the encoder's weights.
        sha256: What that file hashes to.
        layer: Module of the encoder.
        axes: Number of axes of a full covariance; None for a diagonal one.
        public: Public images whose principal axes these are; None for random directions.
        public_records: How many public images are encoded at most.
        seed: Of directions, and of which public images.
    """

    image: tuple[int, int, int]
    network: str
    weights: str | None
    sha256: str | None
    layer: str | None
    axes: int | None
    public: str | None
    public_records: int
    seed: int

    def encoding(self) -> Perceptual:
        """Returns the map from an image to its feature.

        Raises:
            OptionError: if there are more axes than numbers in a feature, or the encoder is unusable.
        """
        encoding = image_encoding(self.network, self.weights, self.sha256, self.layer, read_shape(self.image))
        if self.axes is not None and self.axes > encoding.dim:
            raise OptionError(f"axes={self.axes}: a feature has {encoding.dim} numbers only; ask for as many at most.")
        return encoding

    def directions(self, schema: Schema) -> Axes | None:
        """Returns the axes of a full covariance, public; None for a diagonal one. Reads the public images, if any.

        Raises:
            UserError: if the public images cannot be used, or there are more axes than numbers in a feature.
        """
        from noisegate.features.compression import axes_digest, random_axes

        if self.axes is None:
            return None
        if self.public is not None:
            return _principal(self, schema)
        values = random_axes(self.encoding().dim, self.axes, seed=self.seed)
        return Axes(values=values, told={"from": "random directions", "sha256": axes_digest(values)})

    def maps(self, axes: Axes | None) -> tuple[SharingMap, SharingMap]:
        """Returns the maps of the mean and of the second moment, which share what the network gives."""
        from noisegate.features.compression import Compression
        from noisegate.features.outer import OuterProducts
        from noisegate.features.squares import Squares

        encoding = self.encoding()
        if axes is None:
            return encoding, Squares(of=encoding)
        compressed = Compression(of=encoding, axes=axes.values)
        return compressed, OuterProducts(of=compressed)


# The public images are encoded once, and not for the check, the question and the fit anew.
@lru_cache(maxsize=1)
def _principal(features: MomentFeatures, schema: Schema) -> Axes:
    from noisegate.features.compression import axes_digest, principal_axes
    from noisegate.methods.public_reference import features_of, read_reference

    assert features.axes is not None
    most, seed = features.public_records, features.seed
    reference = read_reference(features.public, schema, most=most, labelled=False, seed=seed)
    values = principal_axes(features_of(reference.records, features.encoding()), features.axes)
    told = {"from": "principal axes of public images", "public": reference.to_json()}
    return Axes(values=values, told={**told, "sha256": axes_digest(values)})
