"""Public maps of images, by the few numbers that they are drawn from: so a model can keep them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias
from weakref import WeakValueDictionary

from noisegate.schema.pixels import ImageShape
from noisegate_images.features.fourier import RandomFourier, draw_points
from noisegate_images.features.orientation import Orientations, OrientedFourier
from noisegate_images.features.wavelets import WaveletFourier, Wavelets

if TYPE_CHECKING:
    from noisegate_images.features.perceptual import EncodedFourier

_DRAWN: WeakValueDictionary[tuple[Any, ...], RandomFourier] = WeakValueDictionary()
Seen: TypeAlias = Literal["pixels", "orientations", "wavelets", "strokes"]


@dataclass(frozen=True, kw_only=True)
class ImageMap:
    """Random Fourier features of what is seen in an image.

    Attributes:
        seen: Pixels, gradient orientations, wavelet energies, or what the encoder of drawn signs gives.
        image: Shape of the images.
        count: Random frequencies.
        length_scale: Of the kernel.
        seed: Of the frequencies.
        cell: Of orientations; see `Orientations`.
        directions: Of orientations.
        damping: Of orientations.
        sha256: What the file of the encoder hashes to.
    """

    seen: Seen
    image: ImageShape
    count: int
    length_scale: float
    seed: int
    cell: int = 4
    directions: int = 8
    damping: float | None = None
    sha256: str | None = None

    def feature_map(self) -> RandomFourier | OrientedFourier | WaveletFourier | EncodedFourier:
        """Returns the map; a `UserError` if its encoder is not the one in the package."""
        if self.seen == "pixels":
            return self._fourier(self.image.size)
        if self.seen == "orientations":
            of = Orientations(image=self.image, cell=self.cell, directions=self.directions, damping=self.damping)
            return OrientedFourier(orientations=of, fourier=self._fourier(of.size))
        if self.seen == "wavelets":
            energies = Wavelets(image=self.image)
            return WaveletFourier(wavelets=energies, fourier=self._fourier(energies.size))
        from noisegate_images.features.perceptual import EncodedFourier, Perceptual, chosen_activations
        from noisegate_images.networks.named import STROKES, load_network

        activations = chosen_activations(load_network(STROKES, None, self.sha256), (), self.image, pool=False)
        return EncodedFourier(encoding=Perceptual(activations=activations), fourier=self._fourier(activations.dim))

    def _fourier(self, columns: int) -> RandomFourier:
        """Returns the features; while a plan holds them, so does the model, and they are drawn once."""
        which = columns, self.count, self.length_scale, self.seed
        found = _DRAWN.get(which)
        if found is None:
            count, length_scale, seed = which[1:]
            found = _DRAWN[which] = draw_points(columns, count=count, length_scale=length_scale, seed=seed)
        return found

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Returns what `to_json` gave."""
        return cls(**{**data, "image": ImageShape(**data["image"])})
