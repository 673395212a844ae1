import torch
from torch import nn

from noisegate_images.models.image import settle


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def batches(count, rows=200):
    random = torch.Generator().manual_seed(1)
    return [(2 + 3 * torch.randn(rows, 3, generator=random),) for _ in range(count)]


def test_statistics_are_those_of_the_batches_and_of_nothing_before():
    found = network().train()
    found(100 * torch.randn(50, 3))  # leaves its trace in the running statistics
    settle(found, batches(20))
    inputs = found[0](torch.cat([batch for (batch,) in batches(20)]))
    torch.testing.assert_close(
        found[1].running_mean, inputs.mean(dim=0), atol=1e-4, rtol=1e-4
    )
    torch.testing.assert_close(
        found[1].running_var, inputs.var(dim=0), atol=0.05, rtol=0.02
    )
    assert not any(layer.training for layer in found.modules())
