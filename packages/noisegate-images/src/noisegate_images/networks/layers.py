"""What chosen layers of a frozen network give for images that are rows of intensities; torch, and differentiable.

Private records pass here on their way to the gate (`noisegate_images.features.perceptual`), and generated ones on their
way to a generator's loss (its `of_points`): both are the same function.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from jaxtyping import Float

Take: TypeAlias = Callable[[int, Tensor], None]
"""Called with the place of a layer and its activations, (rows, numbers), as soon as they are there."""


class ChosenLayers(nn.Module):
    """The chosen layers of a network.

    Args:
        network: Takes (rows, 3, height, width) in [0, 1], less `mean` and divided by `std`; not changed. Its parameters
            and buffers are shared and not copied.
        layers: Names of modules of the network; what each gives at its first call in a forward pass is taken.
        shape: Of the images; grey ones are given to the network as three equal channels.
        mean: Of each channel.
        std: Of each channel.
        pool: Take the mean over height and width of each channel only.

    Raises:
        OptionError: if there is no such layer, or the network cannot take such images.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[str],
        shape: ImageShape,
        *,
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        pool: bool = False,
    ) -> None:
        super().__init__()
        if shape.channels not in (1, 3):
            raise OptionError(f"images of {shape}: a network of perceptual features sees 1 or 3 channels.")
        self.shape, self.layers, self.pool = shape, tuple(layers), pool
        self._source = (network,)  # in a tuple, or it would be a part of this module
        # The same memory in new parameters: moving a copy to another device must not move the others.
        memory: dict[int, object] = {id(value): nn.Parameter(value.detach(), False) for value in network.parameters()}
        self.network = copy.deepcopy(network, memory).requires_grad_(False).eval()
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None])
        self._call = threading.local()  # the gate calls from several threads
        self._hook()
        self.sizes = self._measured()

    @property
    def dim(self) -> int:
        """Numbers of all layers together, for one image."""
        return sum(self.sizes)

    def copied(self) -> ChosenLayers:
        """Returns another one like this, which may be moved to another device; the memory of weights is shared."""
        make, given = self.__reduce__()
        return make(*given)

    def __reduce__(self) -> tuple[Callable[..., ChosenLayers], tuple[Any, ...]]:
        """How another process makes it: anew, from the network without hooks."""
        mean, std = self.mean.flatten().tolist(), self.std.flatten().tolist()
        return partial(ChosenLayers, mean=mean, std=std, pool=self.pool), (self._source[0], self.layers, self.shape)

    def each(self, rows: Float[Tensor, "rows pixels"], take: Take) -> None:
        """Runs the network on intensities, (rows, pixels) in `pixel_schema`'s order, as far as its last chosen layer.

        `take` is called in the order in which the network computes layers, which may be overwritten later.
        """
        shape, dtype = self.shape, self.mean.dtype
        images = rows.to(dtype).reshape(-1, shape.height, shape.width, shape.channels).permute(0, 3, 1, 2)
        images = (images.expand(-1, 3, -1, -1) - self.mean) / self.std
        self._call.take, self._call.left = take, set(range(len(self.layers)))
        try:
            self.network(images.contiguous(memory_format=torch.channels_last))
        except _Done:
            pass
        finally:
            self._call.take = None
        if self._call.left:
            absent = [self.layers[place] for place in self._call.left]
            raise OptionError(f"layers={sorted(absent)!r} of the network are not used for an image; choose others.")

    def forward(self, rows: Float[Tensor, "rows pixels"]) -> Float[Tensor, "rows dim"]:
        """Returns the activations of all layers beside each other, float32 (rows, dim)."""
        parts: dict[int, Tensor] = {}
        # Copied, since a network may go on in place.
        self.each(rows, lambda place, values: parts.update({place: values.to(torch.float32, copy=True)}))
        return torch.cat([parts[place] for place in range(len(self.layers))], dim=1)

    def train(self, mode: bool = True) -> ChosenLayers:
        """Stays in evaluation mode: normalising over a batch would mix its rows."""
        return super().train(False)

    def _hook(self) -> None:
        modules = dict(self.network.named_modules())
        unknown = sorted(set(self.layers) - set(modules))
        if unknown or not self.layers or len(set(self.layers)) < len(self.layers):
            known = [name for name in modules if name]
            raise OptionError(
                f"layers={unknown or list(self.layers)!r}: choose different modules of the network, of "
                f"{', '.join(known[:40])}{', …' if len(known) > 40 else ''}."
            )
        for module in modules.values():
            if getattr(module, "inplace", False):  # as ReLU in VGG, which would overwrite what was taken
                module.inplace = False
        for place, name in enumerate(self.layers):
            modules[name].register_forward_hook(self._taker(place))

    def _taker(self, place: int) -> Callable[[nn.Module, Any, Tensor], None]:
        def taken(module: nn.Module, inputs: Any, output: Float[Tensor, "rows ..."]) -> None:
            take = getattr(self._call, "take", None)
            if take is None or place not in self._call.left:
                return
            self._call.left.remove(place)
            if output.ndim == 4:
                # Channels side by side, as they are in memory: any other order would cost a copy.
                output = output.mean(dim=(2, 3)) if self.pool else output.permute(0, 2, 3, 1)
            take(place, output.flatten(1))
            if not self._call.left:
                raise _Done

        return taken

    def _measured(self) -> tuple[int, ...]:
        """Returns how many numbers each layer gives for an image."""
        sizes: dict[int, int] = {}
        try:
            with torch.no_grad():
                black = torch.zeros(1, self.shape.size)
                self.each(black, lambda place, values: sizes.update({place: values.shape[1]}))
        except RuntimeError as error:
            raise OptionError(
                f"images of {self.shape} cannot be given to this network: {str(error).splitlines()[0]}."
            ) from None
        return tuple(sizes[place] for place in range(len(self.layers)))


class _Done(Exception):  # noqa: N818 - no error: it ends a forward pass that has given all that was asked for
    pass
