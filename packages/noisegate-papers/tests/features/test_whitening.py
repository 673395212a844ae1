import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate.schema import EncodedTable
from noisegate_papers.features.transforms import whitened


class Unit:
    """The columns themselves, with norm 1."""

    dim, norm, nonnegative = 8, 1.0, True

    def __call__(self, records):
        rows = records.numeric
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def records(rows, seed=0):
    random = np.random.default_rng(seed)
    spread = np.array([0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0, 0.0])
    mixed = 0.5 + random.uniform(-1, 1, size=(rows, 8)) * spread
    return EncodedTable(mixed, np.zeros((rows, 0), np.int32))


def made(**options):
    vectors = Unit()(records(3000))
    return whitened(Unit(), vectors, **{"dim": 5, "exponent": 1.0, "length": 2.0, **options}), vectors


def test_public_vectors_are_centred_and_as_wide_in_every_direction():
    feature_map, _ = made()
    found = feature_map(records(3000))
    assert found.shape == (3000, 5)
    assert found.dtype == np.float32
    assert np.abs(found.mean(axis=0)).max() < 1e-3
    # A few are cut at twice the length, which narrows them a little.
    covariance = np.cov(found.T)
    assert np.allclose(np.diag(covariance), 4 / 5, rtol=0.05)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 0.05


def test_the_exponent_says_how_much_short_directions_are_stretched():
    spreads = {w: made(exponent=w)[0](records(3000)).std(axis=0) for w in (0.0, 0.5, 1.0)}
    ratios = {w: spread[0] / spread[4] for w, spread in spreads.items()}
    assert ratios[1.0] == pytest.approx(1.0, rel=0.05)
    assert ratios[0.0] > 5
    assert ratios[0.5] == pytest.approx(np.sqrt(ratios[0.0]), rel=0.05)
    lengths = [np.sqrt(np.square(spread).sum()) for spread in spreads.values()]
    assert np.allclose(lengths, 2.0, rtol=0.03)


def test_directions_in_which_public_vectors_do_not_vary_are_left_out():
    vectors = np.zeros((100, 8), np.float32)
    vectors[:, 0] = np.linspace(0, 1, 100)
    feature_map = whitened(Unit(), vectors, dim=3, exponent=1.0, length=1.0)
    found = feature_map.after(np.eye(8, dtype=np.float32))
    assert np.abs(found[:, 0]).max() > 0.5
    assert not found[:, 1:].any()
    with pytest.raises(OptionError, match="the same features"):
        whitened(Unit(), np.ones((100, 8), np.float32), dim=3, exponent=1.0, length=1.0)


def test_what_is_far_from_all_public_vectors_is_shortened():
    feature_map, _ = made()
    far = np.zeros((1, 8), np.float32)
    far[0, 4] = 1.0
    assert np.linalg.norm(feature_map.after(far)) == pytest.approx(4.0, rel=1e-6)
    assert feature_map.norm == 4.0
