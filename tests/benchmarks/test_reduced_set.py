"""The reduced set of Balog et al. and Figure 3 of DP-MERF: the authors' records, and points that are found again."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_merf"))

import reduced_set as module_of_sets
from reduced_set import fitted_weights, reduced_set

FOLDER = Path(module_of_sets.__file__).parent


@pytest.fixture(scope="module")
def figure():
    spec = importlib.util.spec_from_file_location(
        "dp_merf_figure_3", FOLDER / "figure_3.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FREQUENCIES = torch.from_numpy(
    np.random.default_rng(0).normal(0, 4, (400, 2)).astype(np.float32)
)


def features(points):
    phases = FREQUENCIES @ points.T
    return torch.cat([phases.cos(), phases.sin()]) / 20


def test_points_apart_are_found_one_after_another_with_their_weights():
    """A search that did not take off what is found would find the heavier one twice."""
    points = np.array([[0.2, 0.3], [1.9, 1.5]])
    weights = np.array([0.7, 0.3])
    embedding = features(torch.from_numpy(points).float()).double().numpy() @ weights
    starts = points[[0, 0]] + 0.1
    first, second = reduced_set(embedding, features, starts, rate=0.05, steps=60)
    assert (
        np.abs(first - points[0]).max() < 0.05
        and np.abs(second - points[0]).max() > 0.1
    )
    fitted = fitted_weights(embedding, features, points, records=10**6)
    assert fitted == pytest.approx(weights, abs=0.01)
    assert fitted_weights(-embedding, features, points, records=10**6) == pytest.approx(
        -weights, abs=0.01
    )


def test_the_records_are_the_authors_and_lie_within_their_public_bounds(figure):
    """The authors' file states the mean of all kernels between them; 400 of the records tell it to about 0.005."""
    records = figure.mixture()
    assert (
        records.shape == (100_000, 5)
        and records.min() > figure.LOWER
        and records.max() < figure.UPPER
    )
    some = records[np.random.default_rng(0).permutation(len(records))[:400]]
    assert figure.kernel_means(some, records[::50]).mean() == pytest.approx(
        figure.SQUARED_NORM, abs=0.02
    )
    zero = figure.distance(np.zeros((1, 5)), np.zeros(1), records[:10])
    assert zero == pytest.approx(figure.SQUARED_NORM**0.5)
    assert figure.distance(some, np.full(400, 1 / 400), records[::20]) < 0.09
    assert figure.numbers_of_points(100) == [1, 3, 5, 10, 17, 31, 56, 100]
