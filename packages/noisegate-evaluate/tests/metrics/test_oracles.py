"""The metrics against other implementations of them: prdc of Naeem et al. and torchmetrics."""

import warnings

import numpy as np
import pytest

from noisegate.errors import DataError, OptionError
from noisegate_evaluate import frechet_distance, kernel_distance, manifold_figures
from noisegate_evaluate.metrics import frechet as manifold


@pytest.mark.parametrize(("shift", "neighbours"), [(0.0, 5), (0.5, 3), (3.0, 1)])
def test_precision_recall_density_and_coverage_are_those_of_prdc(
    shift, neighbours, capsys, monkeypatch
):
    from prdc import compute_prdc

    monkeypatch.setattr(manifold, "_ROWS_AT_ONCE", 7)

    ours = np.random.default_rng(0).normal(size=(80, 4))
    theirs = np.random.default_rng(1).normal(shift, 1.0, size=(70, 4))
    found = manifold_figures(ours, theirs, neighbours=neighbours)
    expected = compute_prdc(
        real_features=theirs, fake_features=ours, nearest_k=neighbours
    )
    assert {name: getattr(found, name) for name in expected} == pytest.approx(expected)


def test_too_few_images_or_neighbours_are_named():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.raises(
        DataError, match=r"a set has 5 image\(s\); this figure needs at least 6"
    ):
        manifold_figures(rows, rows[:5])
    with pytest.raises(OptionError, match="neighbours is 0"):
        manifold_figures(rows, rows, neighbours=0)


@pytest.mark.slow  # torchmetrics takes a while to load
@pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance`")
def test_frechet_and_kernel_distance_are_those_of_torchmetrics():
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchmetrics.image.fid import FrechetInceptionDistance
        from torchmetrics.image.kid import KernelInceptionDistance

    class Flat(torch.nn.Module):
        num_features = 12

        def forward(self, images):
            return images.double().flatten(1) / 255

    random = torch.Generator().manual_seed(0)
    ours = torch.randint(0, 256, (40, 3, 2, 2), dtype=torch.uint8, generator=random)
    theirs = torch.randint(30, 220, (40, 3, 2, 2), dtype=torch.uint8, generator=random)
    rows = [Flat()(images).numpy() for images in (ours, theirs)]
    metrics = [
        FrechetInceptionDistance(feature=Flat()).set_dtype(torch.float64),
        KernelInceptionDistance(feature=Flat(), subsets=1, subset_size=40),
    ]
    for metric in metrics:
        metric.update(ours, real=False)
        metric.update(theirs, real=True)
    assert frechet_distance(*rows) == pytest.approx(
        float(metrics[0].compute()), rel=1e-6
    )
    assert kernel_distance(*rows).mean == pytest.approx(
        float(metrics[1].compute()[0]), rel=1e-6
    )
