"""What DP-MGE asks, with what noise, and how that compares with the paper's Claim 1. No decoder is needed for it."""

import math

import pytest

from noisegate import Adjacency, Budget
from noisegate.privacy.grid import UNITS
from noisegate.schema import pixel_schema
from noisegate_papers.methods.mge import DPMGE, MEAN, SECOND

SCHEMA, UNLABELLED = pixel_schema(8, 8, labels=("across", "down")), pixel_schema(8, 8)
DIAGONAL = DPMGE(image=(8, 8, 1))
FULL = DPMGE(image=(8, 8, 1), covariance="full", axes=5)


@pytest.mark.parametrize(
    ("method", "adjacency", "times"),
    [
        (DIAGONAL, Adjacency.ADD_REMOVE, (1, 1)),
        (DIAGONAL, Adjacency.REPLACE_ONE, (math.sqrt(2), math.sqrt(2))),
        (DPMGE(image=(8, 8, 1), layer="late.convolution"), Adjacency.REPLACE_ONE, (2, math.sqrt(2))),
        (FULL, Adjacency.ADD_REMOVE, (1, 1)),
        (FULL, Adjacency.REPLACE_ONE, (2, 2)),
    ],
)
def test_the_stated_sensitivities(method, adjacency, times):
    """Squares have none below 0, so √2 whatever the features; what is rotated has both signs, so 2."""
    plan = method.plan(SCHEMA, Budget(epsilon=1.0, adjacency=adjacency))
    for name, expected in zip((MEAN, SECOND), times, strict=True):
        assert plan.release(name).event.sensitivity == pytest.approx(expected * UNITS, rel=1e-6)
        assert plan.release(name).event.sensitivity >= expected * UNITS


@pytest.mark.parametrize(("epsilon", "ratio"), [(0.1, 0.440), (1.0, 0.529), (10.0, 0.655)])
def test_the_noise_is_about_half_that_of_the_papers_claim(epsilon, ratio):
    """Claim 1 by its proof: each moment at ε/2 and δ/2, by the Rényi divergence of a Gaussian; the number is public."""
    delta = 1e-5
    root = 2 * math.log(2 / delta)
    claimed = math.sqrt(2) * (math.sqrt(root) + math.sqrt(root + epsilon)) / epsilon
    plan = DIAGONAL.plan(UNLABELLED, Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency.REPLACE_ONE))
    found = [plan.release(name).noise_std_natural / claimed for name in (MEAN, SECOND)]
    assert found == pytest.approx([ratio, ratio], abs=0.002)


def test_shares_move_noise_from_one_moment_to_the_other():
    plan = DPMGE(image=(8, 8, 1), second_share=4.0).plan(SCHEMA, Budget(epsilon=1.0))
    ratio = plan.release(MEAN).noise_std_natural / plan.release(SECOND).noise_std_natural
    assert ratio == pytest.approx(2, rel=1e-3)
