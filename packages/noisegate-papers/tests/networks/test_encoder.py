"""The encoder: folding, sizes, files, and how well the one in the package tells CIFAR-10 apart."""

import io
from importlib import resources

import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from PIL import Image
from tests.shared.encoder_head import load_head
from torch import nn

from noisegate.errors import ModelError
from noisegate_images.networks import encoder, strokes
from noisegate_images.networks.encoder import halved
from noisegate_images.networks.named import load_network
from noisegate_images.networks.strokes import load_strokes


def trained():
    """An encoder whose batch normalisation is not what it starts as."""
    network = encoder.build_encoder(seed=3)
    for name, value in network.state_dict().items():
        if "norm" in name and value.dtype == torch.float32:
            value.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(len(name)))
    return network.eval()


def test_folding_changes_nothing_but_the_normalisation():
    network = trained()
    simple, images = encoder.folded(network), torch.rand(3, 3, 28, 28)
    torch.testing.assert_close(simple(images), network(images), rtol=1e-4, atol=1e-4)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in simple.modules())
    assert not any(value.requires_grad for value in simple.parameters())


@pytest.mark.parametrize(
    ("side", "left"),
    [(8, 1), (28, 3), (32, 4), (48, 6), (64, 4), (96, 4), (100, 4), (224, 4), (256, 4)],
)
def test_any_size_is_taken_and_large_ones_are_averaged(side, left):
    simple = encoder.folded(encoder.build_encoder(seed=0))
    assert simple(torch.rand(2, 1, side, side)).shape == (2, encoder.WIDTH, left, left)


def test_a_file_gives_the_encoder_back(tmp_path):
    simple, head = encoder.folded(trained()), nn.Linear(encoder.WIDTH, 5)
    digest = encoder.save_encoder(simple, head, tmp_path / "e.safetensors")
    again = encoder.load_encoder(tmp_path / "e.safetensors", sha256=digest)
    assert (tmp_path / "e.safetensors").stat().st_size < 3_000_000
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(
        again(images), simple(images), rtol=0.02, atol=0.02
    )  # it is kept in float16
    assert encoder.classify(
        again, load_head(tmp_path / "e.safetensors"), images
    ).shape == (2, 5)
    assert encoder.save_encoder(simple, head, tmp_path / "again.safetensors") == digest


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "e.safetensors"
    with pytest.raises(ModelError, match="cannot be read"):
        encoder.load_encoder(path)
    encoder.save_encoder(
        encoder.folded(encoder.build_encoder(seed=0)), nn.Linear(encoder.WIDTH, 2), path
    )
    with pytest.raises(ModelError, match=r"SHA-256 .* is not 00"):
        encoder.load_encoder(path, sha256="00")
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="no safetensors file"):
        encoder.load_encoder(path)


def test_the_one_in_the_package_is_the_one_that_is_pinned(monkeypatch):
    file = resources.files("noisegate_images.networks").joinpath(encoder.SHIPPED)
    assert len(file.read_bytes()) < 3_000_000
    assert [
        name for name in encoder.LAYERS if not hasattr(encoder.load_encoder(), name)
    ] == []
    monkeypatch.setattr(encoder, "SHIPPED_SHA256", encoder.SHIPPED_SHA256[::-1])
    with pytest.raises(ModelError, match="SHA-256"):
        encoder.load_encoder()


@pytest.mark.data
@pytest.mark.parametrize("grey", [False, True])
def test_the_one_in_the_package_tells_cifar_apart(data_dir, grey):
    table = pq.read_table(data_dir / "cifar10" / "test.parquet").slice(0, 500)
    pictures = [
        Image.open(io.BytesIO(cell["bytes"])).convert("L" if grey else "RGB")
        for cell in table["image"].to_pylist()
    ]
    pixels = torch.from_numpy(
        np.stack([np.asarray(picture.convert("RGB")) for picture in pictures])
    )
    logits = encoder.classify(
        encoder.load_encoder(), load_head(), pixels.permute(0, 3, 1, 2) / 255
    )
    accuracy = float(
        (logits.argmax(dim=1).numpy() == np.asarray(table["label"])).mean()
    )
    assert (
        accuracy > 0.5
    )  # chance is 0.1; a half of what it came to, so that another training still passes


# The encoder and the decoder of drawings: sizes, files, and what the ones in the package know.


def test_a_generated_image_has_the_vector_of_a_record_and_the_slope_of_a_convolution():
    encoder, images = load_strokes(), torch.rand(3, 1, 28, 28, requires_grad=True)
    found = encoder(images)
    torch.testing.assert_close(found, encoder(images.detach()), rtol=1e-4, atol=1e-4)
    first, *others = encoder.convolutions
    values = nn.functional.conv2d(images, first.weight, first.bias, stride=2, padding=2)
    expected = encoder.embedding(nn.Sequential(*others)(values).flatten(1))
    slopes = [
        torch.autograd.grad(vectors.square().sum(), images)[0]
        for vectors in (found, expected)
    ]
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-3)


def test_a_file_gives_the_encoder_back_and_another_is_refused(tmp_path):
    path, simple, image = (
        tmp_path / "s.safetensors",
        load_strokes(),
        torch.rand(2, 1, 28, 28),
    )
    path.write_bytes(safetensors.torch.save(halved(simple.state_dict())))
    torch.testing.assert_close(
        load_strokes(path)(image), simple(image), rtol=1e-2, atol=1e-2
    )
    with pytest.raises(ModelError, match=r"SHA-256 .* is not 00"):
        load_strokes(path, sha256="00")
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="no encoder of strokes"):
        load_strokes(path)
    with pytest.raises(ModelError, match="the strokes of this version is another one"):
        load_network("strokes", None, "00")


@pytest.mark.parametrize(
    ("name", "load"), [("SHIPPED", load_strokes), ("DRAWING", strokes.load_drawing)]
)
def test_the_one_in_the_package_is_the_one_that_is_pinned_of_strokes(
    name, load, monkeypatch
):
    file, pinned = getattr(strokes, name), getattr(strokes, f"{name}_SHA256")
    assert (
        len(resources.files("noisegate_images.networks").joinpath(file).read_bytes())
        < 600_000
    )
    load()
    monkeypatch.setattr(strokes, f"{name}_SHA256", pinned[::-1])
    with pytest.raises(ModelError, match="SHA-256"):
        load()


def test_the_decoder_in_the_package_draws_and_a_fresh_one_does_not():
    """A drawing is dark but for a stroke, which is light; a fresh network gives grey."""
    fresh, known, noise = (
        strokes.DrawingDecoder(),
        strokes.DrawingDecoder(),
        torch.randn(64, strokes.LATENT),
    )
    known.load_state_dict(strokes.load_drawing())
    light = {
        name: float((network(noise).detach().sigmoid() > 0.8).float().mean())
        for name, network in (("f", fresh), ("k", known))
    }
    dark = float((known(noise).detach().sigmoid() < 0.05).float().mean())
    assert light["f"] < 0.01 < 0.03 < light["k"] < 0.4
    assert dark > 0.5
