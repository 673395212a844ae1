"""Frozen networks by name: the encoder of the package, or one of torchvision or timm with weights that lie on disk.

Nothing is ever downloaded: who can see the network traffic of a private run would learn of it, and weights that change
between two runs would change what was released.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import nn

from noisegate.errors import MissingExtraError, ModelError, OptionError
from noisegate.networks.encoder import LAYERS, SHIPPED_SHA256, load_encoder
from noisegate.networks.weights import seeded

ENCODER = "encoder"
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_PLAIN = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
_SHORT_DIGEST = 8  # hexadecimal digits of SHA-256 at the end of torchvision's file names


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenNetwork:
    """A public network with its weights.

    Attributes:
        module: In evaluation mode, in float32 on the CPU; takes colour images.
        layers: Modules that are taken where none are asked for.
        nonnegative: Those of its modules that give no negative number.
        mean: What is taken off the intensities of each channel before.
        std: What they are then divided by.
        sha256: Of the file of its weights.
    """

    module: nn.Module
    layers: tuple[str, ...]
    nonnegative: frozenset[str]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    sha256: str


@lru_cache(maxsize=2)
def load_network(name: str, weights: str | None = None, sha256: str | None = None) -> FrozenNetwork:
    """Returns the network called `name`; the same object for the same arguments.

    Args:
        name: "encoder", "torchvision:NAME" or "timm:NAME"; "clip:FOLDER", the image encoder of a pipeline of diffusers;
            or "ic-gan:resnet50".
        weights: File of its weights, for torchvision and timm a state dict as .pth or .safetensors. Without one: the
            encoder's from the package; torchvision's default weights, if they lie where torch keeps downloads.
        sha256: What the file must hash to. Required with `weights`, and for a folder.

    Raises:
        OptionError: if there is no such network, or something is missing; it says what, and where to put it.
        ModelError: if the file is another one, or does not fit the network.
        MissingExtraError: if torchvision or timm is not installed.
    """
    source, _, model = name.partition(":")
    if name == ENCODER:
        return _encoder(weights, sha256)
    if not model or source not in _SOURCES:
        raise OptionError(
            f"network={name!r} is not known; give 'encoder', 'torchvision:NAME' or 'timm:NAME', as in "
            "'torchvision:vgg19'."
        )
    return _SOURCES[source](model, weights, sha256)


def _encoder(weights: str | None, sha256: str | None) -> FrozenNetwork:
    path = None if weights is None else Path(weights)
    if path is not None:
        _check_digest(path, sha256)
    elif sha256 not in (None, SHIPPED_SHA256):
        raise ModelError(
            f"network='encoder' with sha256={sha256!r}: the encoder of this version is another one "
            f"({SHIPPED_SHA256}); install the version that was used, or give the file with weights=."
        )
    mean, std = _PLAIN
    return FrozenNetwork(
        module=load_encoder(path, sha256=sha256),
        layers=LAYERS,
        nonnegative=frozenset(LAYERS),
        mean=mean,
        std=std,
        sha256=sha256 or SHIPPED_SHA256,
    )


def _torchvision(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    try:
        from torchvision import models
    except ImportError:
        raise _missing("torchvision") from None
    if model not in models.list_models(module=models):
        raise OptionError(f"network='torchvision:{model}': torchvision has no such model for classifying images.")
    path = _downloaded(model, models.get_model_weights(model).DEFAULT.url) if weights is None else Path(weights)
    found = _check_short_digest(path) if weights is None and sha256 is None else _check_digest(path, sha256)
    with seeded(0):
        module = models.get_model(model, weights=None, **_whole(model))
    mean, std = _IMAGENET
    return _loaded(module, path, found, mean, std)


def _timm(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    try:
        import timm
    except ImportError:
        raise _missing("timm") from None
    if not timm.is_model(model):
        raise OptionError(f"network='timm:{model}': timm has no such model.")
    if weights is None:
        raise OptionError(
            f"network='timm:{model}' needs weights=FILE and sha256=DIGEST: download the weights yourself, and look at "
            "what you got; nothing is downloaded here."
        )
    found = _check_digest(Path(weights), sha256)
    with seeded(0):
        module = timm.create_model(model, pretrained=False)
    public: dict[str, Any] = getattr(module, "pretrained_cfg")  # noqa: B009 - a module says it is a tensor
    return _loaded(module, Path(weights), found, tuple(public["mean"]), tuple(public["std"]))


def _clip(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    from noisegate.networks.clip import LAYER, load_clip

    if weights is not None:
        raise OptionError(
            f"weights={weights!r}: network='clip:FOLDER' is read from the folder of a pipeline; leave it out."
        )
    found = load_clip(Path(model))
    if found.sha256 != sha256:
        raise (OptionError if sha256 is None else ModelError)(
            f"network='clip:{model}' with sha256={sha256!r}: that of the image encoder in this folder is "
            f"{found.sha256}; give it, so that a certificate says which one it was."
        )
    return _public(found.module, LAYER, sha256, found.mean, found.std)


def _icgan(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    from noisegate.networks.resnet_feature import LAYER, resnet_feature

    if model != "resnet50" or weights is None:
        raise OptionError(
            f"network='ic-gan:{model}': the encoder of IC-GAN is 'ic-gan:resnet50', with weights=FILE and "
            "sha256=DIGEST."
        )
    found = _check_digest(Path(weights), sha256)
    try:
        module = resnet_feature(_state(Path(weights)))
    except ImportError:
        raise _missing("torchvision") from None
    except Exception as error:  # torch raises whatever it likes for a file that is no state dict
        raise ModelError(f"weights={weights!r} do not fit a ResNet-50: {str(error).splitlines()[0]}") from None
    return _public(module, LAYER, found, *_IMAGENET)


def _public(module: nn.Module, layer: str, sha256: str, mean: Any, std: Any) -> FrozenNetwork:
    return FrozenNetwork(module=module, layers=(layer,), nonnegative=frozenset(), mean=mean, std=std, sha256=sha256)


_SOURCES: dict[str, Callable[[str, str | None, str | None], FrozenNetwork]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "clip": _clip,
    "ic-gan": _icgan,
}


def _whole(model: str) -> dict[str, Any]:
    # These two would otherwise be built without the part that their weights have.
    return {"aux_logits": True, "init_weights": False} if model in ("googlenet", "inception_v3") else {}


def _loaded(module: nn.Module, path: Path, sha256: str, mean: Any, std: Any) -> FrozenNetwork:
    try:
        # Assigned and not copied: the large ones are in memory once.
        module.load_state_dict(_state(path), assign=True)
    except Exception as error:  # torch raises whatever it likes for a file that is no state dict
        raise ModelError(f"weights={str(path)!r} do not fit the network: {str(error).splitlines()[0]}") from None
    return FrozenNetwork(
        module=module.requires_grad_(False).eval(),
        # "All convolutions before their ReLU": for VGG-19 the paper's 16 layers.
        layers=tuple(name for name, part in module.named_modules() if isinstance(part, nn.Conv2d)),
        nonnegative=frozenset(),
        mean=mean,
        std=std,
        sha256=sha256,
    )


def _state(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    state: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _downloaded(model: str, url: str) -> Path:
    """Returns where torch keeps what others have downloaded."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlsplit(url).path).name
    if not path.is_file():
        raise OptionError(
            f"network='torchvision:{model}' has no weights here, and nothing is downloaded. Put {path.name} from "
            f"{url} at {path}, or give weights=FILE and sha256=DIGEST."
        )
    return path


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"weights={str(path)!r} cannot be read: {error.strerror}.") from None


def _check_digest(path: Path, sha256: str | None) -> str:
    found = _digest(path)
    if sha256 is None:
        raise OptionError(
            f"weights={str(path)!r} need sha256=DIGEST, so that a certificate says which ones they were; those of this "
            f"file are {found}."
        )
    if found != sha256:
        raise ModelError(
            f"weights={str(path)!r}: SHA-256 {found} is not {sha256}, the one that was given; take the file that it "
            "belongs to, or correct the digest."
        )
    return found


def _check_short_digest(path: Path) -> str:
    """Checks a file of torchvision against the digest in its name."""
    found, named = _digest(path), path.stem.rpartition("-")[2]
    if len(named) != _SHORT_DIGEST or not found.startswith(named):
        raise ModelError(f"weights={str(path)!r}: SHA-256 {found} is not the one in its name; get the file again.")
    return found


def _missing(package: str) -> MissingExtraError:
    return MissingExtraError(f"network='{package}:…' needs {package}; install it with: pip install 'noisegate[vision]'")
