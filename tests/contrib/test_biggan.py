"""BigGAN on features: the names of IC-GAN's public code, what its shapes say, and spectral norms.

The numbers were compared once with a transcription of the public code, for 32 to 256 pixels: they are the same.
"""

import pytest
import torch

from noisegate.contrib.biggan import BigGAN, BigGANDesign, SpectralLinear

DESIGN = BigGANDesign(
    widths=((16, 16), (16, 8)),
    attention=frozenset({0}),
    side=4,
    chunk=5,
    hierarchical=True,
    features=12,
    embedded=6,
    classes=(10, 7),
    statistics="plain",
)


def small(**changes):
    torch.manual_seed(0)
    return BigGAN(BigGANDesign(**{**vars(DESIGN), **changes})).requires_grad_(False).eval()


def test_parameters_are_called_as_in_the_public_code():
    spectral = {"weight", "u0", "sv0"}
    block = {f"{part}.{name}" for part in ("conv1", "conv2", "conv_sc") for name in (*spectral, "bias")}
    block |= {f"{norm}.{part}.{name}" for norm in ("bn1", "bn2") for part in ("gain", "bias") for name in spectral}
    block |= {f"{norm}.{name}" for norm in ("bn1", "bn2") for name in ("stored_mean", "stored_var")}
    expected = {"shared.weight", "blocks.0.1.gamma"}
    expected |= {f"blocks.{place}.0.{name}" for place in (0, 1) for name in block}
    expected |= {f"blocks.0.1.{part}.{name}" for part in ("theta", "phi", "g", "o") for name in spectral}
    expected |= {f"{part}.{name}" for part in ("shared_feat", "linear") for name in (*spectral, "bias")}
    expected |= {f"output_layer.0.{name}" for name in ("gain", "bias", "stored_mean", "stored_var")}
    expected |= {f"output_layer.2.{name}" for name in (*spectral, "bias")}
    assert set(small().state_dict()) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hierarchical": False, "attention": frozenset()},
        {"classes": None},
        {"statistics": "module"},
        {"statistics": "own"},
    ],
)
def test_a_checkpoint_says_what_it_is_made_of(changes):
    network = small(**changes)
    assert BigGANDesign.of(network.state_dict()) == network.design
    assert (network.design.resolution, network.design.latent) == (16, 15 if network.design.hierarchical else 5)
    features, noise = torch.randn(3, 12), torch.randn(3, network.design.latent)
    images = network(features, noise)
    assert images.shape == (3, 3, 16, 16)
    assert 0 <= float(images.min()) < float(images.max()) <= 1
    torch.testing.assert_close(network(features[1:2], noise[1:2]), images[1:2])


def test_noise_enters_at_every_block_and_the_feature_everywhere():
    network = small()
    features, noise = torch.randn(1, 12), torch.randn(1, 15)
    images = network(features, noise)
    for place in range(3):
        changed = noise.clone()
        changed[:, 5 * place : 5 * place + 5] *= -1
        assert float((network(features, changed) - images).abs().mean()) > 1e-4
    assert float((network(-features, noise) - images).abs().mean()) > 1e-4


def test_a_weight_is_divided_by_its_largest_singular_value():
    layer = SpectralLinear(6, 4).requires_grad_(False)
    torch.nn.init.normal_(layer.weight)
    left, values, _ = torch.linalg.svd(layer.weight)
    layer.u0.copy_(left[:, :1].T)
    torch.testing.assert_close(layer.scaled(), layer.weight / values[0])


def test_other_generators_are_refused():
    state = small().state_dict()
    with pytest.raises(KeyError, match="shared_feat"):
        BigGANDesign.of({name: value for name, value in state.items() if "shared_feat" not in name})
    with pytest.raises(KeyError, match="conv1"):
        BigGANDesign.of({})
    labelled = state | {"blocks.0.0.bn1.gain.weight": torch.zeros(16, 6 + 5 + 7)}
    with pytest.raises(ValueError, match="it takes labels beside features"):
        BigGANDesign.of(labelled)
