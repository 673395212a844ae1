"""The decoder: sizes, files that repeat and are checked, and each image a function of its own feature and noise."""

import hashlib
import io
import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from PIL import Image
from tests.shared.encoder_head import load_head

from noisegate.errors import ModelError, OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks import decoder as decoders
from noisegate_images.networks import encoder as encoders
from noisegate_images.networks.decoder import (
    FORMAT,
    SHIPPED_SHA256,
    DecoderDesign,
    build_decoder,
    decoder_bytes,
    decoder_from,
    decoder_tensors,
    default_channels,
    read_decoder,
)

SHAPE = ImageShape(height=16, width=24, channels=3)
DESIGN = DecoderDesign(
    shape=SHAPE,
    features=5,
    latent=3,
    channels=(8, 6, 4),
    encoder="e" * 64,
    layer="last",
)


def trained(design=DESIGN):
    """A decoder whose normalisation has measured something, and whose last layer is not near zero."""
    network = build_decoder(design, seed=1).train()
    network(torch.randn(8, design.features), torch.randn(8, design.latent))
    return network.requires_grad_(False).eval()


def inputs(rows=4, design=DESIGN):
    random = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(
        torch.randn(rows, design.features, generator=random)
    )
    return features, torch.randn(rows, design.latent, generator=random)


def test_an_image_depends_on_its_own_feature_and_noise_alone():
    network, (features, noise) = trained(), inputs()
    images = network(features, noise)
    assert images.shape == (4, 3, 16, 24)
    assert 0 <= float(images.min()) < float(images.max()) <= 1
    torch.testing.assert_close(network(features[2:3], noise[2:3]), images[2:3])
    for changed in (
        network(features.roll(1, 0), noise),
        network(features, noise.roll(1, 0)),
    ):
        assert float((changed - images).abs().mean()) > 1e-3


def test_a_file_repeats_itself_and_gives_the_decoder_back(tmp_path):
    network = trained()
    content = decoder_bytes(network)
    (tmp_path / "d.safetensors").write_bytes(content)
    again, digest = read_decoder(
        tmp_path / "d.safetensors", sha256=hashlib.sha256(content).hexdigest()
    )
    assert again.design == DESIGN
    assert not any(value.requires_grad for value in again.parameters())
    torch.testing.assert_close(
        again(*inputs()), network(*inputs()), rtol=0.02, atol=0.02
    )  # it is kept in float16
    # What is saved with a model is what is in the file, so that its digest can be checked.
    rebuilt = decoder_from(DESIGN, decoder_tensors(again))
    assert hashlib.sha256(decoder_bytes(rebuilt)).hexdigest() == digest
    assert (
        decoder_bytes(
            decoder_from(replace(DESIGN, layer="late"), decoder_tensors(again))
        )
        != content
    )


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "d.safetensors"
    with pytest.raises(ModelError, match="cannot be read"):
        read_decoder(path)
    path.write_bytes(decoder_bytes(trained()))
    with pytest.raises(ModelError, match=r"SHA-256 .* is not 00"):
        read_decoder(path, sha256="00")
    tensors = decoder_tensors(trained())
    for metadata in (
        None,
        {"decoder": json.dumps({"format": "other"})},
        {"decoder": json.dumps({"format": FORMAT})},
    ):
        path.write_bytes(safetensors.torch.save(tensors, metadata=metadata))
        with pytest.raises(ModelError, match="no file of `noisegate pretrain decoder`"):
            read_decoder(path)
    described = {
        "decoder": json.dumps(
            {"format": FORMAT, **replace(DESIGN, channels=(8, 6, 6)).to_json()}
        )
    }
    path.write_bytes(safetensors.torch.save(tensors, metadata=described))
    with pytest.raises(ModelError, match="size mismatch"):
        read_decoder(path)
    for content in (b"nothing", b""):
        path.write_bytes(content)
        with pytest.raises(ModelError, match="no file of"):
            read_decoder(path)


def test_sizes_that_none_leads_to_are_refused():
    for side in (3, 30, 27, 256):
        with pytest.raises(
            OptionError,
            match=f"images of {side} x {side} x 3: a decoder doubles 4 to 7 pixels",
        ):
            default_channels(ImageShape(height=side, width=side, channels=3))
    with pytest.raises(OptionError, match="must be multiples of 8"):
        replace(
            DESIGN,
            channels=(8, 6, 4, 4),
            shape=ImageShape(height=16, width=20, channels=3),
        )
    with pytest.raises(OptionError, match=r"channels\[1\]=0 of a decoder"):
        replace(DESIGN, channels=(8, 0))


def test_the_one_in_the_package_is_the_one_that_is_pinned_and_belongs_to_the_packages_encoder(
    monkeypatch,
):
    network, digest = read_decoder()
    design = network.design
    assert (digest, design.encoder, design.layer) == (
        SHIPPED_SHA256,
        encoders.SHIPPED_SHA256,
        "last",
    )
    assert (design.shape, design.features) == (
        ImageShape(height=32, width=32, channels=3),
        encoders.WIDTH,
    )
    assert len(decoder_bytes(network)) < 3_000_000
    monkeypatch.setattr(decoders, "SHIPPED_SHA256", SHIPPED_SHA256[::-1])
    with pytest.raises(ModelError, match="SHA-256"):
        read_decoder()


@pytest.mark.data
def test_the_one_in_the_package_draws_what_the_feature_is_of(data_dir):
    """The encoder's own classifier names the class of the image that the feature is of, for most of what is drawn."""
    table = pq.read_table(data_dir / "cifar10" / "test.parquet").slice(0, 500)
    pixels = [
        np.asarray(Image.open(io.BytesIO(cell["bytes"])).convert("RGB"))
        for cell in table["image"].to_pylist()
    ]
    encoder, head, labels = (
        encoders.load_encoder(),
        load_head(),
        np.asarray(table["label"]),
    )
    images = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2) / 255
    features = torch.nn.functional.normalize(encoder(images).mean(dim=(2, 3)))
    noise = torch.randn(500, 32, generator=torch.Generator().manual_seed(0))
    drawn = read_decoder()[0](features, noise)
    accuracy = float(
        (encoders.classify(encoder, head, drawn).argmax(dim=1).numpy() == labels).mean()
    )
    assert (
        accuracy > 0.5
    )  # chance is 0.1; it came to about 0.75, and 0.8 for the images themselves
