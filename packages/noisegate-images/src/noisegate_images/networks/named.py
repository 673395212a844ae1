"""Frozen networks by name, with weights that lie on disk and are never downloaded, and what their layers give.

Nothing is ever downloaded: who can see the network traffic of a private run would learn
of it, and weights that change between two runs would change what was released.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.errors import ModelError, OptionError, require
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks import strokes
from noisegate_images.networks.encoder import (
    LAYERS,
    SHIPPED_SHA256,
    check_digest,
    file_digest,
    load_encoder,
)

if TYPE_CHECKING:
    from jaxtyping import Float

ENCODER, STROKES = "encoder", "strokes"
Channels = tuple[float, float, float]
IMAGENET: tuple[Channels, Channels] = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SHORTCUT = (
    "downsample"  # what torchvision and timm call the part that leads past a block
)
_SHORT_DIGEST = (
    8  # hexadecimal digits of SHA-256 at the end of torchvision's file names
)


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenNetwork:
    """A public network with its weights."""

    module: nn.Module  # in evaluation mode, in float32 on the CPU; takes colour images
    layers: tuple[str, ...]  # modules that are taken where none are asked for
    nonnegative: frozenset[str]  # those of its modules that give no negative number
    mean: Channels  # what is taken off the intensities of each channel before
    std: Channels  # what they are then divided by
    sha256: str  # of the file of its weights


@lru_cache(maxsize=2)
def load_network(
    name: str, weights: str | None = None, sha256: str | None = None
) -> FrozenNetwork:
    """Returns the network called `name`; the same object for the same arguments.

    Names are "encoder", or "strokes", of drawings; "torchvision:NAME" or "timm:NAME"; "inception:v3", the last pooling
    layer of the network of Fréchet distances; or "hed:vgg16", of `noisegate pretrain import hed`. `weights` is a file
    of its weights, for torchvision and timm a state dict as .pth or .safetensors, which needs `sha256`, its digest.
    Without one they are the encoder's from the package, or torchvision's default weights, if they lie where torch
    keeps downloads.
    """
    source, _, model = name.partition(":")
    if name in _PACKAGED:
        return _packaged(name, None if weights is None else Path(weights), sha256)
    if not model or source not in _SOURCES:
        given = "give 'encoder', 'strokes', 'torchvision:NAME' or 'timm:NAME', as in 'torchvision:vgg19'"
        raise OptionError(f"network={name!r} is not known; {given}.")
    module, _, function = _SOURCES[source].partition(":")
    network: FrozenNetwork = getattr(import_module(module), function)(
        model, weights, sha256
    )
    return network


def _packaged(network: str, path: Path | None, sha256: str | None) -> FrozenNetwork:
    load, shipped, layers, nonnegative = _PACKAGED[network]
    if path is None and sha256 not in (None, shipped):
        says = f"network={network!r} with sha256={sha256!r}: the {network} of this version is another one ({shipped})"
        raise ModelError(
            f"{says}; install the version that was used, or give the file with weights=."
        )
    whole: dict[str, Any] = {
        "layers": layers,
        "nonnegative": nonnegative,
        "mean": (0.0,) * 3,
        "std": (1.0,) * 3,
    }
    whole["sha256"] = shipped if path is None else _check_digest(path, sha256)
    return FrozenNetwork(module=load(path, sha256=sha256), **whole)


_PACKAGED: dict[
    str, tuple[Callable[..., nn.Module], str, tuple[str, ...], frozenset[str]]
] = {
    ENCODER: (load_encoder, SHIPPED_SHA256, LAYERS, frozenset(LAYERS)),
    STROKES: (
        strokes.load_strokes,
        strokes.SHIPPED_SHA256,
        (strokes.LAYER,),
        frozenset(),
    ),
}
"""How each network of this package is read, the digest of its weights, its layers, and those never negative."""


def _torchvision(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    require("torchvision", "network='torchvision:…'")
    from torchvision import models

    if model not in models.list_models(module=models):
        raise OptionError(
            f"network='torchvision:{model}': torchvision has no such model for classifying images."
        )
    path = (
        _downloaded(model, models.get_model_weights(model).DEFAULT.url)
        if weights is None
        else Path(weights)
    )
    found = (
        _check_short_digest(path)
        if weights is None and sha256 is None
        else _check_digest(path, sha256)
    )
    # These two would otherwise be built without the part that their weights have.
    whole = (
        {"aux_logits": True, "init_weights": False}
        if model in ("googlenet", "inception_v3")
        else {}
    )
    # A network that was trained on other labels has another head, which is not examined.
    classes = {} if weights is None else _classes_of(path)
    with seeded(0):
        module = models.get_model(model, weights=None, **whole, **classes)
    return loaded(module, path, found, *IMAGENET)


def _classes_of(path: Path) -> dict[str, int]:
    """Returns how many labels a network with a last layer "fc" tells apart; nothing for others and broken files."""
    try:
        head = load_state(path).get("fc.weight")
    except (
        Exception
    ):  # what is wrong with the file is said when it is read into the network
        return {}
    return {} if head is None else {"num_classes": len(head)}


def _timm(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    require("timm", "network='timm:…'")
    import timm

    if not timm.is_model(model):
        raise OptionError(f"network='timm:{model}': timm has no such model.")
    if weights is None:
        cure = "download the weights yourself, and look at what you got; nothing is downloaded here."
        raise OptionError(
            f"network='timm:{model}' needs weights=FILE and sha256=DIGEST: {cure}"
        )
    found = _check_digest(Path(weights), sha256)
    with seeded(0):
        module = timm.create_model(model, pretrained=False)
    public: dict[str, Any] = getattr(module, "pretrained_cfg")  # noqa: B009 - a module says it is a tensor
    return loaded(
        module, Path(weights), found, tuple(public["mean"]), tuple(public["std"])
    )


# By name, so that nothing of other libraries is imported before it is needed.
_SOURCES = {
    "torchvision": f"{__name__}:_torchvision",
    "timm": f"{__name__}:_timm",
    "inception": "noisegate_evaluate.inception:load_inception",
    "hed": "noisegate_papers.contrib.hed:load_hed",
}


def loaded(
    module: nn.Module, path: Path, sha256: str, mean: Any, std: Any
) -> FrozenNetwork:
    """Returns a network with the weights in a file, whose layers are its convolutions."""
    try:
        # Assigned and not copied: the large ones are in memory once.
        module.load_state_dict(load_state(path), assign=True)
    except (
        Exception
    ) as error:  # torch raises whatever it likes for a file that is no state dict
        raise ModelError(
            f"weights={str(path)!r} do not fit the network: {str(error).splitlines()[0]}"
        ) from None
    layers, module = feature_convolutions(module), module.requires_grad_(False).eval()
    return FrozenNetwork(
        module=module,
        layers=layers,
        nonnegative=frozenset(),
        mean=mean,
        std=std,
        sha256=sha256,
    )


def feature_convolutions(module: nn.Module) -> tuple[str, ...]:
    """Returns all convolutions, whose outputs come before their ReLU, but 1 x 1 shortcuts of residual networks."""
    # The layers of DP-MEPF: at 32 x 32 pixels 303,104 numbers of VGG-19, 47,104 of ResNet18 and 196,096 of ResNet50, as
    # in its Table 17, which leaves out the shortcuts alone, and not, as appendix D says, all of 1 x 1.
    found = (
        (name, part)
        for name, part in module.named_modules()
        if isinstance(part, nn.Conv2d)
    )
    return tuple(
        name
        for name, part in found
        if max(part.kernel_size) > 1 or _SHORTCUT not in name.split(".")
    )


def load_state(path: Path) -> dict[str, torch.Tensor]:
    """Returns the state dict in a .pth or .safetensors file."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    state: dict[str, torch.Tensor] = torch.load(
        path, map_location="cpu", weights_only=True
    )
    return state


def _downloaded(model: str, url: str) -> Path:
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlsplit(url).path).name
    if not path.is_file():
        note = f"Put {path.name} from {url} at {path}, or give weights=FILE and sha256=DIGEST."
        raise OptionError(
            f"network='torchvision:{model}' has no weights here, and nothing is downloaded. {note}"
        )
    return path


def _check_digest(path: Path, sha256: str | None) -> str:
    what = f"weights={str(path)!r}"
    return check_digest(file_digest(path, what), sha256, what)


def _check_short_digest(path: Path) -> str:
    found, named = (
        file_digest(path, f"weights={str(path)!r}"),
        path.stem.rpartition("-")[2],
    )
    if len(named) != _SHORT_DIGEST or not found.startswith(named):
        raise ModelError(
            f"weights={str(path)!r}: SHA-256 {found} is not the one in its name; get the file again."
        )
    return found


Take: TypeAlias = Callable[[int, Tensor], None]
"""Called with the place of a layer and its activations, (rows, numbers), as soon as they are there."""


class ChosenLayers(nn.Module):
    """The chosen `layers` of a network, by name: what each gives at its first call in a forward pass is taken.

    The network takes (rows, 3, height, width) in [0, 1], less `mean` and divided by `std`, of each channel; it is not
    changed, and its parameters and buffers are shared and not copied. With `pool` only the mean over height and width
    of each channel is taken. Grey images are given as three equal channels. An OptionError if there is no such layer,
    or the network cannot take such images.
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
            raise OptionError(
                f"images of {shape}: a network of perceptual features sees 1 or 3 channels."
            )
        self.shape, self.layers, self.pool = shape, tuple(layers), pool
        self._source = (network,)  # in a tuple, or it would be a part of this module
        # The same memory in new parameters: moving a copy to another device must not move the others.
        memory: dict[int, object] = {
            id(value): nn.Parameter(value.detach(), False)
            for value in network.parameters()
        }
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
        """How another process makes it: again, from the network without hooks."""
        mean, std = self.mean.flatten().tolist(), self.std.flatten().tolist()
        return partial(ChosenLayers, mean=mean, std=std, pool=self.pool), (
            self._source[0],
            self.layers,
            self.shape,
        )

    def each(self, rows: Float[Tensor, "rows pixels"], take: Take) -> None:
        """Runs the network on intensities in `pixel_schema`'s order as far as its last chosen layer."""
        # `take` is called in the order in which the network computes layers, which may be overwritten later.
        shape, dtype = self.shape, self.mean.dtype
        images = (
            rows.to(dtype)
            .reshape(-1, shape.height, shape.width, shape.channels)
            .permute(0, 3, 1, 2)
        )
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
            raise OptionError(
                f"layers={sorted(absent)!r} of the network are not used for an image; choose others."
            )

    def forward(self, rows: Float[Tensor, "rows pixels"]) -> Float[Tensor, "rows dim"]:
        """Returns the activations of all layers beside each other, float32 (rows, dim)."""
        parts: dict[int, Tensor] = {}
        # Copied, since a network may continue in place.
        self.each(
            rows,
            lambda place, values: parts.update(
                {place: values.to(torch.float32, copy=True)}
            ),
        )
        return torch.cat([parts[place] for place in range(len(self.layers))], dim=1)

    def train(self, mode: bool = True) -> ChosenLayers:
        """Stays in evaluation mode: normalising over a batch would mix its rows."""
        return super().train(False)

    def _hook(self) -> None:
        modules = dict(self.network.named_modules())
        unknown = sorted(set(self.layers) - set(modules))
        if unknown or not self.layers or len(set(self.layers)) < len(self.layers):
            known = [name for name in modules if name]
            some = f"{', '.join(known[:40])}{', …' if len(known) > 40 else ''}"
            wrong = f"layers={unknown or list(self.layers)!r}"
            raise OptionError(
                f"{wrong}: choose different modules of the network, of {some}."
            )
        for module in modules.values():
            if getattr(
                module, "inplace", False
            ):  # as ReLU in VGG, which would overwrite what was taken
                module.inplace = False
        for place, name in enumerate(self.layers):
            modules[name].register_forward_hook(partial(self._taken, place))

    def _taken(
        self,
        place: int,
        module: nn.Module,
        inputs: Any,
        output: Float[Tensor, "rows ..."],
    ) -> None:
        take = getattr(self._call, "take", None)
        if take is None or place not in self._call.left:
            return
        self._call.left.remove(place)
        if output.ndim == 4:
            # Channels side by side, as they are in memory: any other order would cost a copy.
            output = (
                output.mean(dim=(2, 3)) if self.pool else output.permute(0, 2, 3, 1)
            )
        take(place, output.flatten(1))
        if not self._call.left:
            raise _Done

    def _measured(self) -> tuple[int, ...]:
        sizes: dict[int, int] = {}
        try:
            with torch.no_grad():
                black = torch.zeros(1, self.shape.size)
                self.each(
                    black, lambda place, values: sizes.update({place: values.shape[1]})
                )
        except RuntimeError as error:
            found = str(error).splitlines()[0]
            raise OptionError(
                f"images of {self.shape} cannot be given to this network: {found}."
            ) from None
        return tuple(sizes[place] for place in range(len(self.layers)))


class _Done(Exception):  # noqa: N818 - no error: it ends a forward pass that has given all that was asked for
    pass
