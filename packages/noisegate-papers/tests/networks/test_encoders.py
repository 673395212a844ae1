"""The encoders of pictures and of drawings, and the decoder of drawings: sizes, files, and what those shipped know."""

import io
from importlib import resources

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch import nn

from noisegate.errors import ModelError
from noisegate_images.networks import encoder, strokes
from noisegate_images.networks.encoder import (
    LAYERS,
    WIDTH,
    build_encoder,
    classify,
    folded,
    load_encoder,
    load_head,
    save_encoder,
)
from noisegate_images.networks.named import load_network
from noisegate_images.networks.strokes import StrokeEncoder, folded_strokes, load_strokes, stroke_bytes
from noisegate_papers.contrib.pretraining.strokes import draw_signs


def trained(network):
    """Batch normalisation is no longer what it starts as."""
    torch.manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for value in (module.running_mean, module.running_var, module.weight.data, module.bias.data):
                value.uniform_(0.5, 1.5)
    return network.eval()


@pytest.mark.parametrize(
    ("network", "channels", "fold"),
    [(build_encoder(seed=3), 3, folded), (StrokeEncoder(trained=True), 1, folded_strokes)],
)
def test_folding_changes_nothing_but_the_normalisation(network, channels, fold):
    network, images = trained(network), torch.rand(3, channels, 28, 28)
    simple = fold(network)
    torch.testing.assert_close(simple(images), network(images), rtol=1e-4, atol=1e-4)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in simple.modules())
    assert not any(value.requires_grad for value in simple.parameters())


@pytest.mark.parametrize(
    ("module", "name", "load", "most"),
    [
        (encoder, "SHIPPED", load_encoder, 3_000_000),
        (strokes, "SHIPPED", load_strokes, 600_000),
        (strokes, "DRAWING", strokes.load_drawing, 600_000),
    ],
)
def test_the_one_in_the_package_is_the_one_that_is_pinned(module, name, load, most, monkeypatch):
    file, pinned = getattr(module, name), getattr(module, f"{name}_SHA256")
    assert len(resources.files("noisegate_images.networks").joinpath(file).read_bytes()) < most
    load()
    monkeypatch.setattr(module, f"{name}_SHA256", pinned[::-1])
    with pytest.raises(ModelError, match="SHA-256"):
        load()


@pytest.mark.parametrize(
    ("side", "left"), [(8, 1), (28, 3), (32, 4), (48, 6), (64, 4), (96, 4), (100, 4), (224, 4), (256, 4)]
)
def test_any_size_is_taken_and_large_ones_are_averaged(side, left):
    simple = folded(build_encoder(seed=0))
    assert all(hasattr(simple, name) for name in LAYERS)
    assert simple(torch.rand(2, 1, side, side)).shape == (2, WIDTH, left, left)


def test_a_file_gives_the_encoder_back(tmp_path):
    simple, head = folded(trained(build_encoder(seed=3))), nn.Linear(WIDTH, 5)
    digest = save_encoder(simple, head, tmp_path / "e.safetensors")
    again = load_encoder(tmp_path / "e.safetensors", sha256=digest)
    assert (tmp_path / "e.safetensors").stat().st_size < 3_000_000
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(again(images), simple(images), rtol=0.02, atol=0.02)  # it is kept in float16
    assert classify(again, load_head(tmp_path / "e.safetensors"), images).shape == (2, 5)
    assert save_encoder(simple, head, tmp_path / "again.safetensors") == digest


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "e.safetensors"
    with pytest.raises(ModelError, match="cannot be read"):
        load_encoder(path)
    save_encoder(folded(build_encoder(seed=0)), nn.Linear(WIDTH, 2), path)
    with pytest.raises(ModelError, match=r"SHA-256 .* is not 00"):
        load_encoder(path, sha256="00")
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="no safetensors file"):
        load_encoder(path)


@pytest.mark.data
@pytest.mark.parametrize("grey", [False, True])
def test_the_one_in_the_package_tells_cifar_apart(data_dir, grey):
    table = pq.read_table(data_dir / "cifar10" / "test.parquet").slice(0, 500)
    pictures = [
        Image.open(io.BytesIO(cell["bytes"])).convert("L" if grey else "RGB") for cell in table["image"].to_pylist()
    ]
    pixels = torch.from_numpy(np.stack([np.asarray(picture.convert("RGB")) for picture in pictures]))
    logits = classify(load_encoder(), load_head(), pixels.permute(0, 3, 1, 2) / 255)
    accuracy = float((logits.argmax(dim=1).numpy() == np.asarray(table["label"])).mean())
    # Chance is 0.1; a half of what it came to, so that another training still passes.
    assert accuracy > 0.5


def test_a_generated_image_has_the_vector_of_a_record_and_the_slope_of_a_convolution():
    network, images = load_strokes(), torch.rand(3, 1, 28, 28, requires_grad=True)
    found = network(images)
    torch.testing.assert_close(found, network(images.detach()), rtol=1e-4, atol=1e-4)
    first, *others = network.convolutions
    values = nn.functional.conv2d(images, first.weight, first.bias, stride=2, padding=2)
    expected = network.embedding(nn.Sequential(*others)(values).flatten(1))
    slopes = [torch.autograd.grad(vectors.square().sum(), images)[0] for vectors in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-3)


def test_drawings_of_one_sign_are_alike_and_those_of_others_are_not():
    """Signs that the encoder has never seen: the nearest other drawing is of the same sign."""
    images, signs = draw_signs(60, 3, seed=987)
    pictures = torch.from_numpy(images).float().div(255).reshape(-1, 1, 28, 28)
    vectors = nn.functional.normalize(load_strokes()(pictures), dim=1)
    found = {}
    for name, rows in {"encoded": vectors, "pixels": nn.functional.normalize(pictures.flatten(1), dim=1)}.items():
        alike = rows @ rows.T - 9 * torch.eye(len(rows))
        found[name] = float((torch.from_numpy(signs)[alike.argmax(dim=1)] == torch.from_numpy(signs)).float().mean())
    assert found["encoded"] > max(0.5, found["pixels"] + 0.2), found


def test_a_file_gives_the_encoder_back_and_another_is_refused(tmp_path):
    path, simple, image = (
        tmp_path / "s.safetensors",
        folded_strokes(trained(StrokeEncoder(trained=True))),
        torch.rand(2, 1, 28, 28),
    )
    path.write_bytes(stroke_bytes(simple))
    torch.testing.assert_close(load_strokes(path)(image), simple(image), rtol=1e-2, atol=1e-2)
    with pytest.raises(ModelError, match=r"SHA-256 .* is not 00"):
        load_strokes(path, sha256="00")
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="no encoder of strokes"):
        load_strokes(path)
    with pytest.raises(ModelError, match="the strokes of this version is another one"):
        load_network("strokes", None, "00")


def test_the_decoder_in_the_package_draws_and_a_fresh_one_does_not():
    """A drawing is dark but for a stroke, which is light; a fresh network gives grey."""
    fresh, known, noise = strokes.DrawingDecoder(), strokes.DrawingDecoder(), torch.randn(64, strokes.LATENT)
    known.load_state_dict(strokes.load_drawing())
    light = {
        name: float((network(noise).detach().sigmoid() > 0.8).float().mean())
        for name, network in (("f", fresh), ("k", known))
    }
    dark = float((known(noise).detach().sigmoid() < 0.05).float().mean())
    assert light["f"] < 0.01 < 0.03 < light["k"] < 0.4
    assert dark > 0.5
