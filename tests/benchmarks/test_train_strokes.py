"""Training the encoder of drawings: folding, and what the one in the package knows of signs that it never saw."""

import sys
from pathlib import Path

import torch
from torch import nn

from noisegate_images.networks.strokes import load_strokes

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "images"))

from train_strokes import TrainedStrokes, draw_signs, folded_strokes


def trained():
    """An encoder whose batch normalisation is not what it starts as."""
    torch.manual_seed(0)
    network = TrainedStrokes()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for value in (
                module.running_mean,
                module.running_var,
                module.weight.data,
                module.bias.data,
            ):
                value.uniform_(0.5, 1.5)
    return network.eval()


def test_folding_changes_nothing_but_the_normalisation():
    network, images = trained(), torch.rand(3, 1, 28, 28)
    simple = folded_strokes(network)
    torch.testing.assert_close(simple(images), network(images), rtol=1e-4, atol=1e-4)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in simple.modules())
    assert not any(value.requires_grad for value in simple.parameters())


def test_drawings_of_one_sign_are_alike_and_those_of_others_are_not():
    """Signs that the encoder has never seen: the nearest other drawing is of the same sign."""
    images, signs = draw_signs(60, 3, seed=987)
    pictures = torch.from_numpy(images).float().div(255).reshape(-1, 1, 28, 28)
    vectors = nn.functional.normalize(load_strokes()(pictures), dim=1)
    found = {}
    for name, rows in {
        "encoded": vectors,
        "pixels": nn.functional.normalize(pictures.flatten(1), dim=1),
    }.items():
        alike = rows @ rows.T - 9 * torch.eye(len(rows))
        found[name] = float(
            (torch.from_numpy(signs)[alike.argmax(dim=1)] == torch.from_numpy(signs))
            .float()
            .mean()
        )
    assert found["encoded"] > max(0.5, found["pixels"] + 0.2), found
